"""Hidden states of every layer, for engines that can write them: the first layer whose states are not the model's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from anyformer.conforming.golden import FACTOR
from anyformer.describe import UserError
from anyformer.model.transformer import Transformer

TOKENS, LAYER = "tokens", "layers."
NEAR = 1e-3
"""Largest difference of a layer's states in fp32, of their root mean square."""
FORM = f"a safetensors file with {TOKENS} (T) and, of every layer, {LAYER}0, {LAYER}1 ... (T, D): the stream behind it"


class LayersFileError(UserError):
    """A file that holds no hidden states of this model."""


@dataclass(frozen=True)
class LayerGap:
    """The largest difference of a layer's states of the root mean square of the model's, and what rounding explains of it."""

    layer: int
    difference: float
    bound: float

    @property
    def departs(self) -> bool:
        return not self.difference <= self.bound


def layer_gaps(path: Path, exact: Transformer, rounded: Transformer | None = None) -> tuple[LayerGap, ...]:
    """The layers of a file in their order. `rounded`: the model in the engine's arithmetic, whose own gaps bound its."""
    tokens, theirs = _read(path, exact)
    ours = _states(exact, tokens)
    near = _states(rounded, tokens) if rounded is not None else {}
    found = []
    for layer, state in theirs.items():
        mine = ours[layer]
        if state.shape != mine.shape:
            raise LayersFileError(f"{path}: {LAYER}{layer} is {tuple(state.shape)}, and the model's is {tuple(mine.shape)}")
        apart = FACTOR * _apart(near[layer], mine) if layer in near else 0.0
        found.append(LayerGap(layer, _apart(state, mine), max(NEAR, apart)))
    return tuple(found)


def _apart(state: Tensor, exact: Tensor) -> float:
    scale = exact.double().square().mean().sqrt().clamp(min=1e-30)
    return float((state.double() - exact.double()).abs().max() / scale)


def _read(path: Path, model: Transformer) -> tuple[Tensor, dict[int, Tensor]]:
    try:
        held = load_file(path)
    except (OSError, SafetensorError) as error:
        raise LayersFileError(f"{path}: cannot be read ({error}); give {FORM}") from None
    names = {int(name.removeprefix(LAYER)): name for name in held if name.removeprefix(LAYER).isdecimal()}
    tokens, depth = held.get(TOKENS), model.architecture.output_stack.depth
    if tokens is None or tokens.ndim != 1 or tokens.is_floating_point() or not names:
        raise LayersFileError(f"{path}: holds {', '.join(sorted(held)) or 'nothing'}; give {FORM}")
    if beyond := sorted(layer for layer in names if layer >= depth):
        raise LayersFileError(f"{path}: has {LAYER}{beyond[0]}, and the model has {depth} layers, numbered from 0")
    return tokens.long(), {layer: held[names[layer]] for layer in sorted(names)}


@torch.inference_mode()
def _states(model: Transformer, tokens_T: Tensor) -> dict[int, Tensor]:
    """(T, D) behind every layer of one text."""
    with _watched(model) as states:
        model.features(tokens_T[None].to(model.device))
    return {layer: state[0].cpu() for layer, state in states.items()}


@contextmanager
def _watched(model: Transformer) -> Iterator[Mapping[int, Tensor]]:
    found: dict[int, Tensor] = {}
    layers = model.get_submodule(model.output).get_submodule("layers")

    def watch(layer: int, module: nn.Module) -> Any:
        def record(_: nn.Module, given: Any, output: Any) -> None:
            found[layer] = output[0] if isinstance(output, tuple) else output

        return module.register_forward_hook(record)

    hooks = [watch(layer, module) for layer, module in enumerate(layers.children())]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
