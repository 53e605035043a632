"""The base of all classes registered with transformers: the model, its embeddings, its checkpointing, one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPast

from anyformer.describe import InputError, change
from anyformer.huggingface.auto.arguments import (
    check_held,
    check_positions,
    padding_of,
    positions_of,
    refuse_others,
    types_of,
)
from anyformer.huggingface.auto.cache import AnyformerCache
from anyformer.huggingface.auto.configuration import AnyformerConfig, InPackage
from anyformer.huggingface.auto.hidden_states import embedded_as, layers_of, states_of
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer


@dataclass(frozen=True)
class Outputs:
    """Features (B, T, D) of one call, the cache for the next, and L + 1 hidden states (B, T, D)."""

    features: Tensor
    cache: AnyformerCache | None = None
    states: tuple[Tensor, ...] | None = None


class AnyformerPreTrainedModel(InPackage, PreTrainedModel):  # type: ignore[misc]
    """Holds the Transformer of a configuration's architecture as `model`."""

    config_class = AnyformerConfig
    base_model_prefix = ""
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = True
    gradient_checkpointing = False

    def __init__(self, config: AnyformerConfig) -> None:
        super().__init__(config)
        architecture = Architecture.parse(config.architecture, where="config.json: architecture")
        self.check(architecture)
        self.model = Transformer(architecture)
        self._no_split_modules = self._on_one_device()
        self.post_init()

    def _on_one_device(self) -> list[str]:
        """The classes of modules that `device_map` keeps on one device: layers, or the model where its ends share a weight."""
        head = self.model.architecture.head
        if head is not None and head.tied:
            return [type(self.model).__name__]
        stacks = map(self.model.get_submodule, self.model.architecture.stacks)
        return sorted({type(layer).__name__ for stack in stacks for layer in stack.layers})  # type: ignore[union-attr]

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that this class cannot run."""
        if architecture.embedding.symbols is None:
            raise InputError(
                f"{type(self).__name__} reads tokens, and this architecture reads {architecture.embedding.kind}: "
                f"use anyformer.load(directory)"
            )

    def read(
        self,
        input_ids: Tensor | None,
        *,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        past_key_values: AnyformerCache | None = None,
        use_cache: bool | None = None,
        output_hidden_states: bool | None = None,
        **others: Any,
    ) -> Outputs:
        """One sequence through the model; `others`: further arguments of `Transformer.features`."""
        tokens, embeds = one_of(input_ids, inputs_embeds)
        check_held(self.model, tokens)
        shape, layers = (tokens.shape[0], tokens.shape[1]), self.model.architecture.output_stack
        cache = self.cache_of(past_key_values, use_cache)
        padding = padding_of(attention_mask, *shape, cache)
        others |= positions_of(position_ids, padding, masked=attention_mask is not None, shape=shape, cache=cache)
        others |= types_of(token_type_ids, table="embedding.types" in self.model.declared)
        check_positions(others.get("positions"), layers.max_length)
        if cache is not None:
            others["state"] = cache.reserve(self.model, *shape)
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        with embedded_as(self.model, embeds), states_of(layers_of(self.model), wanted) as inputs:
            features = self.model.features(tokens, padding=padding, **others)
        if cache is not None:
            cache.remember(padding, *shape, features.device)
        return Outputs(features, cache, inputs.ordered(padding, others.get("state"), features) if wanted else None)

    def cache_of(self, given: Any, use_cache: bool | None) -> AnyformerCache | None:
        """The cache of a call: the one given, a new one where `use_cache` asks for it, or none."""
        if given is not None and not isinstance(given, AnyformerCache):
            raise InputError(
                f"{type(self).__name__} takes an AnyformerCache, got {type(given).__name__}: leave past_key_values out of the "
                f"first call, set use_cache=True, and pass on the cache that it returns"
            )
        wanted = getattr(self.config, "use_cache", False) if use_cache is None else use_cache
        return given if given is not None else AnyformerCache() if wanted and not self.gradient_checkpointing else None

    def output(self, made: Any, return_dict: bool | None) -> Any:
        """An output of transformers, as a tuple if asked."""
        wanted = self.config.return_dict if return_dict is None else return_dict
        return made if wanted else made.to_tuple()

    def refuse(self, more: dict[str, Any]) -> None:
        """Refuse arguments that the forward pass does not know."""
        code = type(self).forward.__code__
        refuse_others(type(self).__name__, code.co_varnames[1 : code.co_argcount], more)

    @torch.no_grad()
    def initialize_weights(self) -> None:
        """Fill parameters that no file holds by the architecture's initialisation, from torch's seed."""
        seed = int(torch.randint(0, 2**31, ()))
        for name, parameter in self.model.named_parameters():
            if not getattr(parameter, "_is_hf_initialized", False):
                parameter.copy_(self.model.initialisation.fill(self.model.declared[name], name, seed))

    def _set_gradient_checkpointing(
        self, enable: bool = True, gradient_checkpointing_func: Callable[..., Any] | None = None, every_n_layers: int = 1
    ) -> None:
        """Recompute every layer in the backward pass (`Plan.checkpointing = "full"`), or none."""
        if every_n_layers != 1:
            raise InputError(f"every layer is checkpointed or none: leave every_n_layers out, got {every_n_layers}")
        if getattr(gradient_checkpointing_func, "keywords", {}).get("use_reentrant", False):
            raise InputError("checkpointing here is never reentrant: set use_reentrant=False")
        self.gradient_checkpointing = enable
        for name in self.model.architecture.stacks:
            self.model.get_submodule(name).checkpointing = "full" if enable else "none"  # type: ignore[assignment]

    def get_input_embeddings(self) -> nn.Module:
        """The module of the embedding, whose `weight` is the table."""
        embedding: nn.Module = self.model.embedding
        return embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        _replace(self.get_input_embeddings(), value)

    def get_output_embeddings(self) -> nn.Module | None:
        """The module whose `weight` makes logits: the head, or the embedding it is tied to."""
        head = self.model.architecture.head
        if head is None:
            return None
        if not head.tied:
            return self.model.head
        return self.model.decoder_embedding or self.model.embedding

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        own = self.get_output_embeddings()
        if own is None:
            raise InputError("this model has no head")
        _replace(own, new_embeddings)

    def _resize_token_embeddings(
        self, new_num_tokens: int | None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Module:
        """Change the rows of the table and of the head; new ones are the mean of the old, or start as in training."""
        count, multiple = new_num_tokens or len(self.get_input_embeddings().get_parameter("weight")), pad_to_multiple_of or 1
        count = -(-count // multiple) * multiple
        self.model = resized(self.model, count, mean=mean_resizing)
        self.config.architecture = self.model.architecture.with_plugins()
        self._set_gradient_checkpointing(self.gradient_checkpointing)
        return self.get_input_embeddings()


def _replace(module: nn.Module, other: nn.Module) -> None:
    """Give `module` the weight of `other`, which must have the same shape."""
    old, new = (owner.get_parameter("weight") for owner in (module, other))
    if old.shape != new.shape:
        raise InputError(f"the weight is {tuple(old.shape)} and the new one {tuple(new.shape)}: use resize_token_embeddings")
    module.weight = new


def one_of(tokens: Tensor | None, embeds: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Tokens (B, T), zeros where `embeds` (B, T, D) are given instead, and the embeds."""
    if (tokens is None) == (embeds is None):
        raise InputError("give either input_ids or inputs_embeds")
    if embeds is None:
        assert tokens is not None
        if tokens.dim() != 2:
            raise InputError(f"input_ids should have shape (B, T), got {tuple(tokens.shape)}")
        return tokens, None
    if embeds.dim() != 3:
        raise InputError(f"inputs_embeds should have shape (B, T, D), got {tuple(embeds.shape)}")
    return torch.zeros(embeds.shape[:2], dtype=torch.int64, device=embeds.device), embeds


