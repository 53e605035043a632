"""What each unit keeps for its backward pass, and what of it tensor parallelism divides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import get_args

from anyformer.costs.saved import Question, SavedTensor, saved
from anyformer.costs.saved.record import AGAIN, FORWARD
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Checkpointing, Plan


@dataclass(frozen=True)
class Kept:
    """Bytes of a sequence: `cut` are divided among tp ranks, `whole` only where positions are divided too (`Layout.sp`)."""

    cut: int = 0
    whole: int = 0

    def __add__(self, other: Kept) -> Kept:
        return Kept(self.cut + other.cut, self.whole + other.whole)

    @property
    def bytes(self) -> int:
        return self.cut + self.whole

    def on(self, sequences: int, tp: int, *, sp: bool) -> int:
        """Bytes of one rank."""
        return sequences * (self.cut // tp + (self.whole // tp if sp else self.whole))


KeptBy = Mapping[Checkpointing, Kept]
CHECKPOINTING: tuple[Checkpointing, ...] = get_args(Checkpointing)
NOTHING: KeptBy = dict.fromkeys(CHECKPOINTING, Kept())


def kept(
    architecture: Architecture, shape: Shape, plan: Plan, place: Callable[[str], str]
) -> tuple[dict[str, KeptBy], dict[str, KeptBy]]:
    """Bytes of each place that `place` sorts names into, for each way of checkpointing: every tensor that eager PyTorch saves
    by the end of the forward pass, once; and what a layer saves on top while it is computed again.

    Attention by a kernel that writes no scores, whatever torch has one for; with `plan.attention = "plain"` scores are written
    and kept. Cut is what lies between a column and a row matrix; the rest, as wide as the stream, is whole, and so is what
    experts keep of tokens that come to them. Copies of weights are not counted.
    """
    scoreless = plan.attention != "plain"
    plan = plan.but(attention="sdpa") if scoreless else plan
    ways: dict[Checkpointing, dict[str, Kept]] = {}
    again: dict[Checkpointing, dict[str, Kept]] = {}
    for how in CHECKPOINTING:
        found = saved(Question(architecture, shape, plan, recomputed=how != "none", scoreless=scoreless))
        ways[how] = _sums(found.of(*FORWARD[how]), place)
        again[how] = {layer: _sum(found.in_layer(layer, *AGAIN[how])) for layer in found.like}
    places = list(ways["none"])
    return _by_place(ways, places), _by_place(again, places)


def _sums(tensors: Iterable[SavedTensor], place: Callable[[str], str]) -> dict[str, Kept]:
    """By place, without the loss."""
    found: dict[str, list[SavedTensor]] = defaultdict(list)
    for each in tensors:
        if each.path != "loss":
            found[each.layer or place(each.name)].append(each)
    return {at: _sum(each) for at, each in found.items()}


def _sum(tensors: Iterable[SavedTensor]) -> Kept:
    sizes = (Kept(each.bytes) if each.divided else Kept(whole=each.bytes) for each in tensors if not each.copies)
    return sum(sizes, Kept())


def _by_place(ways: Mapping[Checkpointing, Mapping[str, Kept]], places: Iterable[str]) -> dict[str, KeptBy]:
    return {at: {how: of.get(at, Kept()) for how, of in ways.items()} for at in places}
