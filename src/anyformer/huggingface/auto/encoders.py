"""Encoders with a head as AutoModelForMaskedLM and AutoModelForSequenceClassification load them."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.modeling_outputs import MaskedLMOutput, SequenceClassifierOutput

from anyformer.describe import InputError
from anyformer.huggingface.auto.base import AnyformerPreTrainedModel
from anyformer.model import Architecture


class AnyformerEncoder(AnyformerPreTrainedModel):
    """An encoder with a head: the forward pass that the classes below share."""

    output_class: Any

    def logits(self, features: Tensor, attention_mask: Tensor | None, tokens: Tensor | None) -> Tensor:
        """Logits of features (B, T, D) of the tokens (B, T), None where embeddings are given."""
        raise NotImplementedError

    def loss(self, logits: Tensor, labels: Tensor, **more: Any) -> Any:
        """The loss of transformers' function for the class."""
        raise NotImplementedError

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
        """Logits and, with labels, the mean loss, or its sum over `num_items_in_batch`."""
        self.refuse(more)
        outputs = self.read(
            input_ids, attention_mask=attention_mask, position_ids=position_ids, inputs_embeds=inputs_embeds,
            token_type_ids=token_type_ids, output_hidden_states=output_hidden_states, use_cache=False,
        )  # fmt: skip
        logits = self.logits(outputs.features, attention_mask, input_ids)
        loss = None if labels is None else self.loss(logits, labels, num_items_in_batch=num_items_in_batch)
        return self.output(self.output_class(loss, logits, outputs.states), return_dict)


class AnyformerForMaskedLM(AnyformerEncoder):
    """An encoder with logits (B, T, V) of every position."""

    output_class = MaskedLMOutput

    def check(self, architecture: Architecture) -> None:
        super().check(architecture)
        if architecture.decoder is not None or architecture.head is None or architecture.head.pool is not None:
            raise InputError("a masked language model is an encoder whose head gives logits of every position")

    def logits(self, features: Tensor, attention_mask: Tensor | None, tokens: Tensor | None) -> Tensor:
        return self.model.logits(features)

    def loss(self, logits: Tensor, labels: Tensor, **more: Any) -> Any:
        return self.loss_function(logits=logits, labels=labels, vocab_size=logits.shape[-1], **more)


class AnyformerForSequenceClassification(AnyformerEncoder):
    """A model whose head gives logits (B, V) of the whole row; the loss is that of transformers' `problem_type`."""

    output_class = SequenceClassifierOutput

    def check(self, architecture: Architecture) -> None:
        super().check(architecture)
        if architecture.head is None or architecture.head.pool is None or architecture.two_inputs:
            raise InputError("a classifier of sequences has a head that pools: set head.pool")

    def logits(self, features: Tensor, attention_mask: Tensor | None, tokens: Tensor | None) -> Tensor:
        assert self.model.head is not None
        padding = None if attention_mask is None or self.model.latents is not None else attention_mask == 0
        return self.model.logits(self.model.head.pooled(features, padding, tokens))

    def loss(self, logits: Tensor, labels: Tensor, **more: Any) -> Any:
        return self.loss_function(labels=labels, pooled_logits=logits, config=self.config, **more)
