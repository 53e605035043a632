"""The kernels of one step: the FLOPs that each computes and the bytes that it moves, whatever the hardware.

Each weight is one matrix product, which reads its weight and its input and writes its output; everything between the
projections of an attention or a recurrence is one fused kernel, which reads their outputs and writes the input of the last
projection, never its scores. Norms, rotations, activations and sums read and write the numbers that they declare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from anyformer.costs.memory import ADAM, States, states_of
from anyformer.model import Architecture
from anyformer.model.narrow import chosen
from anyformer.operations import Address, Contraction, Elementwise, ExpertProduct, Flops, Node, Pairs, Product, Shape
from anyformer.plan import Checkpointing, Plan
from anyformer.precision import Narrow

Mode = Literal["train", "prefill", "decode"]
Unit = Literal["matrix", "attention", "memory", "optimiser"]
"""The work of a kernel: products with a weight, products between activations, reads and writes of memory alone, or the reads
and writes of an optimiser's update."""
Share = Literal["features", "experts", "positions", "all"]
"""How tensor parallelism divides a kernel: by features of its weight; by whole experts; by positions of the stream, where
these are divided at all; or not."""
RECOMPUTED: Mapping[Checkpointing, tuple[Unit, ...]] = {
    "none": (),
    "selective": ("memory",),
    "full": ("matrix", "attention", "memory"),
}
"""Units of which each way of checkpointing runs the kernels of layers twice."""


