"""Any architecture as a model of transformers: importing this registers it with the Auto classes.

    import anyformer.huggingface.auto
    model = AutoModelForCausalLM.from_pretrained(directory)    # a directory that `anyformer export` wrote

Pipelines, evaluation harnesses and trainers that build on transformers then take it like any other model.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, GenerationMixin, PreTrainedModel
from transformers.configuration_utils import PretrainedConfig
from transformers.modeling_outputs import CausalLMOutput, MaskedLMOutput

from anyformer.huggingface.own import MODEL_TYPE
from anyformer.model import Architecture, Transformer


class AnyformerConfig(PretrainedConfig):  # type: ignore[misc]
    """The architecture as data, beside the keys that transformers asks for."""

    model_type = MODEL_TYPE

    def __init__(self, architecture: dict[str, Any] | None = None, **more: Any) -> None:
        self.architecture = architecture
        super().__init__(**{"use_cache": False, "tie_word_embeddings": False, **more})


class AnyformerModel(PreTrainedModel):  # type: ignore[misc]
    """Holds the Transformer of a configuration's architecture as `model`."""

    config_class = AnyformerConfig
    base_model_prefix = ""
    main_input_name = "input_ids"

    def __init__(self, config: AnyformerConfig) -> None:
        super().__init__(config)
        self.model = Transformer(Architecture.parse(config.architecture, where="config.json: architecture"))
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Weights come from a file; `anyformer.build` starts new ones."""

    def get_input_embeddings(self) -> nn.Module:
        embedding: nn.Module = self.model.embedding
        return embedding

    def logits(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """The logits of a batch that may be padded on either side."""
        padding = None if attention_mask is None else attention_mask == 0
        result: Tensor = self.model(input_ids, padding=padding)
        return result


class AnyformerForCausalLM(AnyformerModel, GenerationMixin):  # type: ignore[misc]
    """A decoder, for generation and likelihoods. It recomputes the whole text at each step: `anyformer generate` is faster."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None, **ignored: Any
    ) -> CausalLMOutput:
        logits = self.logits(input_ids, attention_mask)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits)

    def prepare_inputs_for_generation(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **ignored: Any
    ) -> dict[str, Tensor | None]:
        return {"input_ids": input_ids, "attention_mask": attention_mask}


class AnyformerForMaskedLM(AnyformerModel):
    """An encoder with a head over its vocabulary."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None, **ignored: Any
    ) -> MaskedLMOutput:
        logits = self.logits(input_ids, attention_mask)
        loss = None if labels is None else nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        return MaskedLMOutput(loss=loss, logits=logits)


AutoConfig.register(MODEL_TYPE, AnyformerConfig, exist_ok=True)
AutoModelForCausalLM.register(AnyformerConfig, AnyformerForCausalLM, exist_ok=True)
AutoModelForMaskedLM.register(AnyformerConfig, AnyformerForMaskedLM, exist_ok=True)
