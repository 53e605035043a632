"""An architecture as a row of units that a pipeline can part: what goes in, each layer, what comes out; and its stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

from anyformer.costs.holding import Holding
from anyformer.costs.peak import peak_memory
from anyformer.model import Architecture
from anyformer.plan import Checkpointing, Plan
from anyformer.planning.divided import CHECKPOINTING, NOTHING, Kept, KeptBy, kept
from anyformer.tally import Shape, Tally, Weight

_ENTRANCE = ("embedding", "decoder_embedding", "entrance")
"""Groups of weights of what goes in; a tied head holds one of the first two as well."""


@dataclass(frozen=True)
class Held:
    """Numbers stored: `cut` by tensor parallelism, `whole` on each of its ranks, `experts` cut by expert parallelism."""

    cut: int = 0
    whole: int = 0
    experts: int = 0

    def __add__(self, other: Held) -> Held:
        return Held(self.cut + other.cut, self.whole + other.whole, self.experts + other.experts)

    def dense(self, tp: int) -> int:
        """Of one rank, without experts; a table that tp does not divide is padded, which is not counted."""
        return self.cut // tp + self.whole

    def of_experts(self, ep: int) -> int:
        """Of one rank."""
        return self.experts // ep


@dataclass(frozen=True)
class Unit:
    """What a pipeline cannot part. `holds`: names of groups of weights, shared ones under their owner's name.

    `flops`: exact, forward, of one sequence, `mixing` of them between activations (attention's scores and sums, recurrences);
    `kept`: bytes of a sequence by checkpointing; `sums`: how often tp ranks must add up (B, T, D), forward and backward;
    `routed`: experts that a token passes, over all mixtures.
    """

    holds: tuple[str, ...]
    flops: int
    mixing: int
    kept: KeptBy
    sums: int = 0
    routed: int = 0
    recomputed: bool = True
    """Whether checkpointing applies: to layers, not to what stands around them."""
    again: KeptBy = field(default_factory=lambda: NOTHING)
    """Bytes of a sequence on top while it is computed again."""


@dataclass(frozen=True)
class Units:
    """The row of units of an architecture for sequences of one length."""

    units: tuple[Unit, ...]
    held: Mapping[str, Held]
    width: int
    length: int
    element: int
    alone: Callable[[int, bool, Checkpointing], Holding]
    """What a rank holds that has the whole model: micro-batch, whether gradients add up over several, checkpointing."""

    @property
    def flops(self) -> int:
        return sum(unit.flops for unit in self.units)


@dataclass(frozen=True)
class Stage:
    """The units of one stage, summed; `first` is the number of the first stage that is like this."""

    first: int
    units: tuple[Unit, ...]
    held: Held
    largest: Held
    """The unit with most weights: what is gathered at once."""
    length: int

    @cached_property
    def flops(self) -> int:
        return sum(unit.flops for unit in self.units)

    @cached_property
    def mixing(self) -> int:
        return sum(unit.mixing for unit in self.units)

    @cached_property
    def recomputed_flops(self) -> int:
        """Of matrix products."""
        return sum(unit.flops - unit.mixing for unit in self.units if unit.recomputed)

    @cached_property
    def recomputed_mixing(self) -> int:
        return sum(unit.mixing for unit in self.units if unit.recomputed)

    @cached_property
    def sums(self) -> int:
        return sum(unit.sums for unit in self.units)

    @cached_property
    def forward_sums(self) -> int:
        """Of layers, which are as many backward."""
        return sum(unit.sums for unit in self.units if unit.recomputed) // 2

    @cached_property
    def routed(self) -> int:
        return sum(unit.routed for unit in self.units)

    @cached_property
    def kept(self) -> KeptBy:
        """Of a micro-batch in flight, without what stands around the layers."""
        return {how: sum((unit.kept[how] for unit in self.units if unit.recomputed), Kept()) for how in CHECKPOINTING}

    @cached_property
    def passing(self) -> Kept:
        """What stands around the layers, of one micro-batch at a time: logits, or what is entered, whichever is more."""
        around = [unit.kept["none"] for unit in self.units if not unit.recomputed]
        return max(around, key=lambda each: each.bytes, default=Kept())

    @cached_property
    def again(self) -> KeptBy:
        """What the largest layer keeps on top while it is computed again in the backward pass."""
        return {how: max((unit.again[how] for unit in self.units), key=lambda each: each.bytes) for how in CHECKPOINTING}


def units(architecture: Architecture, length: int, plan: Plan) -> Units:
    """Entrance, layers of the encoder and the decoder in order, exit."""
    shape = Shape(batch=1, length=length, source=architecture.source_of(length))
    tally = architecture.cost(shape, plan)
    weights: dict[str, dict[str, Weight]] = {}
    for path, weight in tally.weights.items():
        weights.setdefault(_place(path), {})[path] = weight
    named = _named(architecture, weights)
    flops, mixing = _work(tally, named)
    keeps, again = kept(architecture, shape, plan, _place)
    entered = sum(flops.get(place, 0) for place in _ENTRANCE)
    before = {how: sum((keeps.get(place, NOTHING)[how] for place in _ENTRANCE), Kept()) for how in CHECKPOINTING}
    row = [Unit(_ENTRANCE, entered, sum(mixing.get(place, 0) for place in _ENTRANCE), before, 1, 0, False)]
    for name, stack in architecture.stacks.items():
        spread: dict[str, tuple[int, int]] = {}
        for i, (variant, owner) in enumerate(zip(stack.layers, stack.owners, strict=True)):
            place, held = f"{name}.layers.{i}", f"{name}.layers.{owner}"
            if variant not in spread:
                its = weights.get(held, {})
                # Branches of one step are added up, so their sums over ranks are one.
                spread[variant] = 2 * min(_reductions(its), len(stack.variants[variant].steps)), _routed(its)
            work = flops.get(place, 0), mixing.get(place, 0)
            row.append(Unit((held,), *work, keeps.get(place, NOTHING), *spread[variant], again=again.get(place, NOTHING)))
    row.append(
        _exit(architecture, flops.get("exit", 0), mixing.get("exit", 0), keeps.get("exit", NOTHING)["none"], length, plan)
    )
    held_by = {name: _held(each) for name, each in weights.items()}

    @cache
    def alone(batch: int, again: bool, checkpointing: Checkpointing) -> Holding:
        how, pieces = plan.but(checkpointing=checkpointing), 2 if again else 1
        return peak_memory(architecture, batch=batch, length=length, plan=how, accumulation=pieces).holding

    return Units(tuple(row), held_by, architecture.width, length, plan.activation_bytes, alone)


def _named(architecture: Architecture, weights: Mapping[str, Mapping[str, Weight]]) -> dict[str, Weight]:
    """Weights by the path of every layer that computes with them, whether it stores them or shares another's."""
    named = {path: weight for group in weights.values() for path, weight in group.items()}
    for name, stack in architecture.stacks.items():
        for i, owner in enumerate(stack.owners):
            if i != owner:
                stored = f"{name}.layers.{owner}."
                its = weights.get(stored[:-1], {}).items()
                named |= {f"{name}.layers.{i}.{path.removeprefix(stored)}": weight for path, weight in its}
    return named


def _work(tally: Tally, weights: Mapping[str, Weight]) -> tuple[dict[str, int], dict[str, int]]:
    """Exact FLOPs of each group, and of these what is no product with a weight (a tied head's is the table)."""
    flops: dict[str, int] = {}
    mixing: dict[str, int] = {}
    for path, work in tally.flops.items():
        place = _place(path)
        flops[place] = flops.get(place, 0) + work.exact
        if not (f"{path}.weight" in weights or path in weights or path == "head.logits"):
            mixing[place] = mixing.get(place, 0) + work.exact
    return flops, mixing


def _place(path: str) -> str:
    """Which group something belongs to: a layer, a table, what else stands at the entrance, or the exit."""
    words = path.split(".")
    if words[0] in _ENTRANCE:
        return words[0]
    if words[1] == "layers":
        return ".".join(words[:3])
    return "exit" if words[0] == "head" or words[1] == "final_norm" else "entrance"


def _exit(architecture: Architecture, flops: int, mixing: int, around: Kept, length: int, plan: Plan) -> Unit:
    """Final norm and head; a tied one holds the table too. Logits and, in fp32, what the loss keeps of them."""
    table = "embedding" if architecture.decoder_embedding is None else "decoder_embedding"
    tied = architecture.head is not None and architecture.head.tied
    logits = (plan.activation_bytes + 4) * architecture.outputs * length if architecture.head is not None else 0
    keeps = dict.fromkeys(CHECKPOINTING, around + Kept(logits))
    return Unit(("exit", table) if tied else ("exit",), flops, mixing, keeps, 1, 0, False)


def _held(weights: Mapping[str, Weight]) -> Held:
    roles = {"column": 0, "row": 0, "expert": 0, "replicate": 0}
    for weight in weights.values():
        roles[weight.role] += weight.count
    return Held(roles["column"] + roles["row"], roles["replicate"], roles["expert"])


def _reductions(weights: Mapping[str, Weight]) -> int:
    """Branches that end in row matrices, so that tp ranks hold parts of a sum."""
    return len({path.split(".")[3] for path, weight in weights.items() if weight.role == "row" and len(weight.shape) == 2})


def _routed(weights: Mapping[str, Weight]) -> int:
    """Experts that a token passes, each mixture counted once however many matrices an expert has."""
    return sum({path.split(".")[3]: weight.chosen or 0 for path, weight in weights.items() if weight.role == "expert"}.values())


def stages(row: Units, pp: int, chunks: int) -> tuple[Stage, ...]:
    """The distinct stages of a pipeline, each at its first place: stage s has the chunks s, s + p, ...

    Chunks are neighbouring units, parted so that the largest has as little work as can be. A group of weights that two units of
    a stage share is stored once.
    """
    ends = _parted([unit.flops for unit in row.units], pp * chunks)
    pieces = [row.units[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    found: dict[object, Stage] = {}
    for stage in range(pp):
        members = tuple(unit for piece in pieces[stage::pp] for unit in piece)
        names = list(dict.fromkeys(name for unit in members for name in unit.holds if name in row.held))
        held = [row.held[name] for name in names]
        total = sum(held, Held())
        key = (total, sum(unit.flops for unit in members))
        if key not in found:
            largest = max(held, key=lambda each: each.cut + each.whole + each.experts, default=Held())
            found[key] = Stage(stage, members, total, largest, row.length)
    return tuple(found.values())


def _parted(work: Sequence[int], parts: int) -> list[int]:
    """Ends of `parts` neighbouring pieces, none empty, the largest as small as can be (bisection over its size)."""
    low, high = max(work), sum(work)
    while low < high:
        middle = (low + high) // 2
        if len(_filled(work, middle, parts)) <= parts:
            high = middle
        else:
            low = middle + 1
    return _filled(work, low, parts)


def _filled(work: Sequence[int], limit: int, parts: int) -> list[int]:
    """Ends of pieces filled up to `limit` one by one, each leaving something for those to come."""
    ends: list[int] = []
    inside = 0
    for i, each in enumerate(work):
        empty = i == (ends[-1] if ends else 0)
        if not empty and (inside + each > limit or len(work) - i < parts - len(ends)):
            ends.append(i)
            inside = 0
        inside += each
    return [*ends, len(work)]
