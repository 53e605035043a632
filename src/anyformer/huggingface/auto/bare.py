"""A model without its head, as AutoModel loads it."""

from __future__ import annotations

from typing import Any, Self

from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPast

from anyformer.describe import InputError
from anyformer.huggingface.auto.base import AnyformerPreTrainedModel
from anyformer.huggingface.auto.cache import AnyformerCache
from anyformer.huggingface.auto.configuration import AnyformerConfig
from anyformer.huggingface.auto.engine import AnyformerEngineModel
from anyformer.huggingface.auto.kernels import USUAL, of_engine
from anyformer.model import Architecture


class AnyformerModel(AnyformerPreTrainedModel):
    """A model of one input without its head: the features that a head would read."""

    transformed = False

    @classmethod
    def _from_config(cls, config: AnyformerConfig, **more: Any) -> Any:
        """With a kernel that an engine has registered: the form in which engines look for what they know."""
        if of_engine(more.get("attn_implementation") or config._attn_implementation or USUAL):
            return AnyformerEngineModel._from_config(config, **more)
        return super()._from_config(config, **more)

    @classmethod
    def of(cls, model: AnyformerPreTrainedModel) -> Self:
        """The same weights without the matrix that makes logits: what a trainer calls that makes its own.

        Its features are what that matrix is multiplied by, behind the head's dense layer where it has one.
        """
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made.config, made.model, made.training = model.config, model.model, model.training
        made.gradient_checkpointing, made.transformed = model.gradient_checkpointing, True
        return made

    def check(self, architecture: Architecture) -> None:
        super().check(architecture)
        if architecture.two_inputs:
            raise InputError("a model of two inputs has its own class: AutoModelForSeq2SeqLM")

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: AnyformerCache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        token_type_ids: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **more: Any,
    ) -> Any:
        """Features (B, T, D); arguments as transformers has them."""
        self.refuse(more)
        outputs = self.read(
            input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
            inputs_embeds=inputs_embeds, use_cache=use_cache, token_type_ids=token_type_ids,
            output_hidden_states=output_hidden_states,
        )  # fmt: skip
        features = outputs.features
        if self.transformed and self.model.head is not None:
            features = self.model.head.transform(features)
        made = BaseModelOutputWithPast(features, past_key_values=outputs.cache, hidden_states=outputs.states)
        return self.output(made, return_dict)
