"""A model whose layers a pipeline divides into stages: what each stage has, and where each weight learns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anyformer.model import Architecture
from anyformer.parts.attention.relative import RELATIVE
from anyformer.parts.attention.score_bias import SCORE_BIAS
from anyformer.parts.call.shared import SOURCE, STREAM, Read
from anyformer.parts.embedding.layer_inputs import LAYER_INPUTS
from anyformer.planning.partition import partition


def stages_of(depth: int, count: int) -> tuple[range, ...]:
    """The numbers of the layers of each of `count` stages: as even as can be, the longer ones first."""
    ends = partition((1,) * depth, count)
    return tuple(range(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True))


@dataclass(frozen=True)
class Staged:
    """An architecture, the layers of whose output stack are divided into `count` stages; all else every stage has."""

    architecture: Architecture
    count: int

    @property
    def path(self) -> str:
        """The path of the layers."""
        return f"{list(self.architecture.stacks)[-1]}.layers."

    def stage_of(self, name: str) -> int | None:
        """The stage that has a weight; None for one that all have."""
        stages = stages_of(self.architecture.output_stack.depth, self.count)
        prefixes = {f"{self.path}{i}.": stage for stage, layers in enumerate(stages) for i in layers}
        return next((stage for prefix, stage in prefixes.items() if name.startswith(prefix)), None)

    def learning(self, name: str) -> frozenset[int]:
        """The stages in which a weight that all have gets a gradient: where it feeds the stream, the layers, or the head."""
        last, whole = frozenset({self.count - 1}), self.architecture
        output = list(whole.stacks)[-1]
        if name.startswith((f"{output}.streams.leave.", f"{output}.final_norm.", "head.", "mtp.")):
            return last
        if name.startswith(f"{output}.streams.enter."):
            return frozenset({0})
        if name.startswith(f"{output}.score_bias."):
            return self._reading(lambda read: read.name == SCORE_BIAS)
        if name.startswith(f"{output}.relative."):
            return self._reading(lambda read: read.name == RELATIVE)
        if name.startswith(f"{output}.layer_inputs."):
            return self._reading(lambda read: read.name == LAYER_INPUTS)
        # Every stage makes the inputs of its layers, and what entered the layers, of the embedding.
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
        """The stages with layers that read a value."""
        stack = self.architecture.output_stack
        return frozenset(
            stage
            for stage, layers in enumerate(stages_of(stack.depth, self.count))
            if any(wanted(read) for i in layers for read in stack.variants[stack.layers[i]].reads)
        )
