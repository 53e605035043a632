"""An architecture as a row of units for a pipeline: the embeddings, each layer, the head; and a stage of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from anyformer.costs.counts import located
from anyformer.costs.holding import Holding
from anyformer.costs.kernel import Kernel
from anyformer.costs.kernels import kernels
from anyformer.costs.memory import ADAM, States, states_of
from anyformer.costs.peak import peak_memory
from anyformer.model import Architecture
from anyformer.operations import Address, ExpertProduct, Node, Product, Shape
from anyformer.plan import Checkpointing, Plan
from anyformer.planning.divided import CHECKPOINTING, NOTHING, ByCheckpointing, SavedBytes, Saving, saved_by_place
from anyformer.planning.routing import MixtureRouting

ENTRANCE, EXIT = "entrance", "exit"
"""The units around the layers."""


@dataclass(frozen=True)
class StageParameters:
    """Parameters `divided` by tensor parallelism, `replicated` on its ranks, and `experts` divided by expert parallelism."""

    divided: int = 0
    replicated: int = 0
    experts: int = 0

    def __add__(self, other: StageParameters) -> StageParameters:
        return StageParameters(self.divided + other.divided, self.replicated + other.replicated, self.experts + other.experts)

    @property
    def total(self) -> int:
        return self.divided + self.replicated + self.experts

    def dense(self, tp: int) -> int:
        """Parameters of one rank, without experts; a table that tp does not divide is padded, which is not counted."""
        return self.divided // tp + self.replicated

    def of_experts(self, ep: int) -> int:
        """Parameters of one rank's experts."""
        return self.experts // ep


@dataclass(frozen=True)
class PipelineUnit:
    """A layer, or all before or after the layers, which a pipeline keeps on one rank.

    `holds`: groups of weights, shared ones under their owner's name; `kernels`: the name under which the row has its kernels;
    `flops`: exact, forward, of one sequence; `saved`: bytes of a sequence by checkpointing; `sums`: how often tp ranks add up
    (B, T, D), forward and backward; `routed`: its mixtures.
    """

    name: str
    holds: tuple[str, ...]
    kernels: str
    flops: int
    saved: ByCheckpointing
    sums: int = 0
    routed: tuple[MixtureRouting, ...] = ()
    layer: bool = True
    """Whether it is a layer, to which checkpointing applies."""
    recomputed: ByCheckpointing = field(default_factory=lambda: NOTHING)
    """Bytes of a sequence that it saves on top while it is recomputed."""
    heaviest: StageParameters = StageParameters()
    """The largest weight of each kind."""


@dataclass(frozen=True, eq=False)
class UnitRow:
    """The units of an architecture for sequences of one length.

    `kernels`: those of each unit by its name, from a micro-batch and a way of checkpointing; `unsharded`: memory of a rank with
    the whole model, from a micro-batch, whether gradients add up over several, and a way of checkpointing.
    """

    units: tuple[PipelineUnit, ...]
    parameters: Mapping[str, StageParameters]
    width: int
    length: int
    element: int
    """Bytes of a number in products, and of a copy of a weight that is wider."""
    kernels: Callable[[int, Checkpointing], Mapping[str, Sequence[Kernel]]]
    unsharded: Callable[[int, bool, Checkpointing], Holding]
    states: States = ADAM

    @property
    def flops(self) -> int:
        return sum(unit.flops for unit in self.units)


