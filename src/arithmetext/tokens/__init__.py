"""Words ⇄ tokens: byte-pair encoding as in the paper, and one token per word."""

from .spelling import Decoded
from .tokenizer import BPE, Tokenizer, WordTokens, load

__all__ = ["BPE", "Decoded", "Tokenizer", "WordTokens", "load"]
