"""What each unit keeps for its backward pass, off the exact tape, and what of it tensor parallelism divides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import get_args

from anyformer.model import Architecture
from anyformer.operations import Shape, Weight
from anyformer.plan import Checkpointing, Plan
from anyformer.tape import Held, Tape


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
    architecture: Architecture, shape: Shape, plan: Plan, weights: Mapping[str, Weight], place: Callable[[str], str]
) -> tuple[dict[str, KeptBy], dict[str, KeptBy]]:
    """Bytes of each place that `place` sorts names into, for each way of checkpointing: every tensor that eager PyTorch keeps
    at the end of the forward pass, once (`tape.py`); and what a layer keeps on top while it is computed again.

    Attention by a kernel that writes no scores, whatever torch has one for; with `plan.attention = "plain"` scores are written
    and kept. Whole is what is as wide as the stream: inputs of layers, of column and of replicated matrices, norms and sums
    around a sublayer, outputs of row matrices, and what experts keep of tokens that come to them. What lies between column and
    row is cut.
    """
    ways: dict[Checkpointing, dict[str, Kept]] = {}
    again: dict[Checkpointing, dict[str, Kept]] = {}
    for how in CHECKPOINTING:
        tape = Tape(plan.but(checkpointing=how), shape, scoreless=plan.attention != "plain")
        architecture.keeps(tape)
        ways[how] = _sums(tape.kept, tape, weights, place)
        # Of a repeated layer the tape is that of the one it repeats.
        layers = zip(tape.entered, tape.again, strict=how != "none")
        again[how] = {
            place(path): sum(_sums(layer.kept_again, layer, weights, lambda name: "").values(), Kept())
            for (path, _), layer in layers
        }
    places = list(ways["none"])
    return _by_place(ways, places), _by_place(again, places)


def _sums(kept: Mapping[Held, str], tape: Tape, weights: Mapping[str, Weight], place: Callable[[str], str]) -> dict[str, Kept]:
    found: dict[str, Kept] = defaultdict(Kept)
    for held, name in kept.items():
        cut = held not in tape.common and _is_cut(name, weights)
        found[place(name)] += Kept(held.bytes) if cut else Kept(whole=held.bytes)
    return found


def _by_place(ways: Mapping[Checkpointing, Mapping[str, Kept]], places: Iterable[str]) -> dict[str, KeptBy]:
    return {at: {how: of.get(at, Kept()) for how, of in ways.items()} for at in places}


def _is_cut(name: str, weights: Mapping[str, Weight]) -> bool:
    """Whether tp ranks divide the features of a kept tensor, from the part that keeps it."""
    holder, _, last = name.rpartition(".")
    read = weights.get(f"{holder}.weight") or weights.get(holder)
    if last in ("input", "output") and read is not None:
        return read.role == ("row" if last == "input" else "column")
    mixture = f"{holder}.router.weight" in weights or (read is not None and read.role == "expert")
    return ".sublayer." in name and ".router." not in name and not mixture
