"""Memory of inference: weights by format, decode state by kind of memory, and what one decode step reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Literal

from anyformer.costs.work import distinct_experts
from anyformer.model import Architecture
from anyformer.parts.call.state import Slots
from anyformer.plan import Plan
from anyformer.tally import Shape, Tally, Weight

Scales = Literal["none", "matrix", "row", "group"]
Growth = Literal["every token", "to its window", "never", "with the source"]
GROUP = 128


@dataclass(frozen=True)
class Format:
    """How matrices are stored: `bits` per element, and one scale (and zero point) per matrix, output row, or group of inputs.

    Bytes of a matrix (O, I): ceil(O I bits / 8) + scales * (scale_bits + zero_bits) / 8, scales = 1, O, or O ceil(I / group).
    Only matrices of blocks (and of the embeddings' projections) are quantised: tables, heads, norms, routers, biases and
    whatever else has one dimension stay 16 bits, as in GPTQ, AWQ and fp8 checkpoints; `fp32` stores all in 32.
    """

    name: str
    bits: int
    scales: Scales = "none"
    scale_bits: int = 0
    zero_bits: int = 0
    group: int = GROUP
    other_bits: int = 16
    """Of what is not quantised."""

    def matrix_bytes(self, weight: Weight) -> int:
        """Bytes of one declared weight (all its copies), scales included."""
        *stacked, outputs, inputs = weight.shape
        matrices = prod(stacked) * weight.copies
        scales = {"none": 0, "matrix": 1, "row": outputs, "group": outputs * -(-inputs // self.group)}[self.scales]
        return matrices * (_bytes(outputs * inputs * self.bits) + _bytes(scales * (self.scale_bits + self.zero_bits)))

    def bytes(self, name: str, weight: Weight) -> int:
        """Bytes of a weight as it is stored."""
        return self.matrix_bytes(weight) if quantised(name, weight) else _bytes(weight.count * self.other_bits)


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        format.name: format
        for format in (
            Format("fp32", 32, other_bits=32),
            Format("bf16", 16),
            # One fp32 scale per matrix, an expert's its own (Micikevicius et al. 2022, arXiv 2209.05433).
            Format("fp8", 8, "matrix", 32),
            # One scale per output row (LLM.int8(), Dettmers et al. 2022, arXiv 2208.07339).
            Format("int8", 8, "row", 16),
            # Groups of 128 inputs with a 16-bit scale and a 4-bit zero point (GPTQ, arXiv 2210.17323; AWQ, 2306.00978).
            Format("int4", 4, "group", 16, 4),
        )
    }
)


def quantised(name: str, weight: Weight) -> bool:
    """Whether formats below 16 bits hold this weight."""
    is_matrix = len(weight.shape) == 2 or (weight.role == "expert" and len(weight.shape) == 3)
    return is_matrix and weight.fill in ("matrix", "residual") and ".router." not in name


def weight_bytes(architecture: Architecture, format: Format) -> int:
    """Bytes of all weights in a format; tied ones once."""
    return stored(architecture.folded_cost(Shape(source=1)).weights, format)


def stored(weights: Mapping[str, Weight], format: Format) -> int:
    """Bytes of declared weights in a format."""
    return sum(format.bytes(name, weight) for name, weight in weights.items())


@dataclass(frozen=True)
class Memory:
    """The decode state of one kind of layer: `bytes` for all its layers and rows, what the last token of one row added, and
    what makes it grow."""

    name: str
    bytes: int
    per_token: int
    grows: Growth


@dataclass(frozen=True)
class DecodeState:
    """Decode state at a batch and a context: by layer kind, and the book of positions (8 bytes per slot)."""

    batch: int
    context: int
    memories: tuple[Memory, ...]
    book: int

    @property
    def total(self) -> int:
        """Bytes allocated."""
        return self.book + sum(memory.bytes for memory in self.memories)

    @property
    def per_sequence(self) -> int:
        return self.total // self.batch

    @property
    def per_token(self) -> int:
        """What the last token of a row added, beside 8 bytes in the book of positions."""
        return sum(memory.per_token for memory in self.memories)


def decode_state(
    architecture: Architecture, *, batch: int = 1, context: int, source: int | None = None, plan: Plan | None = None
) -> DecodeState:
    """Bytes that `batch` sequences of `context` positions keep; `source`: length of the other sequence (default: context).

    Full caches grow with every token, rings to their window, recurrent states never, memories of the source with the source:
    all told from what the parts declare at other lengths.
    """
    read = architecture.source_of(context, source)
    plan = plan or Plan(precision="bf16")

    def state(length: int, source: int) -> Mapping[str, int]:
        if not length:
            return {}
        return architecture.folded_cost(Shape(batch=batch, past=length - 1, source=source), plan).state_bytes

    now, before, longer = state(context, read), state(context - 1, read), state(context + 1, read)
    all_grow = all(longer[name] > size for name, size in now.items())
    first = now if all_grow else state(1, read)
    other = state(context, read + 1) if read and not all_grow else now
    memories = []
    for name, size in now.items():
        grows: Growth = "to its window"
        if longer[name] > size:
            grows = "every token"
        elif other[name] != size:
            grows = "with the source"
        elif first[name] == size and context > 1:
            grows = "never"
        memories.append(Memory(name, size, (size - before.get(name, 0)) // batch, grows))
    return DecodeState(batch, context, tuple(memories), Slots.bytes(batch, context) if memories else 0)


@dataclass(frozen=True)
class Reading:
    """Bytes that one decode step reads from memory: weights, and the decode state of every row."""

    weights: int
    state: int

    @property
    def total(self) -> int:
        return self.weights + self.state


def read_per_step(
    architecture: Architecture,
    format: Format,
    *,
    batch: int = 1,
    length: int,
    source: int | None = None,
    plan: Plan | None = None,
) -> Reading:
    """What decoding one token for each of `batch` rows after `length` positions reads; `source`: as in `decode_state`.

    Every weight once, but of a table only the rows looked up (all of it where the head is tied to it), and of X experts the
    X (1 - (1 - k / X)^B) that B tokens, each choosing k at random, are expected to choose.
    """
    plan = plan or Plan(precision="bf16")
    read = (source or length) if architecture.two_inputs else 0
    tally = architecture.folded_cost(Shape(batch=batch, past=length, source=read), plan)
    tied = architecture.head is not None and architecture.head.tied
    table = "decoder_embedding.weight" if architecture.decoder_embedding is not None else "embedding.weight"
    whole = {table} if tied else set()
    weights = sum(
        _read(format.bytes(name, weight), weight, batch, name in whole) for name, weight in _decoding(architecture, tally)
    )
    return Reading(weights, tally.total_state_bytes)


def expected_experts(architecture: Architecture, batch: int) -> tuple[tuple[int, float], ...]:
    """(experts of a layer, those that one decoding step of so many rows is expected to read), each kind of mixture once."""
    kinds = dict.fromkeys(
        sublayer.routing
        for stack in architecture.stacks.values()
        for block in stack.variants.values()
        for sublayer in block.sublayers
        if sublayer.routing is not None
    )
    return tuple((experts, distinct_experts(experts, chosen, batch)) for experts, chosen in kinds)


def _decoding(architecture: Architecture, tally: Tally) -> list[tuple[str, Weight]]:
    """The weights of what computes while decoding: of two inputs, neither the encoder nor the source's table."""
    idle = ("encoder.",) if architecture.two_inputs else ()
    return [(name, weight) for name, weight in tally.weights.items() if not name.startswith(idle)]


def _read(size: int, weight: Weight, batch: int, whole: bool) -> int:
    """Of a weight's bytes those that a step reads."""
    if weight.chosen is not None:
        return round(size * distinct_experts(weight.shape[0], weight.chosen, batch) / weight.shape[0])
    if weight.fill == "embedding" and not whole:
        return size * min(batch, weight.shape[0]) // weight.shape[0]
    return size


def _bytes(bits: int) -> int:
    return -(-bits // 8)
