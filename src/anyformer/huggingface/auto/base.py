"""The base of all classes registered with transformers: the model, its embeddings, its checkpointing, one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from anyformer.describe import InputError, change
from anyformer.huggingface.auto.arguments import (
    check_held,
    check_positions,
    one_of,
    padding_of,
    positions_of,
    refuse_others,
    types_of,
)
from anyformer.huggingface.auto.cache import AnyformerCache
from anyformer.huggingface.auto.configuration import AnyformerConfig, InPackage
from anyformer.huggingface.auto.hidden_states import embedded_as, layers_of, states_of
from anyformer.huggingface.auto.kernels import USUAL, check_kernel, use_kernel
from anyformer.model import Architecture
from anyformer.model.initialise import on_meta
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
    _supports_attention_backend = _supports_sdpa = _supports_flex_attn = True
    accepts_loss_kwargs = True
    gradient_checkpointing = False

    def __init__(self, config: AnyformerConfig) -> None:
        super().__init__(config)
        architecture = Architecture.parse(config.architecture, where="config.json: architecture")
        self.check(architecture)
        check_kernel(self.config._attn_implementation, architecture)
        self.model = self.built(architecture)
        use_kernel(self.model, self.config)
        self._no_split_modules = self._on_one_device()
        self.post_init()

    def built(self, architecture: Architecture) -> Transformer:
        """The module of the architecture."""
        return Transformer(architecture)

    def _check_and_adjust_attn_implementation(self, attn_implementation: str | None, *more: Any, **others: Any) -> str:
        return attn_implementation or USUAL

    def set_attn_implementation(self, attn_implementation: str, allow_all_kernels: bool = False) -> None:
        """Compute attention by another function from now on: see `kernels`."""
        check_kernel(attn_implementation, self.model.architecture)
        self.config._attn_implementation = attn_implementation
        use_kernel(self.model, self.config)

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
        """The module whose `weight` (and `bias`, None without) makes logits: the head, or a view of the table it is tied to."""
        head = self.model.architecture.head
        return TiedTable(self.model) if head is not None and head.tied else self.model.head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        head = self.model.architecture.head
        if head is None or self.model.head is None:
            raise InputError("this model has no head")
        _replace((self.model.decoder_embedding or self.model.embedding) if head.tied else self.model.head, new_embeddings)

    def _resize_token_embeddings(
        self, new_num_tokens: int | None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Module:
        """Change the rows of the table and of the head; new ones are the mean of the old, or start as in training."""
        count, multiple = new_num_tokens or len(self.get_input_embeddings().get_parameter("weight")), pad_to_multiple_of or 1
        count = -(-count // multiple) * multiple
        self.model = resized(self.model, count, mean=mean_resizing)
        self.config.architecture = self.model.architecture.with_plugins()
        self._set_gradient_checkpointing(self.gradient_checkpointing)
        use_kernel(self.model, self.config)
        return self.get_input_embeddings()


class TiedTable(nn.Module):
    """What a tied head multiplies by, as it stands in the model at every moment; it holds nothing itself."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self._of = (model,)  # in a tuple, lest its weights be this module's too

    @property
    def weight(self) -> nn.Parameter:
        """(V, D): the table of the output embedding."""
        (model,) = self._of
        return (model.decoder_embedding or model.embedding).get_parameter("weight")

    @property
    def bias(self) -> nn.Parameter | None:
        """(V,): the head's own."""
        (model,) = self._of
        return None if model.head is None else model.head.bias


def _replace(module: nn.Module, other: nn.Module) -> None:
    """Give `module` the weight of `other`, which must have the same shape."""
    old, new = (owner.get_parameter("weight") for owner in (module, other))
    if old.shape != new.shape:
        raise InputError(f"the weight is {tuple(old.shape)} and the new one {tuple(new.shape)}: use resize_token_embeddings")
    module.weight = new


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
    with on_meta():
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
