"""Let Hugging Face transformers load models with long convolutions, and models of phases.

    import arithmetext.transformers
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("runs/longconv-laptop/model")

The model is ours inside; transformers adds its `generate`, which reads all tokens again for each
new one (`nt generate` does not). Models that transformers saves can be loaded in this way only.
GPTs need none of this: transformers has their classes.
"""

from dataclasses import fields
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
from .models.config import LongConvConfig, PhasesConfig


class OurPretrainedConfig(PretrainedConfig):  # type: ignore[no-untyped-call]
    """The shape of a model, under our names."""

    shape: ClassVar[type[LongConvConfig] | type[PhasesConfig]]
    attribute_map: ClassVar[dict[str, str]] = {
        "num_hidden_layers": "layers",
        "hidden_size": "width",
    }

    def __init__(self, vocab_size: int = 1024, **settings: Any) -> None:
        self.vocab_size = vocab_size
        for field in fields(self.shape):
            setattr(self, field.name, settings.pop(field.name, field.default))
        super().__init__(**settings)


class LongConvPretrainedConfig(OurPretrainedConfig):  # type: ignore[no-untyped-call]
    model_type = "longconv"
    shape = LongConvConfig


class PhasesPretrainedConfig(OurPretrainedConfig):  # type: ignore[no-untyped-call]
    model_type = "phases"
    shape = PhasesConfig


class OurModelForCausalLM(PreTrainedModel, GenerationMixin):  # type: ignore[no-untyped-call]
    base_model_prefix = "model"

    def __init__(self, config: OurPretrainedConfig) -> None:
        super().__init__(config)
        shape = config.shape(**{f.name: getattr(config, f.name) for f in fields(config.shape)})
        self.model = shape.build(config.vocab_size, "ntp")
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


class LongConvForCausalLM(OurModelForCausalLM):  # type: ignore[no-untyped-call]
    config_class = LongConvPretrainedConfig


class PhasesForCausalLM(OurModelForCausalLM):  # type: ignore[no-untyped-call]
    config_class = PhasesPretrainedConfig


for _config, _model in (
    (LongConvPretrainedConfig, LongConvForCausalLM),
    (PhasesPretrainedConfig, PhasesForCausalLM),
):
    AutoConfig.register(_config.model_type, _config)
    AutoModelForCausalLM.register(_config, _model)
