"""Hugging Face's GPT-2, a peer in two benchmarks."""

from importlib import import_module
from typing import Any


def gpt2_like(ours: Any) -> Any:
    """Hugging Face's GPT-2 with random weights and the same shape as `ours`."""
    transformers: Any = import_module("transformers")
    transformers.logging.set_verbosity_error()
    shape = ours.config
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=ours.vocabulary,
            n_positions=shape.context,
            n_embd=shape.width,
            n_layer=shape.layers,
            n_head=shape.heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,
            eos_token_id=None,
        )
    )
