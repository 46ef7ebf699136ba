"""Let Hugging Face transformers load models with long convolutions.

    import arithmetext.transformers
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("runs/longconv-laptop/model")

The model is ours inside; transformers adds its `generate`, which reads all tokens again for each
new one (`nt generate` does not). GPTs need none of this: transformers has their classes.
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

    def forward(self, input_ids: Tensor, **_: Any) -> CausalLMOutput:
        return CausalLMOutput(logits=self.model(input_ids))

    def prepare_inputs_for_generation(  # type: ignore[override]
        self, input_ids: Tensor, **_: Any
    ) -> dict[str, Any]:
        return {"input_ids": input_ids}

    def _init_weights(self, module: Any) -> None:
        """Nothing: our model has initialised itself."""


AutoConfig.register("longconv", LongConvPretrainedConfig)
AutoModelForCausalLM.register(LongConvPretrainedConfig, LongConvForCausalLM)
