"""The bytes that the collectives of a training step carry, exactly: what is sent, by operation and dimension of the mesh.

Counted are the forward and the backward pass in fp32 without recomputation, summed over all processes: the whole tensor of an
all-gather and of a reduce-scatter, the tensor of an all-reduce, what a process sends in an all-to-all (its own part included).
How many of these bytes pass a link is a question of the algorithm: see `communication`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from anyformer.mesh import Mesh
from anyformer.model import Architecture
from anyformer.model.narrowed import divided_branches
from anyformer.parts.call.shared import SOURCE
from anyformer.parts.layers.stack import Stack
from anyformer.parts.sublayer import Routed, Sublayer
from anyformer.planning.held_weights import FLOAT, GatheredUnit, divided_in_rows, gathered_units, times_computed
from anyformer.planning.staged import Staged

INTEGER, DOUBLE = 8, 8
"""Bytes of a count, and of a loss."""
Bytes = Mapping[tuple[str, str], int]
"""Bytes by operation and dimension of the mesh."""


@dataclass(frozen=True)
class Workload:
    """The micro-batches of a step, of all processes: `count` of `rows` rows of `length` positions, with `source` positions in
    a second input."""

    count: int
    rows: int
    length: int
    source: int


def exchanged(architecture: Architecture, mesh: Mesh, pieces: Workload, *, vocabulary: bool, penalties: bool = False) -> Bytes:
    """The bytes of a step on a mesh that is resolved. `vocabulary`: its logits may be divided (`Objective`); `penalties`: its
    routers learn from penalties."""
    found: Counter[tuple[str, str]] = Counter()
    in_rows = divided_in_rows(architecture, mesh, vocabulary=vocabulary)
    for weights in gathered_units(architecture, mesh, in_rows).values():
        _of_weights(found, weights, mesh, pieces)
    if mesh.tensor > 1:
        _of_positions(found, architecture, mesh, pieces)
        if in_rows:
            _of_vocabulary(found, architecture, mesh, pieces)
    if mesh.context > 1:
        _of_context(found, architecture, mesh, pieces, logits=vocabulary, penalties=penalties)
    if mesh.expert > 1:
        _of_experts(found, architecture, mesh, pieces)
    if mesh.pipeline > 1:
        _of_stages(found, architecture, mesh, pieces, in_rows)
    return {key: size for key, size in found.items() if size}


def _of_weights(found: Counter[tuple[str, str]], weights: GatheredUnit, mesh: Mesh, pieces: Workload) -> None:
    """Weights are gathered before they are used, and their gradients summed: per pass, or once for all of an update.
    Copies of the model sum them once."""
    updates = mesh.replicas * mesh.alike
    each = pieces.count * mesh.alike
    passes = updates if mesh.schedule == "zero_bubble" else each
    dividing = "shard" if mesh.context == 1 else "context" if mesh.shard == 1 else "weights"
    outer = "shard" if mesh.expert == mesh.context else "outer"
    groups = ((dividing, mesh.weights, False), (outer, mesh.weights // mesh.expert, True))
    for dimension, parts, expert in groups:
        own = [weight for weight in weights.held if weight.expert == expert]
        learnt = sum(weight.padded(parts) * weight.learning for weight in own)
        if parts > 1:
            gathered = sum(weight.padded(parts) for weight in own) * weights.chunks
            found["all-gather", dimension] += gathered * passes * weights.gathered
            found["reduce-scatter", dimension] += learnt * passes
        if (mesh.data or 1) > 1:
            found["all-reduce", "data"] += learnt // parts * (each if weights.summed_each_pass else updates)
    summed = sum(prod(weight.shape) * weight.learning for weight in weights.held if weight.summed)
    found["all-reduce", "tensor"] += summed * FLOAT * each


def _of_positions(found: Counter[tuple[str, str]], architecture: Architecture, mesh: Mesh, pieces: Workload) -> None:
    """The stream is gathered before every sublayer and scattered behind it, and so are gradients."""
    for stack in architecture.stacks.values():
        ways, passes = mesh.tensor, pieces.count * times_computed(stack, architecture, mesh) * mesh.context
        length = -(-_length(stack, architecture, pieces) // mesh.context)
        each = pieces.rows * -(-length // ways) * ways * architecture.width * FLOAT * passes * ways
        divided = divided_branches(stack, architecture.width, ways)
        streams = stack.streams.count if stack.streams else 1
        found["all-gather", "tensor"] += 2 * each * streams
        if architecture.mtp is not None and stack is architecture.output_stack:
            found["all-gather", "tensor"] += each
        for variant in stack.layers:
            for name, branch in stack.variants[variant].branches.items():
                found["all-gather", "tensor"] += 2 * each
                if (variant, name) in divided:
                    found["reduce-scatter", "tensor"] += 2 * each
                    if SOURCE in branch.sublayer.reads:
                        source = pieces.rows * pieces.source * architecture.width * FLOAT
                        found["all-reduce", "tensor"] += source * passes * ways


def _of_context(
    found: Counter[tuple[str, str]], architecture: Architecture, mesh: Mesh, pieces: Workload, *, logits: bool, penalties: bool
) -> None:
    """Keys and values are gathered, or the stream where a sublayer computes all positions, and the stream behind the layers;
    two numbers per position behind a head. Gradients are scattered the other way round. Processes that divide heads gather
    those that they have, and each of them everything else."""
    ways, width, mtp, numbers, only_there = mesh.context, architecture.width, architecture.mtp, 0, 0
    last = Staged(architecture, mesh.pipeline, mesh.chunks).layers[-1]

    def of_all(length: int) -> int:
        return -(-length // ways) * ways

    for stack in architecture.stacks.values():
        length = of_all(_length(stack, architecture, pieces)) * times_computed(stack, architecture, mesh)
        numbers += length * width * (stack.streams.count if stack.streams else 1)
        goes_on = stack.depth - len(last) if stack is architecture.output_stack else 0
        for i, sublayer in _sublayers(stack, width, mesh.tensor):
            network, gathers = sublayer.resizing.network, sublayer.gathers(width)
            features = width if gathers is None else gathers
            # Routers' logits are gathered for penalties, which a chunk of a pipeline sends on, asked for or not.
            if gathers is None or penalties or i < goes_on or network is None or network.experts is None:
                numbers += length * features
            else:
                only_there += length * features
    if mtp is not None and mtp.reads_stream:
        numbers += of_all(pieces.length) * width
    elif mtp is not None:
        only_there += of_all(pieces.length) * width
    if logits and architecture.head is not None:
        ahead = 0 if mtp is None else mtp.depth
        numbers += sum(2 * of_all(pieces.length - k) for k in range(ahead + 1))
    each = pieces.rows * FLOAT * pieces.count * mesh.alike
    found["all-gather", "context"] += each * (numbers + only_there)
    found["reduce-scatter", "context"] += each * numbers


def _of_stages(
    found: Counter[tuple[str, str]], architecture: Architecture, mesh: Mesh, pieces: Workload, in_rows: Collection[str]
) -> None:
    """The stream and three penalties go on from chunk to chunk, and gradients come back; those of what every stage has are
    added up, and so is the loss."""
    stack, ways = architecture.output_stack, mesh.alike
    streams = stack.streams.count if stack.streams else 1
    numbers = pieces.rows * -(-pieces.length // ways) * architecture.width * streams + 3
    found["send", "pipeline"] += 2 * (mesh.all_chunks - 1) * numbers * FLOAT * pieces.count * ways
    data = mesh.data or 1
    for unit in gathered_units(architecture, mesh, in_rows).values():
        if unit.chunks > 1:
            copies = (mesh.expert if each.expert else 1 for each in unit.held)
            size = sum(prod(each.shape) * bool(each.learning) * ranks for each, ranks in zip(unit.held, copies, strict=True))
            found["all-reduce", "pipeline"] += size * FLOAT * data * mesh.tensor * mesh.pipeline
    found["all-reduce", "pipeline"] += DOUBLE * data * mesh.divided


def _of_vocabulary(found: Counter[tuple[str, str]], architecture: Architecture, mesh: Mesh, pieces: Workload) -> None:
    """Embedded tokens are summed; behind the head the gradient of its input, and three numbers per position."""
    ways, chunks, head = mesh.context, mesh.all_chunks, architecture.head
    assert head is not None, "logits are divided"
    ahead = 0 if architecture.mtp is None else architecture.mtp.depth
    predicted = pieces.rows * sum(-(-(pieces.length - k) // ways) for k in range(ahead + 1))
    # Every chunk of a pipeline embeds, and the last one alone predicts; all embed every position.
    embedded = pieces.rows * (pieces.length + (pieces.source if architecture.two_inputs else 0)) * chunks
    features = head.features(architecture.width, architecture.table_width)
    sizes = embedded * architecture.table_width + predicted * (features + 3)
    found["all-reduce", "tensor"] += sizes * FLOAT * pieces.count * mesh.alike


def _of_experts(found: Counter[tuple[str, str]], architecture: Architecture, mesh: Mesh, pieces: Workload) -> None:
    """Rows travel to their experts and back, and so do gradients; the numbers of rows travel before."""
    for routed in _routed(architecture, mesh, pieces):
        sizes = 2 * routed.rows * routed.features * FLOAT + routed.experts * INTEGER
        found["all-to-all", "expert"] += sizes * pieces.count * mesh.alike


def _routed(architecture: Architecture, mesh: Mesh, pieces: Workload) -> Iterator[Routed]:
    """What travels to experts from a process, of every mixture."""
    width, mtp = architecture.width, architecture.mtp
    passed = [
        (sublayer, -(-length // (mesh.context if sublayer.gathers(width) is not None else 1)))
        for stack in architecture.stacks.values()
        for length in [_length(stack, architecture, pieces)] * times_computed(stack, architecture, mesh)
        for variant in stack.layers
        for sublayer in stack.variants[variant].sublayers
    ]
    if mtp is not None:
        layer = mtp.layer(architecture.output_stack)
        passed += [(sublayer, pieces.length - k) for k in range(1, mtp.depth + 1) for sublayer in layer.sublayers]
    for sublayer, length in passed:
        yield from sublayer.routed(width, pieces.rows * length)


def _sublayers(stack: Stack, width: int, ways: int) -> Iterator[tuple[int, Sublayer]]:
    """What each of `ways` processes computes of every sublayer, beside the number of its layer."""
    divided = divided_branches(stack, width, ways) if ways > 1 else {}
    for i, variant in enumerate(stack.layers):
        for name, branch in stack.variants[variant].branches.items():
            yield i, divided.get((variant, name), branch.sublayer)


def _length(stack: Stack, architecture: Architecture, pieces: Workload) -> int:
    """The positions of a stack."""
    return pieces.length if stack is architecture.output_stack else pieces.source