@dataclass(frozen=True)
class PlannedStage:
    """The units of one stage, summed; `first`: the number of the first stage like it."""

    first: int
    units: tuple[PipelineUnit, ...]
    parameters: StageParameters
    largest: StageParameters
    """Parameters of the largest group, which are gathered at once."""
    length: int
    copies: int = 1
    """Stages like it."""

    @cached_property
    def flops(self) -> int:
        return sum(unit.flops for unit in self.units)

    @cached_property
    def sums(self) -> int:
        return sum(unit.sums for unit in self.units)

    @cached_property
    def forward_sums(self) -> int:
        """Sums of the layers' forward pass; the backward pass has as many."""
        return sum(unit.sums for unit in self.units if unit.layer) // 2

    @cached_property
    def routed(self) -> Mapping[MixtureRouting, int]:
        """Its mixtures, and how many are alike."""
        return Counter(each for unit in self.units for each in unit.routed)

    @cached_property
    def kernels(self) -> Mapping[str, int]:
        """The names under which the row has the kernels of its units, and how many units have them."""
        return Counter(unit.kernels for unit in self.units)

    @cached_property
    def saved(self) -> ByCheckpointing:
        """Bytes that the layers save of each sequence in flight."""
        return {how: sum((unit.saved[how] for unit in self.units if unit.layer), SavedBytes()) for how in CHECKPOINTING}

    def heaviest(self, tp: int, ep: int) -> int:
        """Parameters of the largest weight of a layer on one rank."""
        return max(max(weight.dense(tp), weight.of_experts(ep)) for weight in self._heaviest)

    @cached_property
    def _heaviest(self) -> frozenset[StageParameters]:
        """Each largest weight once: layers have it in common."""
        return frozenset(unit.heaviest for unit in self.units)

    @cached_property
    def ends(self) -> SavedBytes:
        """Bytes that embeddings or head save, whichever are more, of one micro-batch at a time."""
        sizes = [unit.saved["none"] for unit in self.units if not unit.layer]
        return max(sizes, key=lambda size: size.bytes, default=SavedBytes())

    @cached_property
    def recomputed(self) -> ByCheckpointing:
        """Bytes that the largest layer saves on top while it is recomputed in the backward pass."""
        return {how: max((unit.recomputed[how] for unit in self.units), key=lambda size: size.bytes) for how in CHECKPOINTING}


def row_of(
    architecture: Architecture, length: int, plan: Plan, source_length: int | None = None, prefix: int = 0,
    saving: Saving = saved_by_place,
) -> UnitRow:  # fmt: skip
    """The row of an architecture: entrance, layers of the encoder and the decoder in order, exit; `saving`: see `Saving`."""
    source = architecture.source_of(length, source_length)
    shape = Shape(batch=1, length=length, source=source, prefix=min(prefix, length))
    tally = architecture.trained_cost(shape, plan)
    groups: dict[str, list[Node]] = {}
    for node in tally.nodes():
        groups.setdefault(place(node.address, architecture), []).append(node)
    flops = {
        name: sum(work.flops.exact for node in nodes for work in node.tally.own_work.values()) for name, nodes in groups.items()
    }
    find = located(tally)
    saved, recomputed = saving(architecture, shape, plan, lambda path: place(find(path)[0], architecture))
    before = tuple(name for name, nodes in groups.items() if nodes[0].address.layer is None and name != EXIT)
    entrance = {how: sum((saved.get(name, NOTHING)[how] for name in before), SavedBytes()) for how in CHECKPOINTING}
    units = [PipelineUnit(ENTRANCE, before, ENTRANCE, sum(flops[name] for name in before), entrance, 1, (), False)]
    units += _layers(architecture, groups, flops, saved, recomputed)
    logits = plan.activation_bytes * architecture.trained_logits(shape)
    last = [at for at in saved if at == EXIT or place(find(at)[0], architecture) == EXIT]
    exit = dict.fromkeys(CHECKPOINTING, sum((saved[at]["none"] for at in last), SavedBytes(logits)))
    units.append(PipelineUnit(EXIT, (EXIT, *_tied(architecture)), EXIT, flops.get(EXIT, 0), exit, 1, (), False))

    @cache
    def unsharded(batch: int, accumulates: bool, checkpointing: Checkpointing) -> Holding:
        return peak_memory(
            architecture,
            batch=batch,
            length=length,
            source_length=source or None,
            prefix=shape.prefix,
            plan=plan.but(checkpointing=checkpointing),
            accumulation=2 if accumulates else 1,
        ).holding

    @cache
    def by_unit(batch: int, checkpointing: Checkpointing) -> Mapping[str, Sequence[Kernel]]:
        by_name: dict[str, list[Kernel]] = {}
        for kernel in kernels(architecture, replace(shape, batch=batch), plan.but(checkpointing=checkpointing), "train"):
            if kernel.unit != "optimiser":
                at = place(kernel.address, architecture)
                by_name.setdefault(ENTRANCE if at in before else at, []).append(kernel)
        return by_name

    parameters = {name: _parameters(nodes) for name, nodes in groups.items()}
    return UnitRow(
        tuple(units), parameters, architecture.width, length, plan.activation_bytes, by_unit, unsharded,
        states_of(plan.precision),
    )  # fmt: skip


