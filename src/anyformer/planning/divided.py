"""Bytes that a unit saves for its backward pass, and which of them tensor parallelism divides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import get_args

from anyformer.costs.saved import SavedTensor, TraceQuestion, saved
from anyformer.costs.saved.record import FORWARD, RECOMPUTED
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Checkpointing, Plan


@dataclass(frozen=True)
class SavedBytes:
    """Bytes saved of one sequence: `divided` among tp ranks, `whole` where they do not divide positions too (`Layout.sp`)."""

    divided: int = 0
    whole: int = 0

    def __add__(self, other: SavedBytes) -> SavedBytes:
        return SavedBytes(self.divided + other.divided, self.whole + other.whole)

    @property
    def bytes(self) -> int:
        return self.divided + self.whole

    def on(self, sequences: int, tp: int, *, sp: bool) -> int:
        """Bytes on one rank."""
        return sequences * (self.divided // tp + (self.whole // tp if sp else self.whole))


ByCheckpointing = Mapping[Checkpointing, SavedBytes]
CHECKPOINTING: tuple[Checkpointing, ...] = get_args(Checkpointing)
NOTHING: ByCheckpointing = dict.fromkeys(CHECKPOINTING, SavedBytes())


Saving = Callable[
    [Architecture, Shape, Plan, Callable[[str], str]], tuple[Mapping[str, ByCheckpointing], Mapping[str, ByCheckpointing]]
]
"""What a call saves by layer or place, and what a layer saves on top while it is recomputed: see `saved_by_place`."""


def nothing_saved(
    architecture: Architecture, shape: Shape, plan: Plan, place: Callable[[str], str]
) -> tuple[dict[str, ByCheckpointing], dict[str, ByCheckpointing]]:
    """Of a call without a backward pass."""
    return {}, {}


def saved_by_place(
    architecture: Architecture, shape: Shape, plan: Plan, place: Callable[[str], str]
) -> tuple[dict[str, ByCheckpointing], dict[str, ByCheckpointing]]:
    """Bytes per layer, and of each `place` outside of them, by checkpointing: every tensor that eager PyTorch saves by the
    end of the forward pass, once; and the tensors that a layer saves on top while it is recomputed.

    Attention is by a kernel that writes no scores, whatever kernel torch has; with `plan.attention = "plain"` scores are
    written and saved. Tensors between a column and a row matrix are divided; the rest, as wide as the stream, is whole, and so
    are the tensors of experts. Copies of weights are not counted.
    """
    scoreless = plan.attention != "plain"
    plan = plan.but(attention="sdpa") if scoreless else plan
    forward: dict[Checkpointing, dict[str, SavedBytes]] = {}
    recomputed: dict[Checkpointing, dict[str, SavedBytes]] = {}
    for how in CHECKPOINTING:
        trace = saved(TraceQuestion(architecture, shape, plan, recomputed=how != "none", scoreless=scoreless))
        forward[how] = _sums(trace.of(*FORWARD[how]), place)
        recomputed[how] = {layer: _sum(trace.in_layer(layer, *RECOMPUTED[how])) for layer in trace.like}
    places = list(forward["none"])
    return _transposed(forward, places), _transposed(recomputed, places)


def _sums(tensors: Iterable[SavedTensor], place: Callable[[str], str]) -> dict[str, SavedBytes]:
    """Bytes by layer or place, without the loss."""
    groups: dict[str, list[SavedTensor]] = defaultdict(list)
    for tensor in tensors:
        if tensor.path != "loss":
            groups[tensor.layer or place(tensor.name)].append(tensor)
    return {at: _sum(group) for at, group in groups.items()}


def _sum(tensors: Iterable[SavedTensor]) -> SavedBytes:
    sizes = (SavedBytes(x.bytes) if x.divided else SavedBytes(whole=x.bytes) for x in tensors if not x.copies)
    return sum(sizes, SavedBytes())


def _transposed(ways: Mapping[Checkpointing, Mapping[str, SavedBytes]], places: Iterable[str]) -> dict[str, ByCheckpointing]:
    return {at: {how: sizes.get(at, SavedBytes()) for how, sizes in ways.items()} for at in places}
