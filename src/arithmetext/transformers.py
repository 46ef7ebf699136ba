"""Let Hugging Face transformers load models with long convolutions.

    import arithmetext.transformers
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("runs/longconv-laptop/model")

The model is ours inside; transformers adds its `generate`, which reads all tokens again for each
new one (`nt generate` does not). Models that transformers saves can be loaded in this way only.
GPTs need none of this: transformers has their classes.
"""

from typing import Any, ClassVar

from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GenerationMixin,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import CausalLMOutput

from .errors import InputError
from .models.config import LongConvConfig
from .models.longconv import LongConv


class LongConvPretrainedConfig(PretrainedConfig):  # type: ignore[no-untyped-call]
    """The shape of the model, under our names."""

    model_type = "longconv"
    attribute_map: ClassVar[dict[str, str]] = {
        "num_hidden_layers": "layers",
        "hidden_size": "width",
    }

    def __init__(
        self,
        vocab_size: int = 1024,
        layers: int = 3,
        width: int = 192,
        context: int = 4096,
        **settings: Any,
    ) -> None:
        self.vocab_size, self.layers, self.width, self.context = vocab_size, layers, width, context
        super().__init__(**settings)


class LongConvForCausalLM(PreTrainedModel, GenerationMixin):  # type: ignore[no-untyped-call]
    config_class = LongConvPretrainedConfig
    base_model_prefix = "model"

    def __init__(self, config: LongConvPretrainedConfig) -> None:
        super().__init__(config)
        shape = LongConvConfig(layers=config.layers, width=config.width, context=config.context)
        self.model = LongConv(shape, vocabulary=config.vocab_size)
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **_: Any,
    ) -> CausalLMOutput:
        if attention_mask is not None and not attention_mask.all():
            raise InputError(
                "this model would read padding as text: give it prompts of equal length"
            )
        logits = self.model(input_ids)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, vocab_size=self.config.vocab_size)
        return CausalLMOutput(loss=loss, logits=logits)

    def prepare_inputs_for_generation(  # type: ignore[override]
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        # transformers allows a mask only if it finds an argument named `kwargs` here.
        return {"input_ids": input_ids, "attention_mask": attention_mask}

    def _init_weights(self, module: Any) -> None:
        """Nothing: a new model has initialised itself, and files must hold every tensor."""


AutoConfig.register("longconv", LongConvPretrainedConfig)
AutoModelForCausalLM.register(LongConvPretrainedConfig, LongConvForCausalLM)
