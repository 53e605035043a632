"""A model whose layers a pipeline divides: what a process has, where each weight learns, and what cannot be divided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.parts.attention.relative import RELATIVE
from anyformer.parts.attention.score_bias import SCORE_BIAS
from anyformer.parts.call.shared import SOURCE, STREAM, Read
from anyformer.parts.embedding.layer_inputs import LAYER_INPUTS
from anyformer.parts.layers.modulation import READS_CONDITION
from anyformer.planning.partition import partition


def chunks_of(depth: int, count: int) -> tuple[range, ...]:
    """The numbers of the layers of each of `count` chunks: as even as can be, the longer ones first."""
    ends = partition((1,) * depth, count)
    return tuple(range(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True))


@dataclass(frozen=True)
class Staged:
    """An architecture, the layers of whose output stack are dealt to `count` stages in turn, so many `chunks` to each; all else
    every stage has, and every chunk computes what it reads of it."""

    architecture: Architecture
    count: int
    chunks: int = 1

    @property
    def layers(self) -> tuple[range, ...]:
        """The numbers of the layers of each chunk, in order."""
        return chunks_of(self.architecture.output_stack.depth, self.count * self.chunks)

    @property
    def path(self) -> str:
        """The path of the layers."""
        return f"{list(self.architecture.stacks)[-1]}.layers."

    def stage_of(self, name: str) -> int | None:
        """The stage that has a weight; None for one that all have."""
        prefixes = {f"{self.path}{i}.": chunk % self.count for chunk, layers in enumerate(self.layers) for i in layers}
        return next((stage for prefix, stage in prefixes.items() if name.startswith(prefix)), None)

    def learning(self, name: str) -> frozenset[int]:
        """The chunks in which a weight that all have gets a gradient: where it feeds the stream, the layers, or the head."""
        last, whole = frozenset({self.count * self.chunks - 1}), self.architecture
        output = list(whole.stacks)[-1]
        behind = ("streams.leave.", "final_norm.", "final_modulation.")
        if name.startswith((*(f"{output}.{part}" for part in behind), "head.", "mtp.")):
            return last
        if name.startswith(f"{output}.streams.enter."):
            return frozenset({0})
        if name.startswith(f"{output}.score_bias."):
            return self._reading(lambda read: read.name == SCORE_BIAS)
        if name.startswith(f"{output}.relative."):
            return self._reading(lambda read: read.name == RELATIVE)
        if name.startswith(f"{output}.condition."):
            leaving = last if whole.output_stack.final_modulation is not None else frozenset[int]()
            return self._reading(lambda read: read == READS_CONDITION) | leaving
        if name.startswith(f"{output}.layer_inputs."):
            return self._reading(lambda read: read.name == LAYER_INPUTS)
        # Every chunk makes the inputs of its layers, and what entered the layers, of the embedding.
        again = self._reading(lambda read: read.variant is None and read.name in (LAYER_INPUTS, STREAM))
        first = frozenset({0}) | again
        source = self._reading(lambda read: read == SOURCE)
        if any(name.startswith(f"{place}.") for place in whole.stacks if place != output):
            return source
        tied = last if whole.head is not None and whole.head.tied else frozenset[int]()
        ahead = last if whole.mtp is not None else frozenset[int]()
        if name.startswith("embedding.") and whole.source != "prefix" and (whole.two_inputs or whole.latents is not None):
            shared = whole.two_inputs and whole.decoder_embedding is None
            return source | (first | tied if shared else frozenset())
        if name.startswith(("embedding.", "decoder_embedding.")):
            table = "embedding.weight" if whole.decoder_embedding is None else "decoder_embedding.weight"
            return first | ahead | (tied if name == table else frozenset())
        return first

    def _reading(self, wanted: Callable[[Read], bool]) -> frozenset[int]:
        """The chunks with layers that read a value."""
        stack = self.architecture.output_stack
        return frozenset(
            chunk
            for chunk, layers in enumerate(self.layers)
            if any(wanted(read) for i in layers for read in stack.variants[stack.layers[i]].reads)
        )


def undivided_layers(staged: Staged) -> str:
    """Why layers cannot be dealt to processes, with the remedy; empty if they can."""
    stack = staged.architecture.output_stack
    if staged.count > stack.depth:
        return f"divides layers, and the model has {stack.depth}: choose no more"
    if staged.count * staged.chunks > stack.depth:
        most = stack.depth // staged.count
        remedy = f"set plan.mesh.chunks to {most} or less" if most > 1 else "leave plan.mesh.chunks out"
        return f"{staged.count} x {staged.chunks} chunks need as many layers, and the model has {stack.depth}: {remedy}"
    stage = {i: chunk % staged.count for chunk, layers in enumerate(staged.layers) for i in layers}
    apart = [(i, owner) for i, owner in enumerate(stack.owners) if stage[i] != stage[owner]]
    if apart:
        return (
            f"layer {apart[0][0]} has the weights of layer {apart[0][1]}, and both would be in different processes: leave "
            "pipeline out"
        )
    if others := [read for read in stack.reads if read.variant is not None]:
        read = f"layers read {others[0].name!r} of layers {others[0].variant!r}"
        return f"{read}, which another process may have: leave pipeline out"
    if any(block.detaches for block in stack.variants.values()):
        return "a layer takes the stream as a constant, and would send no gradient to the process before: leave pipeline out"
    if any(sublayer.reports_index for block in stack.variants.values() for sublayer in block.sublayers):
        return "layers choose keys by index scores, whose loss no process sends on to the next: leave pipeline out"
    return ""


def read_again(architecture: Architecture) -> str:
    """Why gradients of weights cannot be computed apart from those of inputs; empty if they can, else with the remedy.

    torch computes them in the graph between the places where a weight is used, of which other weights' gradients free a part.
    """
    stack, mtp = architecture.output_stack, architecture.mtp
    output, weights = list(architecture.stacks)[-1], architecture.trained_cost(Shape(source=1)).weights
    learnt = (
        place for place in (SCORE_BIAS, RELATIVE, LAYER_INPUTS) if any(n.startswith(f"{output}.{place}.") for n in weights)
    )
    others = (read.name for read in stack.reads if read == SOURCE or (read.variant, read.name) == (None, STREAM))
    if stack.shared_weights:
        said = "layers share weights"
    elif name := next(chain(learnt, others), None):
        said = f"several layers read {name!r}, which has weights too"
    elif mtp is not None and mtp.depth > 1:
        said = f"{mtp.depth} predictions of later tokens read one another"
    else:
        return ""
    return f"{said}, whose gradients torch cannot compute apart: leave plan.mesh.schedule out"
