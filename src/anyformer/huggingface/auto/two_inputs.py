"""A model of a source and a target as AutoModelForSeq2SeqLM loads it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.modeling_outputs import Seq2SeqLMOutput

from anyformer.describe import InputError
from anyformer.huggingface.auto.arguments import check_held, padding_of
from anyformer.huggingface.auto.base import AnyformerPreTrainedModel
from anyformer.huggingface.auto.hidden_states import layers_of, states_of
from anyformer.model import Architecture


class AnyformerForConditionalGeneration(AnyformerPreTrainedModel):
    """A model of a source and a target, for training and likelihoods; `anyformer.generate` generates."""

    def check(self, architecture: Architecture) -> None:
        super().check(architecture)
        if not architecture.two_inputs or architecture.head is None:
            raise InputError(f"a {architecture.shape_of_model} model reads one sequence or has no head")

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **more: Any,
    ) -> Any:
        """Logits (B, T, V) of the target; without `decoder_input_ids` the labels, shifted right, are the target."""
        self.refuse(more)
        if input_ids is None:
            raise InputError("input_ids are missing: the source")
        check_held(self.model, input_ids)
        target = decoder_input_ids if decoder_input_ids is not None else self.shifted(labels)
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        if wanted and self.model.architecture.source == "prefix":
            raise InputError("output_hidden_states: the layers read the source before the target in one sequence")
        with states_of(layers_of(self.model), wanted) as inputs:
            features = self.model.features(
                input_ids,
                target,
                padding=padding_of(attention_mask, len(input_ids), input_ids.shape[1], None),
                decoder_padding=padding_of(decoder_attention_mask, len(target), target.shape[1], None),
            )
        logits, loss = self.model.logits(features), None
        if labels is not None:
            loss = self.loss_function(
                logits=logits, labels=None, vocab_size=logits.shape[-1], num_items_in_batch=num_items_in_batch,
                shift_labels=labels.contiguous(),
            )  # fmt: skip
        states = inputs.ordered(None, None, features) if wanted else None
        return self.output(Seq2SeqLMOutput(loss, logits, decoder_hidden_states=states), return_dict)

    def shifted(self, labels: Tensor | None) -> Tensor:
        """Labels shifted right: the start token first, and in place of ignored labels."""
        start = getattr(self.config, "decoder_start_token_id", None)
        if labels is None or start is None:
            missing = "decoder_input_ids or labels" if labels is None else "config.decoder_start_token_id"
            raise InputError(f"{missing}: missing, so there is no target to read")
        first = torch.full_like(labels[:, :1], start)
        return torch.cat([first, labels[:, :-1].masked_fill(labels[:, :-1] == -100, start)], 1)