def _layers(
    architecture: Architecture,
    groups: Mapping[str, list[Node]],
    flops: Mapping[str, int],
    saved: Mapping[str, ByCheckpointing],
    recomputed: Mapping[str, ByCheckpointing],
) -> Iterator[PipelineUnit]:
    for name, stack in architecture.stacks.items():
        for i, (variant, owner) in enumerate(zip(stack.layers, stack.owners, strict=True)):
            layer, holder = _layer(name, i), _layer(name, owner)
            sums, routed = _sums_and_experts(groups[layer], len(stack.variants[variant].steps))
            yield PipelineUnit(
                layer, (holder,), _layer(name, variant), flops[layer], saved.get(layer, NOTHING), sums, routed,
                recomputed=recomputed.get(layer, NOTHING), heaviest=_heaviest(groups[holder]),
            )  # fmt: skip


def place(at: Address, architecture: Architecture) -> str:
    """The group of an address: its layer, the module of an input (which a tied head holds too), all else before the layers, or
    all after them, to which predictions of later tokens belong."""
    inside = at.module in architecture.stacks
    if at.layer is not None:
        return _layer(at.module, at.layer) if inside else EXIT
    if at.after:
        return EXIT
    return ENTRANCE if inside or not at.module else at.module


def _layer(stack: str, layer: int | str) -> str:
    return f"{stack}.layers.{layer}"


def _tied(architecture: Architecture) -> tuple[str, ...]:
    """The module whose table a tied head multiplies by."""
    if architecture.head is None or not architecture.head.tied or architecture.head_table is None:
        return ()
    return (architecture.head_table[0].partition(".")[0],)


def _parameters(nodes: Sequence[Node]) -> StageParameters:
    roles = {"column": 0, "row": 0, "expert": 0, "replicate": 0}
    for node in nodes:
        for weight in node.tally.own_weights.values() if node.weight_times else ():
            roles[weight.role] += weight.count
    return StageParameters(roles["column"] + roles["row"], roles["replicate"], roles["expert"])


def _heaviest(nodes: Sequence[Node]) -> StageParameters:
    """The largest weight that is divided by features, and the largest of experts."""
    most = {"column": 0, "row": 0, "expert": 0}
    for node in nodes:
        for weight in node.tally.own_weights.values():
            if weight.role in most:
                most[weight.role] = max(most[weight.role], weight.count)
    return StageParameters(max(most["column"], most["row"]), 0, most["expert"])


def _sums_and_experts(nodes: Sequence[Node], steps: int) -> tuple[int, tuple[MixtureRouting, ...]]:
    """How often tp ranks of a layer add up, forward and backward, and its mixtures.

    Every branch that ends in a row matrix is a sum over ranks; branches of one step are added up, so their sums are one.
    """
    summed, routed = set[str | None](), list[MixtureRouting]()
    for node in nodes:
        for work in node.tally.own_work.values():
            if isinstance(work, ExpertProduct) and work.sent:
                routed.append(MixtureRouting.of(work))
            elif isinstance(work, Product) and work.role == "row":
                summed.add(node.address.branch)
    return 2 * min(len(summed), steps), tuple(routed)
