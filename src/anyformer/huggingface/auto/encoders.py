"""Encoders with a head as AutoModelForMaskedLM and AutoModelForSequenceClassification load them."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.modeling_outputs import MaskedLMOutput, SequenceClassifierOutput

from anyformer.huggingface.auto.base import AnyformerPreTrainedModel, Read
from anyformer.model import Architecture, InputError


class AnyformerForMaskedLM(AnyformerPreTrainedModel):
    """An encoder with logits of every position."""

    def check(self, architecture: Architecture) -> None:
        super().check(architecture)
        if architecture.decoder is not None or architecture.head is None or architecture.head.pool is not None:
            raise InputError("a masked language model is an encoder whose head gives logits of every position")

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **more: Any,
    ) -> Any:
        """Logits (B, T, V) and, with labels, the mean loss, or its sum over `num_items_in_batch`."""
        self.refuse(more)
        found: Read = self.read(
            input_ids, attention_mask=attention_mask, position_ids=position_ids, inputs_embeds=inputs_embeds,
            token_type_ids=token_type_ids, output_hidden_states=output_hidden_states, use_cache=False,
        )  # fmt: skip
        logits, loss = self.model.logits(found.features), None
        if labels is not None:
            loss = self.loss_function(
                logits=logits, labels=labels, vocab_size=logits.shape[-1], num_items_in_batch=num_items_in_batch
            )
        return self.output(MaskedLMOutput(loss, logits, found.states), return_dict)


class AnyformerForSequenceClassification(AnyformerPreTrainedModel):
    """An encoder whose head gives logits of the whole row."""

    def check(self, architecture: Architecture) -> None:
        super().check(architecture)
        if architecture.head is None or architecture.head.pool is None or architecture.two_inputs:
            raise InputError("a classifier of sequences has a head that pools: set head.pool")

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **more: Any,
    ) -> Any:
        """Logits (B, V) and, with labels, the loss of transformers' `problem_type`."""
        self.refuse(more)
        found: Read = self.read(
            input_ids, attention_mask=attention_mask, position_ids=position_ids, inputs_embeds=inputs_embeds,
            token_type_ids=token_type_ids, output_hidden_states=output_hidden_states, use_cache=False,
        )  # fmt: skip
        padding = None if attention_mask is None or self.model.latents is not None else attention_mask == 0
        assert self.model.head is not None
        logits, loss = self.model.logits(self.model.head.pooled(found.features, padding)), None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return self.output(SequenceClassifierOutput(loss, logits, found.states), return_dict)
