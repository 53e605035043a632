"""What each process of a mesh holds of a training step: its part of weights, and of the tensors that are saved."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from anyformer.costs.activations import Activations
from anyformer.costs.gathered import GatheredWeights
from anyformer.costs.member import Member
from anyformer.costs.peak import TIED_COPIES
from anyformer.costs.saved import SavedTensor
from anyformer.mesh import Mesh
from anyformer.model import Architecture
from anyformer.model.narrowed import divided_branches
from anyformer.operations import Shape
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan
from anyformer.planning.held_weights import FLOAT, GatheredUnit, divided_in_rows, gathered_units
from anyformer.planning.staged import Staged, stages_of


def members(
    architecture: Architecture, mesh: Mesh, saved: Activations, shape: Shape, plan: Plan, *, vocabulary: bool
) -> tuple[Member, ...]:
    """One process of each stage of the pipeline. `saved`: by a micro-batch of this shape in one process; `vocabulary`: whether
    logits may be divided (`Objective`)."""
    in_rows = divided_in_rows(architecture, mesh, vocabulary=vocabulary)
    units, own = gathered_units(architecture, mesh, in_rows), _OwnTensors(architecture, mesh, shape, plan)
    weights = {name: weight.count for name, weight in architecture.trained_cost(Shape(source=1)).weights.items()}
    every, found = FLOAT * sum(weights.values()), list[Member]()
    staged, whole = Staged(architecture, mesh.pipeline), max(1, saved.saved)
    outside = sum(tensor.bytes for tensor in saved.tensors if not (tensor.copies or tensor.loss or tensor.layer))
    by_layer = own.by_layer(saved.tensors)
    table = None if architecture.head is None or not architecture.head.tied else architecture.head_table
    twice = 0 if table is None else FLOAT * weights[table[0]] * TIED_COPIES[plan.number]
    for stage in range(mesh.pipeline):
        here = {prefix: unit for prefix, unit in units.items() if staged.stage_of(prefix) in (None, stage)}
        sizes = {prefix: _whole(unit, mesh) for prefix, unit in here.items()}
        kept, last = sum(_held(unit, mesh) for unit in here.values()), stage == mesh.pipeline - 1
        idle = sum(
            FLOAT * count // (mesh.tensor if name in in_rows else 1) // mesh.weights
            for name, count in weights.items()
            if mesh.pipeline > 1 and staged.stage_of(name) is None and stage not in staged.learning(name)
        )
        head = _of_head(weights, None if table is None else table[0], in_rows, mesh) if last else 0
        layers = [size for layer, size in by_layer.items() if own.stage_of(layer) in (None, stage)]
        # Of a divided vocabulary the loss saves the exponentials of its logits too.
        logits = (2 / mesh.tensor if in_rows else 1.0) / (mesh.context if vocabulary else 1)
        found.append(
            Member(
                kept=kept / every,
                learnt=(kept - idle) / every,
                computed=sum(sizes.values()) / every,
                saved=(outside + sum(layers)) / whole,
                layer=max(layers, default=0) / max(1, outside + sum(layers)),
                logits=logits if last else 0.0,
                of_logits=(logits / 2 if in_rows else logits) if last else 0.0,
                pieces=mesh.pipeline - stage,
                twice=twice,
                gathered=GatheredWeights(
                    root=sizes[""],
                    head=head,
                    layer=max((size for prefix, size in sizes.items() if prefix), default=0),
                    tied=twice // (mesh.tensor if in_rows else 1) if last else 0,
                    ways=mesh.weights,
                ),
            )
        )
    return tuple(found)


def _parts(mesh: Mesh) -> Mapping[bool, int]:
    """The processes that divide a weight, by whether it is of experts."""
    return {False: mesh.weights, True: mesh.weights // mesh.expert}


def _whole(unit: GatheredUnit, mesh: Mesh) -> int:
    """Bytes of the weights of a unit as they are gathered, with padding."""
    return sum(weight.padded(_parts(mesh)[weight.expert]) for weight in unit.held)


def _held(unit: GatheredUnit, mesh: Mesh) -> int:
    """Bytes of the part of them that a process keeps."""
    return sum(weight.padded(_parts(mesh)[weight.expert]) // _parts(mesh)[weight.expert] for weight in unit.held)


def _of_head(weights: Mapping[str, int], table: str | None, in_rows: Collection[str], mesh: Mesh) -> int:
    """Bytes of the weights of the head, which may be a table of tokens."""
    names = [name for name in weights if name.startswith("head.") or name == table]
    return sum(FLOAT * weights[name] // (mesh.tensor if name in in_rows else 1) for name in names)


@dataclass(frozen=True)
class _OwnTensors:
    """What a process saves of each tensor of a layer: its positions, and its heads and features."""

    architecture: Architecture
    mesh: Mesh
    shape: Shape
    plan: Plan

    def by_layer(self, tensors: Collection[SavedTensor]) -> Mapping[str, float]:
        """Bytes of each layer, with what its sublayers gather of all positions."""
        found: dict[str, float] = {}
        for tensor in tensors:
            if tensor.layer and not tensor.copies and not tensor.loss:
                found[tensor.layer] = found.get(tensor.layer, 0.0) + tensor.bytes * self._share(tensor)
        return {layer: size + self._gathered(layer) for layer, size in found.items()}

    def stage_of(self, layer: str) -> int | None:
        """The stage of the pipeline that computes a layer; None for one that all compute."""
        stack, _, number = layer.partition(".layers.")
        if self.architecture.stacks[stack] is not self.architecture.output_stack:
            return None
        stages = stages_of(self.architecture.output_stack.depth, self.mesh.pipeline)
        return next(stage for stage, layers in enumerate(stages) if int(number) in layers)

    def _share(self, tensor: SavedTensor) -> float:
        """Between sublayers each process has its positions; a divided sublayer reads those of all of `tensor`, and one
        that is not divided computes them all."""
        branch, _, inside = tensor.path.removeprefix(f"{tensor.layer}.").partition(".")
        sublayer = self._sublayers(tensor.layer).get(branch)
        computes = inside.startswith("sublayer") and sublayer is not None
        divided = self.mesh.tensor > 1 and branch in self._divided(tensor.layer)
        of_all = computes and sublayer is not None and sublayer.gathers(self.architecture.width) is None
        positions = 1 if of_all else self.mesh.context
        features = self.mesh.tensor if not computes or (divided and tensor.divided) else 1
        return 1 / positions / features

    def _gathered(self, layer: str) -> float:
        """Bytes of what sublayers gather of other positions."""
        if self.mesh.context == 1:
            return 0.0
        width, divided = self.architecture.width, self._divided(layer)
        numbers = [divided.get(name, whole).gathers(width) or 0 for name, whole in self._sublayers(layer).items()]
        each = self.shape.batch * self.shape.length * self.plan.activation_bytes
        return sum(numbers) * each * (1 - 1 / self.mesh.context)

    def _sublayers(self, layer: str) -> Mapping[str, Sublayer]:
        """The sublayers of a layer by branch."""
        place, _, number = layer.partition(".layers.")
        stack = self.architecture.stacks[place]
        return {name: branch.sublayer for name, branch in stack.variants[stack.layers[int(number)]].branches.items()}

    def _divided(self, layer: str) -> Mapping[str, Sublayer]:
        """What each process computes of those that `tensor` divides."""
        place, _, number = layer.partition(".layers.")
        stack = self.architecture.stacks[place]
        if self.mesh.tensor == 1:
            return {}
        found = divided_branches(stack, self.architecture.width, self.mesh.tensor)
        return {name: part for (variant, name), part in found.items() if variant == stack.layers[int(number)]}