@dataclass(frozen=True)
class Kernel:
    """One kernel in each of `layers` layers: `flops` of the model, FLOPs `executed`, in so many `launches`; bytes to and from
    memory of `weights`, of decode `state` and of all else that it `moves`."""

    address: Address
    name: str
    unit: Unit
    flops: Flops
    executed: int
    moves: int
    weights: int = 0
    launches: int = 1
    layers: int = 1
    share: Share = "all"
    path: str = ""
    """Path of the weight, where all layers of a variant are one."""
    state: int = 0
    state_ranks: int = 1
    """Ranks among which the decode state can be divided, at most."""
    number: str = "bf16"
    """The format of the operands of its products, whose peak rate it reaches."""

    @property
    def bytes(self) -> int:
        """Bytes to and from memory."""
        return self.weights + self.moves + self.state

    def of_rank(self, tp: int, ep: int = 1, *, sp: bool = True) -> Kernel:
        """The share of one of `tp` ranks that divide products, of `ep` that divide experts, with positions divided or not."""
        ranks = tp if self.share in ("features", "experts") or (self.share == "positions" and sp) else 1
        weight_ranks = {"features": tp, "experts": ep, "positions": 1, "all": 1}[self.share]
        if ranks == weight_ranks == 1:
            return self
        return Kernel(
            self.address,
            self.name,
            self.unit,
            self.flops,
            self.executed // ranks,
            -(-self.moves // ranks),
            -(-self.weights // weight_ranks),
            self.launches,
            self.layers,
            self.share,
            self.path,
            -(-self.state // min(ranks, self.state_ranks)),
            self.state_ranks,
            self.number,
        )

    @property
    def title(self) -> str:
        """Component, part and name: `decoder.attention.query`, whatever the layer."""
        words = (self.address.component, *self.address.part, self.name)
        return ".".join(word for word in words if word)


def kernels(architecture: Architecture, shape: Shape, plan: Plan, mode: Mode) -> list[Kernel]:
    """Every kernel of a step, of one layer of each kind, in the plan's precision.

    Training counts a product three times, forward and for the gradients of input and weight, in FLOPs and in bytes alike;
    a fused attention kernel computes its scores again, so it executes 3.5 times its forward FLOPs (Dao et al. 2022,
    arXiv 2205.14135), and only the pairs that the mask allows. The `plain` kernel saves its scores: it executes 3 times
    the dense FLOPs (the scores it writes are not among the bytes). Kernels that checkpointing recomputes execute and move
    their forward part once more.
    """
    price = architecture.folded_trained_cost if mode == "train" else architecture.folded_cost
    tally = price(shape, plan)
    nodes = list(tally.nodes())
    work = [kernel for node in nodes for kernel in _of_node(node, plan, mode)]
    work += _stream(architecture, shape, plan, mode)
    work += _elementwise(architecture, nodes, plan, mode)
    if mode == "train":
        units = RECOMPUTED[plan.checkpointing]
        work = [_recomputed(kernel) if kernel.unit in units and kernel.address.layer is not None else kernel for kernel in work]
        work.append(update(tally.parameters, states_of(plan.precision)))
    return work


def update(parameters: int, states: States = ADAM) -> Kernel:
    """The kernel of an optimiser's update of so many parameters."""
    return Kernel(Address("optimiser"), "", "optimiser", Flops(), 0, states.updated * parameters)


def _of_node(node: Node, plan: Plan, mode: Mode) -> Iterator[Kernel]:
    """The products of a part, then all between them as one kernel."""
    passes, size = 3 if mode == "train" else 1, plan.activation_bytes
    work = node.tally.own_work
    products = {name: product for name, product in work.items() if isinstance(product, Product | ExpertProduct)}
    at = Kernel(node.address, "", "matrix", Flops(), 0, 0, layers=node.times, launches=passes, number=_number(plan))
    moved = gathered = 0
    for name, product in products.items():
        rows = product.exact_rows if isinstance(product, ExpertProduct) else product.rows
        flops, share = product.flops, _share(product)
        weight = node.tally.own_weights.get(f"{name}.weight")
        narrow = None if mode != "train" or weight is None else chosen(plan.precision, weight)
        wide = replace(
            at,
            name=name,
            flops=Flops(flops.dense * passes, flops.exact * passes),
            executed=flops.exact * passes,
            moves=size * rows * (product.inputs + product.outputs) * passes,
            weights=size * product.weight_read * passes,
            share=share,
            path=node.name(name),
        )
        yield from (wide,) if narrow is None or isinstance(product, ExpertProduct) else _narrow(wide, product, narrow, size)
        moved += rows * (product.inputs if product.residual else product.outputs)
        if product.residual and isinstance(product, ExpertProduct):
            # Rows are gathered for their experts, and their outputs added up: each is read and written twice over.
            gathered += 4 * rows * product.outputs
    between = sum((item.flops for item in work.values() if isinstance(item, Pairs | Contraction)), Flops())
    state = node.tally.own_state if mode != "train" else None
    if not products:
        moved = sum(_operands(item) for item in work.values() if isinstance(item, Pairs))
    moved = moved if between.dense else gathered
    if between.dense or moved or state:
        yield replace(
            at,
            name="mixing" if between.dense else "dispatch",
            unit="attention" if between.dense else "memory",
            flops=Flops(between.dense * passes, between.exact * passes),
            executed=_executed(between, mode, plan),
            moves=size * moved * passes,
            state=0 if state is None else state.moved,
            state_ranks=1 if state is None else state.ranks,
            share="experts" if gathered else "features",
        )


def _number(plan: Plan) -> str:
    """The format of the operands of products that are not narrow."""
    return plan.precision.unit if plan.precision.narrow is None else plan.number


def _narrow(wide: Kernel, product: Product, narrow: Narrow, size: int) -> Iterator[Kernel]:
    """The three products of a weight on operands of fewer bits, and the kernels that round those.

    X, dO and W are each read by two products, and rounded from `size` bytes a number, the weight from 4 in both passes; O, dX
    and dW are written as they are elsewhere.
    """
    numbers, bits = product.rows * (product.inputs + product.outputs), narrow.bits
    weight = product.weight_read
    yield replace(
        wide,
        number=narrow.unit,
        moves=int(numbers * (size + 2 * bits / 8)),
        weights=int(weight * (size + 2 * bits / 8)),
    )
    yield replace(
        wide,
        name=f"{wide.name} rounding",
        unit="memory",
        flops=Flops(),
        executed=0,
        moves=int(numbers * (size + bits / 8)),
        weights=int(2 * weight * (4 + bits / 8)),
        launches=4,
    )


def _operands(pairs: Pairs) -> int:
    """Elements of queries and keys, or of values and the outputs they are mixed into."""
    return pairs.batch * pairs.heads * pairs.features * (pairs.queries + pairs.pairs // pairs.queries)


def _share(product: Product | ExpertProduct) -> Share:
    if isinstance(product, ExpertProduct):
        return "experts"
    return "features" if product.role in ("column", "row") else "positions"


def _executed(between: Flops, mode: Mode, plan: Plan) -> int:
    """FLOPs between the products that the plan's attention kernel executes."""
    if plan.attention == "plain":
        return between.dense * (3 if mode == "train" else 1)
    return between.exact * 7 // 2 if mode == "train" else between.exact


def _recomputed(kernel: Kernel) -> Kernel:
    """The kernel with its forward pass, a third of its work, once more."""
    return replace(
        kernel,
        executed=kernel.executed + kernel.flops.exact // 3,
        moves=kernel.moves * 4 // 3,
        weights=kernel.weights * 4 // 3,
        launches=kernel.launches * 4 // 3,
    )


def _elementwise(architecture: Architecture, nodes: list[Node], plan: Plan, mode: Mode) -> Iterator[Kernel]:
    """Element-wise kernels of each kind of layer: on the residual stream, and within the sublayers."""
    passes, size = 3 if mode == "train" else 1, plan.activation_bytes
    places: dict[tuple[Address, bool], list[tuple[int, Elementwise]]] = {}
    for node in nodes:
        at = node.address
        place = at if at.layer is None else Address(at.module, at.layer)
        own = [work for work in node.tally.own_work.values() if isinstance(work, Elementwise)]
        if own and at.module in architecture.layered:
            places.setdefault((place, at.sublayer), []).extend((node.times, work) for work in own)
    for (address, inside), works in places.items():
        kinds = [work.kind for _, work in works]
        stack = architecture.stacks.get(address.module)
        streams = None if stack is None or inside else stack.streams
        copies = 1 if streams is None else streams.count
        yield Kernel(
            address,
            "pointwise" if inside else "residual",
            "memory",
            Flops(),
            0,
            sum(work.moved for _, work in works) * size * passes * copies,
            launches=max(kinds.count(kind) for kind in kinds) * passes,
            layers=works[0][0],
            share="features" if inside else "positions",
        )


def _stream(architecture: Architecture, shape: Shape, plan: Plan, mode: Mode) -> Iterator[Kernel]:
    """Kernels at both ends of the model: looking up embeddings reads and writes the stream, the loss reads the logits."""
    passes, size = 3 if mode == "train" else 1, plan.activation_bytes
    for name, stack in architecture.stacks.items():
        inputs = architecture.shape_of(name, shape)
        if inputs is not None:
            streams = 1 if stack.streams is None else stack.streams.count
            moves = 2 * passes * size * inputs.rows * architecture.width * streams
            yield Kernel(Address(name), "embedding", "memory", Flops(), 0, moves, launches=passes, share="positions")
    if mode == "train" and architecture.head is not None:
        moves = passes * size * architecture.trained_logits(shape)
        yield Kernel(Address("head", after=True), "loss", "memory", Flops(), 0, moves, launches=passes, share="features")
