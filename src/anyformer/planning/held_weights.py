"""The weights of a process in a mesh: what it holds between updates, and what it gathers together while it computes.

Bytes are those of numbers in fp32, but of frozen weights those of their format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import prod

from anyformer.mesh import Mesh
from anyformer.model import Architecture
from anyformer.model.narrowed import Cut, cuts, divided_branches, divided_vocabulary
from anyformer.model.unlearnt import unlearnt
from anyformer.operations import Shape, Weight
from anyformer.parts.layers.stack import Stack
from anyformer.plan import Plan
from anyformer.planning.staged import Staged
from anyformer.quantising import FORMATS
from anyformer.tuning import Tuned

FLOAT = 4
"""Bytes of a number."""
_PLAN = Plan()


@dataclass(frozen=True)
class HeldWeight:
    """A weight as a process of a tensor and an expert group holds it: its shape; whether gradients are summed over `tensor`;
    the chunks of a pipeline whose backward passes have a gradient of it; bytes of a number as it is stored; whether it learns.
    """

    shape: tuple[int, ...]
    summed: bool = False
    expert: bool = False
    learning: int = 1
    size: float = FLOAT
    learns: bool = True

    def padded(self, parts: int) -> int:
        """Bytes with the padding that gives each of `parts` processes equally many rows."""
        first, *others = self.shape
        return int(-(-first // parts) * parts * prod(others) * self.size)

    def gradients(self, parts: int) -> int:
        """Bytes of its gradients in fp32, with the same padding."""
        return replace(self, size=FLOAT).padded(parts) if self.learns else 0


@dataclass(frozen=True)
class GatheredUnit:
    """Weights that are gathered together, so many times in a forward and a backward pass, by so many chunks of a pipeline.

    `summed_each_pass`: copies of the model sum their gradients in every backward pass, and not once for all of an update.
    """

    held: list[HeldWeight]
    gathered: int
    chunks: int = 1
    summed_each_pass: bool = False


def divided_in_rows(architecture: Architecture, mesh: Mesh, *, vocabulary: bool) -> frozenset[str]:
    """The names of weights that the processes of `tensor` divide by tokens; `vocabulary`: logits may be divided."""
    return divided_vocabulary(architecture, mesh.tensor) if vocabulary and mesh.tensor > 1 else frozenset[str]()


def held(architecture: Architecture, mesh: Mesh, *, vocabulary: bool) -> int:
    """Bytes, in fp32, of the weights that a process holds between updates; of its gradients and of each moment as many.

    With the padding that gives every process as many rows of a weight.
    """
    in_rows = divided_in_rows(architecture, mesh, vocabulary=vocabulary)
    parts = {False: mesh.weights, True: mesh.weights // mesh.expert}
    staged, of_stage = Staged(architecture, mesh.pipeline, mesh.chunks), Counter[int | None]()
    for prefix, unit in gathered_units(architecture, mesh, in_rows).items():
        size = sum(weight.padded(parts[weight.expert]) // parts[weight.expert] for weight in unit.held)
        of_stage[staged.stage_of(prefix)] += size
    return of_stage[None] + max(of_stage[stage] for stage in range(mesh.pipeline))


def weight_bytes(weights: Mapping[str, Weight], tuned: Tuned | None) -> dict[str, int]:
    """Bytes per weight, those of an adapter among them: in fp32 of one that learns, else in the format of the base."""
    if tuned is None:
        return {name: FLOAT * weight.count for name, weight in weights.items()}
    frozen = FORMATS[tuned.base]
    every = {**weights, **tuned.added}
    return {name: FLOAT * weight.count if name in tuned.learning else frozen.bytes(weight) for name, weight in every.items()}


def gathered_units(
    architecture: Architecture, mesh: Mesh, in_rows: Collection[str], tuned: Tuned | None = None
) -> Mapping[str, GatheredUnit]:
    """The weights of each layer, gathered per pass of each layer that shares them, and all else, gathered once.

    `in_rows`: the names of weights that are divided by tokens; `tuned`: what learns, by default every weight. Matrices of an
    adapter are counted whole, although `tensor` divides one of two.
    """
    divided = _cuts(architecture, mesh.tensor) if mesh.tensor > 1 else {}
    still, staged = unlearnt(architecture), Staged(architecture, mesh.pipeline, mesh.chunks)
    kept = mesh.schedule == "zero_bubble"
    outside = mesh.pipeline if kept else mesh.all_chunks
    units = {"": GatheredUnit([], 1, outside, summed_each_pass=mesh.chunks > 1 and not kept)}
    for place, stack in architecture.stacks.items():
        chunks = times_computed(stack, architecture, mesh)
        units |= {
            f"{place}.layers.{i}.": GatheredUnit([], 1 if kept else 2 * uses, chunks)
            for i, uses in Counter(stack.owners).items()
        }
    weights = architecture.trained_cost(Shape(source=1)).weights
    stored = weight_bytes(weights, tuned)
    for name, weight in {**weights, **(tuned.added if tuned else {})}.items():
        if name in still:
            continue
        unit = next(unit for prefix, unit in reversed(units.items()) if name.startswith(prefix))
        cut = divided.get(name, Cut(0) if name in in_rows else None)
        shape = list(weight.shape)
        if cut is not None and cut.dimension is not None:
            shape[cut.dimension] //= mesh.tensor
        expert = weight.role == "expert" and mesh.expert > 1
        if expert:
            shape[0] //= mesh.expert
        summed = cut is not None and cut.dimension is None
        learning = 1 if unit.chunks == 1 else len({chunk % mesh.pipeline if kept else chunk for chunk in staged.learning(name)})
        learns = tuned is None or name in tuned.learning
        unit.held.append(HeldWeight(tuple(shape), summed, expert, learning, stored[name] / weight.count, learns))
    return units


def _cuts(architecture: Architecture, ways: int) -> dict[str, Cut]:
    """The cuts of the weights of all layers; not those of sublayers that every process computes whole."""
    found: dict[str, Cut] = {}
    width = architecture.width
    for place, stack in architecture.stacks.items():
        divided = divided_branches(stack, width, ways)
        for i, variant in enumerate(stack.layers):
            block = stack.variants[variant].of_layer(i, stack.depth)
            beside = set(block.cost(width, Shape(source=1), _PLAN, stack.streams, i).weights)
            for name, branch in block.branches.items():
                inner = branch.sublayer.cost(width, Shape(source=1), _PLAN).weights
                beside -= {f"{name}.sublayer.{weight}" for weight in inner}
                if (variant, name) in divided:
                    own = cuts(branch.sublayer, divided[variant, name], width, ways)
                    found |= {f"{place}.layers.{i}.{name}.sublayer.{weight}": cut for weight, cut in own.items()}
            found |= {f"{place}.layers.{i}.{weight}": Cut(None) for weight in beside}
    return found


def times_computed(stack: Stack, architecture: Architecture, mesh: Mesh) -> int:
    """The chunks of a pipeline that compute a layer of a stack."""
    return 1 if stack is architecture.output_stack else mesh.all_chunks