class AnyformerModel(AnyformerPreTrainedModel):
    """A model of one input without its head: the features that a head would read."""

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
        made = BaseModelOutputWithPast(outputs.features, past_key_values=outputs.cache, hidden_states=outputs.states)
        return self.output(made, return_dict)


def resized(model: Transformer, vocab: int, *, mean: bool) -> Transformer:
    """The model with `vocab` rows in its embedding and, where the head has a logit per token, as many logits.

    New rows are the mean of the old if `mean`, which leaves the odds between old tokens; else they start as in training.
    """
    architecture = model.architecture
    if vocab == architecture.embedding.symbols:
        return model
    if architecture.decoder_embedding is not None:
        raise InputError(
            "resize_token_embeddings: source and target have tables of their own; change the architecture by path instead"
        )
    wanted = change(architecture, "embedding.vocab", vocab)
    with torch.device("meta"):
        fresh = Transformer(wanted, model.plan)
    seed = int(torch.randint(0, 2**31, ()))
    tensors: dict[str, Tensor] = {}
    for name, old in model.named_parameters(remove_duplicate=False):
        weight = fresh.declared.get(name)
        if weight is None or weight.shape == old.shape:
            tensors[name] = old
            continue
        start = old.detach()
        more = weight.shape[0] - len(start)
        rows = start.mean(0, keepdim=True).expand(max(more, 0), *start.shape[1:])
        if not mean:
            rows = wanted.initialisation.fill(weight, name, seed)[len(start) :].to(start)
        tensors[name] = nn.Parameter(torch.cat([start[: weight.shape[0]], rows]), requires_grad=old.requires_grad)
    fresh.load_state_dict(tensors, assign=True)
    return fresh.train(model.training)
