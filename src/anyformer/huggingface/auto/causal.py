"""A decoder as AutoModelForCausalLM loads it."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import GenerationMixin
from transformers.modeling_outputs import CausalLMOutputWithPast

from anyformer.describe import InputError
from anyformer.generation.rereading import read_again_beyond
from anyformer.huggingface.auto.bare import AnyformerModel
from anyformer.huggingface.auto.base import AnyformerPreTrainedModel
from anyformer.huggingface.auto.cache import AnyformerCache
from anyformer.model import Architecture
from anyformer.operations import Shape


class AnyformerForCausalLM(AnyformerPreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """A decoder, for training, likelihoods and generation with a cache."""

    def check(self, architecture: Architecture) -> None:
        super().check(architecture)
        if architecture.decoder is None or architecture.two_inputs or architecture.latents or architecture.head is None:
            raise InputError(f"a {architecture.shape_of_model} model is no causal language model")

    @property
    def base_model(self) -> AnyformerModel:
        """The model without the matrix that makes logits, on the same weights."""
        return AnyformerModel.of(self)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: AnyformerCache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        token_type_ids: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        prefix: Tensor | None = None,
        **more: Any,
    ) -> Any:
        """Logits (B, T, V) and, with labels, the mean loss of the next token, or its sum over `num_items_in_batch`.

        Arguments as in transformers. `prefix` (B,) int, of prefix masks: how many first positions see one another both ways.
        `shift_labels` (B, T): labels that are shifted already.
        """
        # No parameter of its own: a trainer would look for it among the labels of every batch.
        shift_labels = more.pop("shift_labels", None)
        self.refuse(more)
        keep = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        if labels is not None and not (isinstance(logits_to_keep, int) and logits_to_keep == 0):
            raise InputError("a loss over labels needs every logit: leave logits_to_keep out")
        outputs = self.read(
            input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
            inputs_embeds=inputs_embeds, use_cache=use_cache, token_type_ids=token_type_ids,
            output_hidden_states=output_hidden_states, prefix=prefix,
        )  # fmt: skip
        logits = self.model.logits(outputs.features[:, keep])
        loss = None
        if labels is not None or shift_labels is not None:
            loss = self.loss_function(
                logits=logits, labels=labels, vocab_size=logits.shape[-1], num_items_in_batch=num_items_in_batch,
                shift_labels=shift_labels,
            )  # fmt: skip
        made = CausalLMOutputWithPast(loss, logits, past_key_values=outputs.cache, hidden_states=outputs.states)
        return self.output(made, return_dict)

    def _prepare_cache_for_generation(
        self, generation_config: Any, model_kwargs: dict[str, Any], mode: Any, batch: int, length: int
    ) -> None:
        """Give generation a cache of decode states, where the architecture decodes step by step.

        A `static` one has room for the `length` of the text from the start, a `dynamic` one grows with it.
        """
        asked = generation_config.cache_implementation
        if asked not in (None, "dynamic", "static"):
            raise InputError(
                f"cache_implementation={asked!r}: each layer's kind of cache follows from the architecture; leave it out, or "
                f"say whether it grows with the text (dynamic) or has room for all of it (static)"
            )
        if generation_config.use_cache and self.model.architecture.folded_cost(Shape()).breaks("stepwise"):
            generation_config.use_cache = False
        if generation_config.use_cache and model_kwargs.get("past_key_values") is None:
            model_kwargs["past_key_values"] = AnyformerCache(length if asked == "static" else 0)

    def prepare_inputs_for_generation(
        self,
        input_ids: Tensor,
        next_sequence_length: int | None = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """The inputs of the next call: the whole text again where it passes a length that asks for it.

        Transformers looks at the names of the arguments: `kwargs` says that what the forward pass takes may be given.
        """
        if isinstance(past_key_values, AnyformerCache):
            held, length = past_key_values.get_seq_length(), input_ids.shape[1]
            if held and any(held <= beyond < length for beyond in read_again_beyond(self.model)):
                past_key_values.reset()
                next_sequence_length = None
        kwargs |= {"past_key_values": past_key_values, "inputs_embeds": inputs_embeds}
        return super().prepare_inputs_for_generation(input_ids, next_sequence_length, **kwargs)
