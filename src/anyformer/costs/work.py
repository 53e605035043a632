"""The operations of one step: what each computes and what it moves, whatever the hardware.

A sublayer is priced as it is declared. Each weight is one matrix product, which reads its weight and its input and writes
its output; what stands between the projections (scores and mixing, a recurrence, an activation) is one fused kernel, which
reads what the projections wrote and writes what the last one reads, and never writes its scores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from anyformer.model import Architecture
from anyformer.parts import Block
from anyformer.plan import Checkpointing, Plan
from anyformer.tally import Flops, Shape, Tally, Weight

Mode = Literal["train", "prefill", "decode"]
Unit = Literal["matrix", "attention", "memory"]
"""What the work keeps busy: matrix products by a weight, products between activations, or only the memory."""
AGAIN: Mapping[Checkpointing, tuple[Unit, ...]] = {
    "none": (),
    "selective": ("memory",),
    "full": ("matrix", "attention", "memory"),
}
"""Which work of layers each way of checkpointing does twice."""
OPTIMISER_BYTES = 28
"""Per parameter and step: AdamW in fp32 reads weight, gradient and two moments, and writes all but the gradient."""


@dataclass(frozen=True)
class Work:
    """One operation in each of `layers` layers: `flops` of the model, `executed` by its kernels, `bytes` to and from memory."""

    name: str
    unit: Unit
    flops: Flops
    executed: int
    bytes: int
    kernels: int = 1
    layers: int = 1
    routed: bool = False
    """Whether it is experts' work, which expert parallelism divides."""


@dataclass(frozen=True)
class Product:
    """A weight times the rows that reach it."""

    weight: Weight
    flops: Flops

    @property
    def rows(self) -> int:
        """Vectors multiplied: a capacity pads what `exact` leaves out, and identity experts multiply nothing."""
        return self.flops.exact // (2 * self.inputs * self.outputs)

    @property
    def inputs(self) -> int:
        """Features read of each row; of a convolution, those under its kernel."""
        shape = self.weight.shape if self.weight.chosen is None else self.weight.shape[1:]
        return prod(shape[1:])

    @property
    def outputs(self) -> int:
        """Features written of each row."""
        return self.weight.shape[0 if self.weight.chosen is None else 1]

    @property
    def leaves(self) -> bool:
        """Whether it writes to the residual stream, and so ends its sublayer."""
        return self.weight.fill == "residual"

    @property
    def tokens(self) -> int:
        """Rows of the sublayer, each of which may pass several experts."""
        return self.rows // (self.weight.chosen or 1)

    def bytes(self, size: int) -> int:
        """Weight, input and output, `size` bytes per number; of experts, those that the batch is expected to choose."""
        read = self.weight.count
        if self.weight.chosen is not None:
            experts = self.weight.shape[0]
            read = round(read * distinct_experts(experts, self.weight.chosen, self.tokens) / experts)
        return size * (read + self.rows * (self.inputs + self.outputs))


def distinct_experts(experts: int, chosen: int, tokens: int) -> float:
    """X (1 - (1 - k/X)^tokens): experts that a batch is expected to choose, if each token chooses k of X evenly."""
    return experts * (1 - (1 - chosen / experts) ** tokens)


def operations(architecture: Architecture, shape: Shape, plan: Plan, mode: Mode) -> list[Work]:
    """Every operation of a step, of one layer of each kind, in the plan's precision.

    Training counts a product three times, forward and for the gradients of input and weight, in FLOPs and in bytes alike;
    a fused attention kernel computes its scores again, so it executes 3.5 times its forward FLOPs (Dao et al. 2022,
    arXiv 2205.14135), and only the pairs that the mask allows. The `plain` kernel keeps its scores: it executes 3 times
    the dense FLOPs (the scores it writes are not among the bytes). What checkpointing recomputes is executed and moved
    once more.
    """
    tally = architecture.cost(shape, plan)
    size = plan.activation_bytes
    kinds = _kinds(architecture)
    units = _units(architecture, kinds, tally)
    traffic = _state_traffic(architecture, shape, plan, tally, mode)
    found = [
        replace(work, layers=kinds[_layer(name)].layers) if _layer(name) else work
        for name, unit in units.items()
        for work in unit.work(name, size, traffic.get(name, 0), mode, plan.attention == "plain")
    ]
    found += _around(architecture, kinds, units, size, mode)
    if mode == "train":
        found = [_recomputed(work) if work.unit in AGAIN[plan.checkpointing] and _layer(work.name) else work for work in found]
        found.append(Work("optimiser", "memory", Flops(), 0, OPTIMISER_BYTES * tally.parameters))
    return found


