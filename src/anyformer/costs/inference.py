"""Memory of inference: weights by format, decode state by kind of layer, and bytes that one decode step reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from anyformer.model import Architecture
from anyformer.operations import Address, Shape, Tally, Weight, distinct_experts
from anyformer.parts.call.shared import slot_bytes
from anyformer.plan import Plan
from anyformer.precision import Bf16
from anyformer.quantising import MatrixFormat

Growth = Literal["every token", "to its window", "never", "with the source"]


def weight_bytes(architecture: Architecture, format: MatrixFormat) -> int:
    """Bytes of all weights in a format; tied ones once."""
    return stored(architecture.folded_cost(Shape(source=1)).weights, format)


def stored(weights: Mapping[str, Weight], format: MatrixFormat) -> int:
    """Bytes of declared weights in a format."""
    return sum(format.bytes(weight) for weight in weights.values())


@dataclass(frozen=True)
class LayerState:
    """The decode state of one kind of layer: `bytes` of all its layers and rows, bytes that the last token of one row added,
    and what makes it grow."""

    name: str
    """`decoder.local.attention`: the variant of the layers, and the branch."""
    component: str
    """`decoder.attention`."""
    bytes: int
    per_token: int
    grows: Growth


@dataclass(frozen=True)
class DecodeState:
    """Decode state at a batch and a context: by kind of layer, and the position of every slot (8 bytes)."""

    batch: int
    context: int
    memories: tuple[LayerState, ...]
    positions: int

    @property
    def total(self) -> int:
        """Bytes allocated."""
        return self.positions + sum(memory.bytes for memory in self.memories)

    @property
    def per_sequence(self) -> int:
        return self.total // self.batch

    @property
    def per_token(self) -> int:
        """Bytes that the last token of a row added, without the 8 bytes of its position."""
        return sum(memory.per_token for memory in self.memories)


def decode_state(
    architecture: Architecture, *, batch: int = 1, context: int, source: int | None = None, plan: Plan | None = None
) -> DecodeState:
    """Decode state of `batch` sequences of `context` positions; `source`: length of the other sequence (default: context).

    Full caches grow with every token, rings to their window, recurrent states never, memories of the source with the source:
    all four follow from what the parts declare at other lengths.
    """
    source_length = architecture.source_of(context, source)
    plan = plan or Plan(precision=Bf16())

    def state(length: int, source_length: int) -> Mapping[Address, int]:
        return held_state(architecture, batch, length, source_length, plan)

    now, before, after = (state(length, source_length) for length in (context, context - 1, context + 1))
    all_grow = all(after[at] > size for at, size in now.items())
    first = now if all_grow else state(1, source_length)
    longer_source = state(context, source_length + 1) if source_length and not all_grow else now
    memories = []
    for at, size in now.items():
        grows: Growth = "to its window"
        if after[at] > size:
            grows = "every token"
        elif longer_source[at] != size:
            grows = "with the source"
        elif first[at] == size and context > 1:
            grows = "never"
        memories.append(LayerState(str(at), at.component, size, (size - before.get(at, 0)) // batch, grows))
    return DecodeState(batch, context, tuple(memories), slot_bytes(batch, context) if memories else 0)


def held_state(architecture: Architecture, batch: int, length: int, source: int, plan: Plan) -> Mapping[Address, int]:
    """Bytes that every kind of layer holds for `batch` sequences of `length` positions, all its layers together."""
    if not length:
        return {}
    tally = architecture.folded_cost(Shape(batch=batch, past=length - 1, source=source), plan)
    own = ((node, node.tally.own_state) for node in tally.nodes())
    return {node.address: state.held * node.times for node, state in own if state is not None and state.held}


@dataclass(frozen=True)
class BytesRead:
    """Bytes that one decode step reads from memory: weights, and the decode state of every row."""

    weights: int
    state: int

    @property
    def total(self) -> int:
        return self.weights + self.state


def read_per_step(
    architecture: Architecture,
    format: MatrixFormat,
    *,
    batch: int = 1,
    length: int,
    source: int | None = None,
    plan: Plan | None = None,
) -> BytesRead:
    """Bytes read by decoding one token for each of `batch` rows after `length` positions; `source`: as in `decode_state`.

    Every weight once, but of a table only the rows looked up (all of it where the head is tied to it), and of X experts the
    X (1 - (1 - k / X)^B) that B tokens, each choosing k at random, are expected to choose.
    """
    plan = plan or Plan(precision=Bf16())
    source_length = (source or length) if architecture.two_inputs else 0
    tally = architecture.folded_cost(Shape(batch=batch, past=length, source=source_length), plan)
    tied = None if architecture.head_table is None else architecture.head_table[0]
    weights = sum(_read(format.bytes(weight), weight, batch, name == tied) for name, weight in _decoding(architecture, tally))
    return BytesRead(weights, sum(state.read for state in tally.states.values()))


def expected_experts(architecture: Architecture, batch: int) -> tuple[tuple[int, float], ...]:
    """(experts of a layer, experts that a decoding step of `batch` rows is expected to read), each kind of mixture once."""
    kinds = dict.fromkeys(
        (network.experts, network.chosen or 0)
        for stack in architecture.stacks.values()
        for block in stack.variants.values()
        for sublayer in block.sublayers
        if (network := sublayer.resizing.network) is not None and network.experts is not None
    )
    return tuple((experts, distinct_experts(experts, top_k, batch)) for experts, top_k in kinds)


def _decoding(architecture: Architecture, tally: Tally) -> list[tuple[str, Weight]]:
    """The weights that decoding reads: of a model of two inputs, neither the encoder's nor the source's table."""
    idle = {"encoder"} if architecture.two_inputs else set()
    return [
        (node.name(name), weight * node.weight_times)
        for node in tally.nodes()
        for name, weight in node.tally.own_weights.items()
        if node.weight_times and node.address.module not in idle
    ]


def _read(size: int, weight: Weight, batch: int, tied: bool) -> int:
    """Bytes that a step reads of a weight of `size` bytes."""
    if weight.chosen is not None:
        return round(size * distinct_experts(weight.shape[0], weight.chosen, batch) / weight.shape[0])
    if weight.fill == "embedding" and not tied:
        return size * min(batch, weight.shape[0]) // weight.shape[0]
    return size
