"""Activations: the bytes that a forward pass saves for the backward pass, exactly, read off the built model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from anyformer.costs.saved import Learning, SavedTensor, TracedLoss, TraceQuestion, saved
from anyformer.costs.saved.record import FORWARD, RECOMPUTED, Saved
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan


@dataclass(frozen=True)
class Activations:
    """`tensors`: saved for backward by one call in eager mode, copies of weights in bf16 among them.

    With checkpointing (`Plan.checkpointing`) they are what is there when the forward pass ends, and `recomputed` holds, by the
    path of a layer, what it saves on top while it is recomputed (Chen et al. 2016, arXiv 1604.06174).
    """

    tensors: tuple[SavedTensor, ...]
    recomputed: Mapping[str, tuple[SavedTensor, ...]]
    forward: int = 0
    """The most bytes at once in a forward pass, of a layer that is recomputed too; without copies of weights."""

    @cached_property
    def by_name(self) -> dict[str, int]:
        """Bytes per operation of each part, without copies of weights."""
        sizes: dict[str, int] = {}
        for tensor in self.tensors:
            if not tensor.copies:
                sizes[tensor.name] = sizes.get(tensor.name, 0) + tensor.bytes
        return sizes

    @cached_property
    def saved(self) -> int:
        """Bytes at the end of the forward pass, without loss and copies of weights."""
        return sum(tensor.bytes for tensor in self.tensors if not (tensor.copies or tensor.loss))

    @cached_property
    def loss(self) -> int:
        """Bytes of logits and loss."""
        return sum(tensor.bytes for tensor in self.tensors if tensor.loss)

    @cached_property
    def logits(self) -> int:
        """Bytes of the logits in fp32, which the loss reads."""
        return max((tensor.bytes for tensor in self.tensors if tensor.loss), default=0)

    @cached_property
    def casts(self) -> int:
        """Bytes of copies of weights in bf16."""
        return sum(tensor.bytes for tensor in self.tensors if tensor.copies)


def activations(
    architecture: Architecture,
    shape: Shape,
    plan: Plan | None = None,
    *,
    loss: bool = True,
    learning: Learning | None = None,
    signal: TracedLoss | None = None,
) -> Activations:
    """Tensors that training saves; `loss`: with those of the loss.

    `learning`: which weights learn, None for all; `signal`: the loss and what it reads, by default the cross-entropy of a token
    at every position of rows without padding.
    """
    plan = plan or Plan()
    how = plan.checkpointing
    trace = saved(TraceQuestion(architecture, shape, plan, recomputed=how != "none", learning=learning, signal=signal))
    tensors = tuple(tensor for tensor in trace.of(*FORWARD[how]) if loss or tensor.path != "loss")
    recomputed = {layer: tuple(trace.in_layer(layer, *RECOMPUTED[how])) for layer in trace.like} if how != "none" else {}
    return Activations(tensors, recomputed, _forward(trace, tensors))


def _forward(trace: Saved, tensors: Iterable[SavedTensor]) -> int:
    """The most bytes at once: what a layer, or the rest, holds while it computes, beside what layers before saved."""
    saved = Counter[str]()
    for tensor in tensors:
        if tensor.layer and not tensor.copies:
            saved[tensor.layer] += tensor.bytes
    own = {one.layer: one for one in trace.live}
    stacks, most = Counter[str](), 0
    for layer, traced in trace.like.items():
        stack = layer.partition(".")[0]
        if traced in own:
            most = max(most, own[traced].bytes + stacks[stack] + sum(stacks[name] for name in own[traced].before))
        stacks[stack] += saved[layer]
    outside = (one.bytes + sum(stacks[name] for name in one.before) for one in trace.live if not one.layer)
    return max(most, *outside, 0)