@dataclass(frozen=True)
class _Unit:
    """What shares activations: the products of one sublayer, and the FLOPs between them."""

    products: Mapping[str, Product]
    between: Flops

    def work(self, name: str, size: int, state: int, mode: Mode, plain: bool) -> Iterator[Work]:
        """Its products, then what stands between them."""
        passes = 3 if mode == "train" else 1
        for product_name, product in self.products.items():
            flops = Flops(product.flops.dense * passes, product.flops.exact * passes)
            routed = product.weight.chosen is not None
            yield Work(
                f"{name}.{product_name}", "matrix", flops, flops.exact, product.bytes(size) * passes, passes, routed=routed
            )
        moved = sum(p.rows * (p.inputs if p.leaves else p.outputs) for p in self.products.values())
        # Rows are gathered for their experts, and their outputs added up: each is read and written twice over.
        moved += sum(4 * p.rows * p.outputs for p in self.products.values() if p.leaves and p.weight.chosen)
        if not (self.between.dense or state or any(p.leaves for p in self.products.values())):
            return
        yield Work(
            f"{name}.{'mixing' if self.between.dense else 'activation'}",
            "attention" if self.between.dense else "memory",
            Flops(self.between.dense * passes, self.between.exact * passes),
            self._executed(mode, plain),
            size * moved * passes + state,
            passes,
            routed=any(p.weight.chosen is not None for p in self.products.values()),
        )

    def _executed(self, mode: Mode, plain: bool) -> int:
        """FLOPs between the products by the chosen kernel."""
        if plain:
            return self.between.dense * (3 if mode == "train" else 1)
        return self.between.exact * 7 // 2 if mode == "train" else self.between.exact


def _recomputed(work: Work) -> Work:
    """With the forward pass, a third of all, once more."""
    return replace(
        work,
        executed=work.executed + work.flops.exact // 3,
        bytes=work.bytes * 4 // 3,
        kernels=work.kernels * 4 // 3,
    )


@dataclass(frozen=True)
class _Kind:
    """A block variant of a stack, priced at the first layer that has it."""

    block: Block
    layers: int


def _kinds(architecture: Architecture) -> dict[str, _Kind]:
    """Every kind of layer by the name of its first: `decoder.layers.0`. The first of a kind also holds shared weights."""
    kinds = {}
    for name, stack in architecture.stacks.items():
        layers = stack.layers
        for variant, block in stack.variants.items():
            kinds[f"{name}.layers.{layers.index(variant)}"] = _Kind(block, layers.count(variant))
    return kinds


def _layer(name: str) -> str:
    """`decoder.layers.0` of `decoder.layers.0.attention.sublayer`; empty outside the layers of a stack."""
    words = name.split(".", 3)
    return ".".join(words[:3]) if words[0] in ("encoder", "decoder") and words[1:2] == ["layers"] else ""


def _units(architecture: Architecture, kinds: Mapping[str, _Kind], tally: Tally) -> dict[str, _Unit]:
    """The declared FLOPs, sorted into products by a weight and what stands between them, by module."""
    products: dict[str, dict[str, Product]] = defaultdict(dict)
    loose: list[tuple[str, Flops]] = []
    for name, flops in tally.flops.items():
        layer = _layer(name)
        if flops.dense == 0 or (layer and layer not in kinds):
            continue
        weight = _weight(architecture, tally, name)
        if weight is None:
            loose.append((name, flops))
        else:
            module, _, own = name.rpartition(".")
            products[module][own] = Product(weight, flops)
    between: dict[str, Flops] = defaultdict(Flops)
    for name, flops in loose:
        module = name.rpartition(".")[0]
        home = module if module in products else module.partition(".sublayer")[0] + ".sublayer"
        between[home] += flops
    return {module: _Unit(products[module], between[module]) for module in [*products, *(between.keys() - products.keys())]}


