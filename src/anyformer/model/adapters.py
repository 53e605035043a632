"""Adapters in a built model, and the model that they make with it when they are merged."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from anyformer.describe import UserError
from anyformer.model.adapted import adapted
from anyformer.model.architecture import Architecture
from anyformer.model.divided import copy_in, whole
from anyformer.model.initialise import on_meta
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.parts.call.noise import InputDropout, Noise, bits_of
from anyformer.parts.initialisation import FanIn, Initialisation
from anyformer.plan import Plan
from anyformer.tuning import Adapter, Prompt
from anyformer.tuning.adapter import LowRankAdapter
from anyformer.tuning.adapter_module import AdaptedLinear
from anyformer.tuning.prompt import VIRTUAL

_RULES = Initialisation(matrix=FanIn())
"""A starts at N(0, 1 / inputs), so that its outputs have the variance of its inputs; B at zero."""


def adapt(model: Transformer, adapter: Adapter, seed: int) -> None:
    """Put the adapter beside the model's weights, with values keyed by (`seed`, name).

    Low-rank matrices leave the outputs those of the model. On the meta device without values. Raises `UserError` for a matrix
    that no linear map of its own holds.
    """
    added = adapter.added(model.architecture.trained_cost(Shape(source=1)))
    match adapter:
        case LowRankAdapter():
            _put_beside(model, adapter)
            model.own_rules = {**model.own_rules, **dict.fromkeys(added, _RULES)}
        case Prompt():
            model.put_in_front(adapted(model.architecture, adapter))
    model.added |= added
    model.adapter = adapter
    model.find_draws()
    if model.device.type != "meta":
        for name, weight in added.items():
            rules = model.own_rules.get(name, model.initialisation)
            copy_in(model.get_parameter(name), rules.fill(weight, name, seed))
        begin(model, seed)


def _put_beside(model: Transformer, adapter: LowRankAdapter) -> None:
    """Give every matrix that the adapter names its low-rank matrices, still without values."""
    wanted = adapter.ranks(model.architecture.trained_cost(Shape(source=1)))
    holders = [(name, module) for name, module in model.named_modules() if not isinstance(module, AdaptedLinear)]
    found = set()
    for holder, module in holders:
        for leaf, linear in list(module.named_children()):
            name = f"{holder}.{leaf}" if holder else leaf
            if (path := f"{name}.weight") in wanted and type(linear) is nn.Linear:
                setattr(module, leaf, dropping(adapter, linear, name))
                found.add(path)
    for path in wanted:
        if path not in found:
            raise UserError(
                f"tuning.adapter.targets: {path} is not the matrix of a plain linear map, so it has no adapter; name others"
            )


def dropping(adapter: LowRankAdapter, linear: nn.Linear, name: str) -> AdaptedLinear:
    """The linear map called `name` with its adapter, still without values, and the dropout of the adapter's input."""
    made = adapter.linear(linear)
    if adapter.dropout:
        made.dropout = InputDropout(adapter.dropout, f"{name}.adapter")
    return made.train(linear.training)


def narrowed_beside(
    adapter: LowRankAdapter, whole: nn.Module, part: nn.Module
) -> dict[str, tuple[AdaptedLinear, AdaptedLinear]]:
    """Put the adapter beside the maps of `part`, narrower forms of those of `whole`, where these have one; no values yet.

    Gives each adapted map of `whole` and the one that was made, by path; both have one dropout.
    """
    adapted_maps = {path: module for path, module in whole.named_modules() if isinstance(module, AdaptedLinear)}
    made = {}
    for holder, module in list(part.named_modules()):
        for leaf, linear in list(module.named_children()):
            path = f"{holder}.{leaf}" if holder else leaf
            if path in adapted_maps:
                assert isinstance(linear, nn.Linear), "the part is built from the same description"
                own = adapter.linear(linear).train(linear.training)
                own.dropout = adapted_maps[path].dropout
                setattr(module, leaf, own)
                made[path] = adapted_maps[path], own
    return made


def begin(model: Transformer, seed: int, within: Callable[[Callable[[], Tensor]], Tensor] = lambda act: act()) -> None:
    """Give parameters of adapters that follow from frozen weights their first values, as after other weights were taken.

    Of a model that several processes divide, `within` calls a function in which it can compute.
    """
    for module in model.modules():
        if isinstance(module, AdaptedLinear):
            _follow(module)
    if isinstance(model.adapter, Prompt) and model.adapter.first == "vocabulary":
        assert model.virtual_tokens is not None, "put in front of the text"
        prompt = model.adapter
        copy_in(model.virtual_tokens, within(lambda: _of_vocabulary(model, prompt, seed)))


@torch.no_grad()
def _follow(linear: AdaptedLinear) -> None:
    for name, values in linear.first_values(whole(linear.weight)).items():
        copy_in(getattr(linear, name), values)


@torch.no_grad()
def _of_vocabulary(model: Transformer, prompt: Prompt, seed: int) -> Tensor:
    """(P, width of the embeddings) of tokens drawn without repetition."""
    vocab = model.architecture.vocabularies["embedding"]
    first_row = torch.zeros(1, dtype=torch.int64)
    drawn = bits_of(Noise.at(seed, 0, first_row), zlib.crc32(VIRTUAL.encode()), torch.arange(vocab))[0].argsort()
    tokens = drawn[torch.arange(prompt.tokens) % vocab]
    found: Tensor = model.embedding(tokens[None].to(model.device), None, None)[0]
    return found


def plain(model: Transformer) -> Transformer:
    """A model without adapters that computes what `model` does, in evaluation mode; it shares what is not merged."""
    values = {name: parameter.detach() for name, parameter in model.named_parameters()}
    base = {name: value for name, value in values.items() if name not in model.added}
    if model.adapter is not None:
        base = model.adapter.merged(base, {name: values[name] for name in model.added})
    narrow = model.plan.precision.narrow is not None
    return made_of(model.architecture, model.plan.but(precision=model.plan.number) if narrow else model.plan, base)


def made_of(architecture: Architecture, plan: Plan, weights: Mapping[str, Tensor]) -> Transformer:
    """The model of these weights, which it holds and does not copy, in evaluation mode."""
    with on_meta():
        made = Transformer(architecture, plan)
    for name, module in made.named_modules():
        for leaf, empty in list(module.named_parameters(recurse=False)):
            value = weights[f"{name}.{leaf}" if name else leaf]
            setattr(module, leaf, nn.Parameter(value, requires_grad=empty.requires_grad))
    return made.eval()
