"""Attention maps of a model, and which of its heads look for what followed before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from anyformer.describe import UserError
from anyformer.model.transformer import Transformer
from anyformer.parts.attention.attends import Attends
from anyformer.tasks.draws import Draws

REPEATED, ROWS = 25, 16
"""Tokens that are read twice, and rows of them."""


@dataclass(frozen=True)
class HeadPattern:
    """Mean attention weights of a head on random tokens x_1 ... x_n x_1 ... x_n (Olsson et al. 2022, arXiv 2209.11895).

    `induction`: of the second x_i to the first x_{i+1}, what followed last time; `previous`: of each token to the one before.
    """

    layer: str
    head: int
    induction: float
    previous: float


class _Maps(TorchFunctionMode):
    """Keeps the softmax that each attention module takes while it is `inside` it."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []
        self.found: dict[str, list[Tensor]] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is Tensor.softmax and self.inside and result.dim() == 4:
            self.found.setdefault(self.inside[-1], []).append(result.detach())
        return result


def attending(model: Transformer) -> dict[str, Attends]:
    """The attention modules of a model by name; refuses one that has none, or does not write its weights out."""
    modules = {name: module for name, module in model.named_modules() if isinstance(module, Attends)}
    if not modules:
        raise UserError("this model has no attention, so there is no map of it: leave --attention out")
    if model.plan.attention != "plain":
        raise UserError(f"attention maps need plan.attention = 'plain', and this model has {model.plan.attention!r}")
    return modules


def attention_maps(model: Transformer, call: Callable[[], Any]) -> dict[str, Tensor]:
    """The attention weights (B, H, T, S) of each attention of the model in one call of it, by the path of the layer.

    The model is computed with `plan.attention = "plain"`, which writes them out; refused is one that is not, or has none. Of a
    sink its own weight is left out. Attention by blocks of a window gives no map.
    """
    maps, modules = _Maps(), attending(model)
    with ExitStack() as stack, torch.no_grad():
        for name, module in modules.items():
            stack.callback(module.register_forward_pre_hook(lambda *_, name=name: maps.inside.append(name)).remove)
            stack.callback(module.register_forward_hook(lambda *_: maps.inside.pop() and None).remove)
        with maps:
            call()
    found = {
        name.removesuffix(".sublayer"): torch.cat([_without_sink(modules[name], each) for each in parts], 1)
        for name, parts in maps.found.items()
    }
    return {name: weights for name, weights in found.items() if weights.dim() == 4}


def _without_sink(module: nn.Module, weights: Tensor) -> Tensor:
    sinks = dict(module.named_parameters(recurse=False)).get("sink")
    return weights if sinks is None else weights[..., :-1]


def head_scores(model: Transformer, vocab: int) -> tuple[HeadPattern, ...]:
    """The scores of every head of a model that reads one sequence, on random tokens of its first `vocab`; none of others."""
    if model.architecture.two_inputs:
        return ()
    tokens = Draws.of(np.arange(ROWS), 0).below("tokens", vocab, REPEATED)
    row = torch.from_numpy(np.concatenate([tokens, tokens], axis=1)).to(model.device)
    found = []
    for layer, weights in attention_maps(model, lambda: model(row)).items():
        if weights.shape[0] != ROWS or weights.shape[2:] != (2 * REPEATED, 2 * REPEATED):
            continue
        induction = weights.diagonal(1 - REPEATED, 2, 3)[..., 1:].mean((0, 2))
        previous = weights.diagonal(-1, 2, 3).mean((0, 2))
        found += [
            HeadPattern(layer, head, float(one), float(other))
            for head, (one, other) in enumerate(zip(induction, previous, strict=True))
        ]
    return tuple(found)