def _weight(architecture: Architecture, tally: Tally, name: str) -> Weight | None:
    """The weight that an operation multiplies by: its own, or of a tied head the table; None between activations."""
    own = tally.weights.get(f"{name}.weight") or tally.weights.get(name)
    if own is not None or name != "head.logits":
        return own
    tied = "embedding.weight" if architecture.decoder_embedding is None else "decoder_embedding.weight"
    return tally.weights.get("head.weight") or tally.weights[tied]


def _state_traffic(architecture: Architecture, shape: Shape, plan: Plan, tally: Tally, mode: Mode) -> dict[str, int]:
    """Bytes of decode state that each sublayer reads and writes: prefill writes it, decoding reads it.

    A state that is as large after one position as after many is a recurrent one: each step reads and writes all of it.
    """
    if mode == "train":
        return {}
    traffic = dict(tally.state_bytes)
    if mode == "decode":
        first = Shape(batch=shape.batch, source=1 if architecture.two_inputs else 0)
        least = architecture.cost(first, plan).state_bytes
        traffic = {name: held * 2 if least.get(name) == held else held for name, held in traffic.items()}
        for reader, owner in _borrowers(architecture):
            traffic[reader] = traffic.get(reader, 0) + sum(b for n, b in tally.state_bytes.items() if n.startswith(owner))
    return traffic


def _borrowers(architecture: Architecture) -> Iterator[tuple[str, str]]:
    """(sublayer that reads the decode state of another layer's, that other sublayer)."""
    for stack_name, stack in architecture.stacks.items():
        layer = {variant: f"{stack_name}.layers.{stack.layers.index(variant)}" for variant in stack.variants}
        for variant, block in stack.variants.items():
            for name, branch in block.branches.items():
                for read in branch.sublayer.reads:
                    if read.state and read.variant is not None:
                        leaving = stack.variants[read.variant].branches.items()
                        owner = [name for name, other in leaving if read.name in other.sublayer.leaves][-1]
                        yield f"{layer[variant]}.{name}.sublayer", f"{layer[read.variant]}.{owner}.sublayer"


def _around(
    architecture: Architecture, kinds: Mapping[str, _Kind], units: Mapping[str, _Unit], size: int, mode: Mode
) -> Iterator[Work]:
    """What stands around the sublayers: look-up, norms and additions of the residual stream, the loss.

    A norm reads and writes the stream, an addition reads two and writes one, the loss reads the logits.
    """
    passes = 3 if mode == "train" else 1
    for name, stack in architecture.stacks.items():
        rows = max((_rows(unit) for module, unit in units.items() if module.startswith(f"{name}.")), default=0)
        if rows == 0:
            continue
        stream = passes * size * rows * architecture.width * (1 if stack.streams is None else stack.streams.count)
        yield Work(f"{name}.embedding", "memory", Flops(), 0, 2 * stream, passes)
        for layer, kind in kinds.items():
            if layer.startswith(f"{name}."):
                norms, branches = len(kind.block.norms), len(kind.block.branches)
                moved = stream * (2 * norms + 3 * branches)
                yield Work(f"{layer}.residual", "memory", Flops(), 0, moved, max(norms, branches) * passes, kind.layers)
    if mode == "train" and "head" in units:
        logits = sum(p.rows * p.outputs for p in units["head"].products.values())
        yield Work("head.loss", "memory", Flops(), 0, passes * size * logits, passes)


def _rows(unit: _Unit) -> int:
    """Rows that leave a sublayer for the residual stream."""
    return max((product.tokens for product in unit.products.values() if product.leaves), default=0)
