"""Hidden states read from a call, and embeddings put in place of its tokens, by hooks that end with the call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from anyformer.describe import InputError
from anyformer.model.inputs import rearranged
from anyformer.model.transformer import Transformer
from anyformer.parts.call.stack_state import StackState


class HiddenStates(list[Tensor]):
    """The input of every layer, in the order of computation."""

    def ordered(self, padding: Tensor | None, state: StackState | None, features: Tensor) -> tuple[Tensor, ...]:
        """L + 1 hidden states: the layers' inputs, and the features.

        A model with a decode state moves padding to the front; the states are moved back.
        """
        inputs: tuple[Tensor, ...] = tuple(self)
        if padding is not None and state is not None:
            back = (~padding).byte().argsort(dim=1, stable=True).argsort(1)
            inputs = tuple(rearranged(x, back) for x in inputs)
        return (*inputs, features)


def layers_of(model: Transformer) -> nn.Module:
    """The stack whose output the head reads."""
    return model.get_submodule("encoder" if model.architecture.decoder is None else "decoder")


@contextlib.contextmanager
def states_of(stack: nn.Module, wanted: bool) -> Iterator[HiddenStates]:
    """Inside, the inputs of the layers of `stack` are recorded if `wanted`."""
    inputs = HiddenStates()

    def record(_: nn.Module, given: tuple[Any, ...]) -> None:
        if given[0].dim() != 3:
            raise InputError("the layers of this architecture have several residual streams: no layer has one hidden state")
        inputs.append(given[0])

    layers = dict.fromkeys(stack.layers) if wanted else ()  # type: ignore[arg-type]
    handles = [layer.register_forward_pre_hook(record) for layer in layers]
    try:
        yield inputs
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def embedded_as(model: Transformer, x: Tensor | None) -> Iterator[None]:
    """Inside, the embedding returns `x` (B, T, D) whatever the tokens are; without `x` nothing changes."""
    if x is None:
        yield
        return
    width = model.architecture.table_width
    if x.shape[-1] != width:
        raise InputError(f"inputs_embeds should have {width} features, got {x.shape[-1]}")
    if any(stack.reads_tokens for stack in model.architecture.stacks.values()):
        raise InputError("inputs_embeds: layers of this architecture read the tokens themselves; give input_ids")
    handle = model.embedding.register_forward_hook(lambda module, given, made: x)
    try:
        yield
    finally:
        handle.remove()
