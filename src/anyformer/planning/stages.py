"""An architecture as a row of units that a pipeline can part: what goes in, each layer, what comes out; and its stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from anyformer.costs.counts import located
from anyformer.costs.holding import Holding
from anyformer.costs.kernels import Kernel, kernels
from anyformer.costs.memory import ADAM, States
from anyformer.costs.peak import peak_memory
from anyformer.model import Architecture
from anyformer.operations import Address, ExpertProduct, Node, Product, Shape
from anyformer.plan import Checkpointing, Plan
from anyformer.planning.divided import CHECKPOINTING, NOTHING, Kept, KeptBy, kept

ENTRANCE, EXIT = "entrance", "exit"
"""The units around the layers."""


@dataclass(frozen=True)
class Parameters:
    """Numbers stored: `cut` by tensor parallelism, `whole` on each of its ranks, `experts` cut by expert parallelism."""

    cut: int = 0
    whole: int = 0
    experts: int = 0

    def __add__(self, other: Parameters) -> Parameters:
        return Parameters(self.cut + other.cut, self.whole + other.whole, self.experts + other.experts)

    def dense(self, tp: int) -> int:
        """Of one rank, without experts; a table that tp does not divide is padded, which is not counted."""
        return self.cut // tp + self.whole

    def of_experts(self, ep: int) -> int:
        """Of one rank."""
        return self.experts // ep


@dataclass(frozen=True)
class PipelineUnit:
    """What a pipeline cannot part, by its `name`.

    `holds`: groups of weights, shared ones under their owner's name; `kernels`: the name under which the row has its kernels;
    `flops`: exact, forward, of one sequence; `kept`: bytes of a sequence by checkpointing; `sums`: how often tp ranks add up
    (B, T, D), forward and backward; `routed`: experts that a token passes, over all mixtures.
    """

    name: str
    holds: tuple[str, ...]
    kernels: str
    flops: int
    kept: KeptBy
    sums: int = 0
    routed: int = 0
    recomputed: bool = True
    """Whether checkpointing applies: to layers, not to what stands around them."""
    again: KeptBy = field(default_factory=lambda: NOTHING)
    """Bytes of a sequence on top while it is computed again."""


@dataclass(frozen=True, eq=False)
class Row:
    """The units of an architecture for sequences of one length.

    `kernels`: of each unit by its name, from a micro-batch and a way of checkpointing; `alone`: what a rank holds that has the
    whole model, from a micro-batch, whether gradients add up over several, and a way of checkpointing.
    """

    units: tuple[PipelineUnit, ...]
    held: Mapping[str, Parameters]
    width: int
    length: int
    element: int
    """Bytes of a number in products, and of a copy of a weight that is wider."""
    kernels: Callable[[int, Checkpointing], Mapping[str, Sequence[Kernel]]]
    alone: Callable[[int, bool, Checkpointing], Holding]
    states: States = ADAM

    @property
    def flops(self) -> int:
        return sum(unit.flops for unit in self.units)


@dataclass(frozen=True)
class Stage:
    """The units of one stage, summed; `first` is the number of the first stage that is like this."""

    first: int
    units: tuple[PipelineUnit, ...]
    held: Parameters
    largest: Parameters
    """The unit with most weights: what is gathered at once."""
    length: int

    @cached_property
    def flops(self) -> int:
        return sum(unit.flops for unit in self.units)

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


def row_of(architecture: Architecture, length: int, plan: Plan, source_length: int | None = None, prefix: int = 0) -> Row:
    """Entrance, layers of the encoder and the decoder in order, exit."""
    source = architecture.source_of(length, source_length)
    shape = Shape(batch=1, length=length, source=source, prefix=min(prefix, length))
    tally = architecture.cost(shape, plan)
    groups: dict[str, list[Node]] = {}
    for node in tally.nodes():
        groups.setdefault(place(node.address, architecture), []).append(node)
    flops = {
        name: sum(work.flops.exact for node in nodes for work in node.tally.own_work.values()) for name, nodes in groups.items()
    }
    find = located(tally)
    keeps, again = kept(architecture, shape, plan, lambda path: place(find(path)[0], architecture))
    before = tuple(name for name, nodes in groups.items() if nodes[0].address.layer is None and name != EXIT)
    entered = {how: sum((keeps.get(name, NOTHING)[how] for name in before), Kept()) for how in CHECKPOINTING}
    row = [PipelineUnit(ENTRANCE, before, ENTRANCE, sum(flops[name] for name in before), entered, 1, 0, False)]
    for name, stack in architecture.stacks.items():
        for i, (variant, owner) in enumerate(zip(stack.layers, stack.owners, strict=True)):
            here, holder = _layer(name, i), _layer(name, owner)
            sums, routed = _spread(groups[here], len(stack.variants[variant].steps))
            row.append(
                PipelineUnit(
                    here,
                    (holder,),
                    _layer(name, variant),
                    flops[here],
                    keeps.get(here, NOTHING),
                    sums,
                    routed,
                    again=again.get(here, NOTHING),
                )
            )
    logits = (plan.activation_bytes + 4) * architecture.logits(shape)
    left = dict.fromkeys(CHECKPOINTING, keeps.get(EXIT, NOTHING)["none"] + Kept(logits))
    row.append(PipelineUnit(EXIT, (EXIT, *_tied(architecture)), EXIT, flops.get(EXIT, 0), left, 1, 0, False))
    held = {name: _held(nodes) for name, nodes in groups.items()}

    @cache
    def alone(batch: int, again: bool, checkpointing: Checkpointing) -> Holding:
        return peak_memory(
            architecture,
            batch=batch,
            length=length,
            source_length=source or None,
            prefix=shape.prefix,
            plan=plan.but(checkpointing=checkpointing),
            accumulation=2 if again else 1,
        ).holding

    @cache
    def timed(batch: int, checkpointing: Checkpointing) -> Mapping[str, Sequence[Kernel]]:
        found: dict[str, list[Kernel]] = {}
        for each in kernels(architecture, replace(shape, batch=batch), plan.but(checkpointing=checkpointing), "train"):
            if each.unit != "optimiser":
                at = place(each.address, architecture)
                found.setdefault(ENTRANCE if at in before else at, []).append(each)
        return found

    return Row(tuple(row), held, architecture.width, length, plan.activation_bytes, timed, alone)


def place(at: Address, architecture: Architecture) -> str:
    """Which group something belongs to: a layer, an input's module (which a tied head holds too), what else stands before the
    layers, or what comes after them."""
    if at.layer is not None:
        return _layer(at.module, at.layer)
    if at.after:
        return EXIT
    return ENTRANCE if at.module in architecture.stacks or not at.module else at.module


def _layer(stack: str, layer: int | str) -> str:
    return f"{stack}.layers.{layer}"


def _tied(architecture: Architecture) -> tuple[str, ...]:
    """The module whose table a tied head multiplies by."""
    if architecture.head is None or not architecture.head.tied or architecture.head_table is None:
        return ()
    return (architecture.head_table[0].partition(".")[0],)


def _held(nodes: Sequence[Node]) -> Parameters:
    roles = {"column": 0, "row": 0, "expert": 0, "replicate": 0}
    for node in nodes:
        for weight in node.tally.own_weights.values() if node.weight_times else ():
            roles[weight.role] += weight.count
    return Parameters(roles["column"] + roles["row"], roles["replicate"], roles["expert"])


def _spread(nodes: Sequence[Node], steps: int) -> tuple[int, int]:
    """How often tp ranks add up parts of a sum, forward and backward, and how many experts a token passes, over all mixtures.

    Every branch that ends in a row matrix is a sum over ranks; branches of one step are added up, so their sums are one.
    """
    summed, routed = set[str | None](), dict[str | None, int]()
    for node in nodes:
        for work in node.tally.own_work.values():
            if isinstance(work, ExpertProduct):
                routed[node.address.branch] = work.chosen
            elif isinstance(work, Product) and work.role == "row":
                summed.add(node.address.branch)
    return 2 * min(len(summed), steps), sum(routed.values())


def stages(row: Row, pp: int, chunks: int) -> tuple[Stage, ...]:
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
        total = sum(held, Parameters())
        key = (total, sum(unit.flops for unit in members))
        if key not in found:
            largest = max(held, key=lambda each: each.cut + each.whole + each.experts, default=Parameters())
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
