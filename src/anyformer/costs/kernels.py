"""The kernels of one step: the FLOPs that each computes and the bytes that it moves, whatever the hardware.

Each weight is one matrix product, which reads its weight and its input and writes its output; everything between the
projections of an attention or a recurrence is one fused kernel, which reads their outputs and writes the input of the last
projection, never its scores. Norms, rotations, activations and sums read and write the numbers that they declare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from anyformer.costs.kernel import Kernel, Mode, Share, Unit
from anyformer.costs.memory import ADAM, MASTER, States, states_of
from anyformer.costs.products import gradient_apart, narrow_format, narrowed
from anyformer.model import Architecture
from anyformer.operations import Address, Contraction, Elementwise, ExpertProduct, Flops, Node, Pairs, Product, Shape
from anyformer.plan import Checkpointing, Plan
from anyformer.tuning import Optimiser

RECOMPUTED: Mapping[Checkpointing, tuple[Unit, ...]] = {
    "none": (),
    "selective": ("memory",),
    "full": ("matrix", "attention", "memory"),
}
"""Units of which each way of checkpointing runs the kernels of layers twice."""


def kernels(
    architecture: Architecture, shape: Shape, plan: Plan, mode: Mode, optimiser: Optimiser | None = None
) -> list[Kernel]:
    """Every kernel of a step, of one layer of each kind, in the plan's precision.

    Training counts a product three times, forward and for the gradients of input and weight, in FLOPs and in bytes alike,
    the last as a kernel of its own, which adds the gradient to the sum of micro-batches; a fused attention kernel computes
    its scores again, so it executes 3.5 times its forward FLOPs (Dao et al. 2022, arXiv 2205.14135), and only the pairs that
    the mask allows. The `plain` kernel saves its scores: it executes 3 times the dense FLOPs (the scores it writes are not
    among the bytes). Kernels that checkpointing recomputes execute and move their forward part once more.
    """
    price = architecture.folded_trained_cost if mode == "train" else architecture.folded_cost
    tally = price(shape, plan)
    nodes = list(tally.nodes())
    work = [(kernel, node.unreached) for node in nodes for kernel in _of_node(node, plan, mode)]
    work += [(kernel, 0) for kernel in _stream(architecture, shape, plan, mode)]
    work += _elementwise(architecture, nodes, plan, mode)
    if mode != "train":
        return [kernel for kernel, _ in work]
    units = RECOMPUTED[plan.checkpointing]
    priced = [
        _mean(
            kernel,
            _recomputed(kernel) if kernel.unit in units and kernel.address.layer is not None else kernel,
            unreached,
            plan,
        )
        for kernel, unreached in work
    ]
    states = states_of(plan.precision)
    if optimiser is None:
        return [*priced, update(tally.parameters, states)]
    kept = replace(states, optimiser=MASTER * plan.precision.masters)
    once = update(tally.parameters, kept)
    return [*priced, replace(once, moves=once.moves + 2 * sum(map(optimiser.state_bytes, tally.weights.values())))]


def _mean(once: Kernel, kernel: Kernel, unreached: int, plan: Plan) -> Kernel:
    """The mean `kernel` of layers of which no gradient reaches some: these execute the forward pass of `once`, and no more."""
    if not unreached:
        return kernel
    part, share = Fraction(1, once.passes) if once.passes else Fraction(0), Fraction(unreached, once.layers)
    forward = once.executed if plan.attention == "plain" or once.unit != "attention" else once.flops.exact

    def mean(all_of_them: int, of_forward: int) -> int:
        return round(all_of_them * (1 - share) + of_forward * part * share)

    return replace(
        kernel,
        executed=mean(kernel.executed, forward),
        moves=mean(kernel.moves, once.moves),
        weights=mean(kernel.weights, once.weights),
        launches=mean(kernel.launches, once.launches),
    )


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
        narrow = None if mode != "train" else narrow_format(plan, product, weight)
        wide = replace(
            at,
            name=name,
            flops=Flops(flops.dense * passes, flops.exact * passes),
            executed=flops.exact * passes,
            moves=size * rows * (product.row_inputs + product.outputs) * passes,
            weights=size * product.weight_read * passes,
            share=share,
            path=node.name(name),
        )
        forms = (wide,) if narrow is None else narrowed(wide, product, rows, narrow, size)
        for form in forms:
            if mode == "train" and form.executed:
                yield from gradient_apart(form, product.weight_read, size, states_of(plan.precision).gradients)
            else:
                yield form
        moved += rows * (product.row_inputs if product.residual else product.outputs)
        if product.residual and isinstance(product, ExpertProduct):
            # Rows are gathered for their experts, and their outputs added up: each is read and written twice over, forward
            # and backward.
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
            moves=size * moved * (min(passes, 2) if gathered else passes),
            passes=2 if gathered else 3,
            state=0 if state is None else state.moved,
            state_ranks=1 if state is None else state.ranks,
            share="experts" if gathered else "features",
        )


def _number(plan: Plan) -> str:
    """The format of the operands of products that are not narrow."""
    return plan.precision.unit if plan.precision.narrow is None else plan.number


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
    """The kernel with its forward pass, one of its passes, once more."""
    passes = kernel.passes
    if not passes:
        return kernel
    return replace(
        kernel,
        executed=kernel.executed + kernel.flops.exact // passes,
        moves=kernel.moves * (passes + 1) // passes,
        weights=kernel.weights * (passes + 1) // passes,
        launches=kernel.launches * (passes + 1) // passes,
    )


def _elementwise(architecture: Architecture, nodes: list[Node], plan: Plan, mode: Mode) -> Iterator[tuple[Kernel, int]]:
    """Element-wise kernels of each kind of layer: on the residual stream, and within the sublayers; and how many of the layers
    no gradient reaches."""
    passes, size = 3 if mode == "train" else 1, plan.activation_bytes
    places: dict[tuple[Address, bool], list[tuple[Node, Elementwise]]] = {}
    for node in nodes:
        at = node.address
        place = at if at.layer is None else Address(at.module, at.layer)
        own = [work for work in node.tally.own_work.values() if isinstance(work, Elementwise)]
        if own and at.module in architecture.layered:
            places.setdefault((place, at.sublayer), []).extend((node, work) for work in own)
    for (address, inside), works in places.items():
        kinds = [work.kind for _, work in works]
        stack = architecture.stacks.get(address.module)
        streams = None if stack is None or inside else stack.streams
        copies = 1 if streams is None else streams.count
        first, _ = works[0]
        kernel = Kernel(
            address,
            "pointwise" if inside else "residual",
            "memory",
            Flops(),
            0,
            sum(work.moved for _, work in works) * size * passes * copies,
            launches=max(kinds.count(kind) for kind in kinds) * passes,
            layers=first.times,
            share="features" if inside else "positions",
        )
        yield kernel, first.unreached


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
