"""What each process of a mesh holds of a training step: its part of weights, and of the tensors that are saved."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from anyformer.costs.activations import Activations
from anyformer.costs.counts import located
from anyformer.costs.flight import Flight
from anyformer.costs.gathered import GatheredWeights
from anyformer.costs.member import Member
from anyformer.costs.peak import TIED_COPIES, Find
from anyformer.costs.saved import SavedTensor
from anyformer.mesh import Mesh
from anyformer.model import Architecture
from anyformer.model.narrowed import divided_branches
from anyformer.operations import Shape, Weight
from anyformer.parts.layers.stack import Stack
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan
from anyformer.planning.held_weights import FLOAT, GatheredUnit, HeldWeight, divided_in_rows, gathered_units, weight_bytes
from anyformer.planning.layout import Layout
from anyformer.planning.rank import in_flight
from anyformer.planning.staged import Staged
from anyformer.tuning import Tuned

_MANY = 2
"""Micro-batches per stage, with which a pipeline is as full as it gets."""


def members(
    architecture: Architecture,
    mesh: Mesh,
    saved: Activations,
    shape: Shape,
    plan: Plan,
    *,
    vocabulary: bool,
    tuned: Tuned | None = None,
) -> tuple[Member, ...]:
    """One process of each stage of the pipeline. `saved`: by a micro-batch of this shape in one process; `vocabulary`: whether
    logits may be divided (`Objective`); `tuned`: what learns, by default every weight."""
    tally = architecture.trained_cost(Shape(source=1))
    own = _OwnTensors(architecture, mesh, shape, plan, located(tally))
    by_layer, every = own.by_layer(saved.tensors), max(1, saved.saved)
    outside = sum(tensor.bytes for tensor in saved.tensors if not (tensor.copies or tensor.loss or tensor.layer))
    in_rows = divided_in_rows(architecture, mesh, vocabulary=vocabulary)
    held = _OwnWeights(architecture, mesh, gradient_bytes(tally.weights, tuned), in_rows, tuned)
    total, learning = sum(weight_bytes(tally.weights, tuned).values()), sum(held.gradients.values())
    twice = sum(held.gradients.get(name, 0) for name in held.tied) * TIED_COPIES[plan.number]
    # Of a divided vocabulary the loss saves the exponentials of its logits too.
    of_logits, copies = (1 / mesh.tensor, 2) if held.in_rows else (1.0, 1)
    of_logits /= mesh.context if vocabulary else 1
    found = list[Member]()
    for stage in range(mesh.pipeline):
        units, last = held.units(stage), stage == mesh.pipeline - 1
        kept, whole = (sum(map(of, units.values())) for of in (held.kept, held.whole))
        layers = [size for layer, size in by_layer.items() if own.stage_of(layer) in (None, stage)]
        found.append(
            Member(
                kept=kept / total,
                learnt=held.learnt(stage) / learning,
                computed=whole / total,
                saved=(outside + sum(layers)) / every,
                layer=max(layers, default=0) / max(1, outside + sum(layers)),
                logits=copies * of_logits * last,
                of_logits=of_logits * last,
                flight=held.flight(stage, held.outputs(stage, tally.weights, shape) * plan.activation_bytes / every),
                twice=twice,
                gathered=replace(
                    held.gathered(units),
                    head=held.first(located(tally)) * last,
                    tied=twice // (mesh.tensor if held.in_rows else 1) * last,
                ),
            )
        )
    return tuple(found)


def gradient_bytes(weights: Mapping[str, Weight], tuned: Tuned | None) -> dict[str, int]:
    """Bytes, in fp32, of the gradients of each weight that learns."""
    return {name: FLOAT * weight.count for name, weight in (weights if tuned is None else tuned.learning).items()}


@dataclass(frozen=True)
class _OwnWeights:
    """What a process has of the weights; `gradients`: bytes of those of each weight that learns; `in_rows`: the weights that
    `tensor` divides by tokens."""

    architecture: Architecture
    mesh: Mesh
    gradients: Mapping[str, int]
    in_rows: Collection[str]
    tuned: Tuned | None = None

    @property
    def tied(self) -> tuple[str, ...]:
        """The table that the head reads too, where it does."""
        head, table = self.architecture.head, self.architecture.head_table
        return () if head is None or not head.tied or table is None else (table[0],)

    def units(self, stage: int) -> Mapping[str, GatheredUnit]:
        """What a process of a stage of the pipeline gathers together."""
        staged = Staged(self.architecture, self.mesh.pipeline, self.mesh.chunks)
        units = gathered_units(self.architecture, self.mesh, self.in_rows, self.tuned)
        return {prefix: unit for prefix, unit in units.items() if staged.stage_of(prefix) in (None, stage)}

    @property
    def stays(self) -> bool:
        """Whether weights and gradients stay whole during an update."""
        return self.mesh.schedule == "zero_bubble"

    def whole(self, unit: GatheredUnit) -> int:
        """Bytes of the weights of a unit as they are gathered, with padding."""
        return sum(weight.padded(self._parts(weight)) for weight in unit.held)

    def kept(self, unit: GatheredUnit) -> int:
        """Bytes of the part of them that a process keeps."""
        return sum(weight.padded(self._parts(weight)) // self._parts(weight) for weight in unit.held)

    def learnt(self, stage: int) -> int:
        """Bytes of the gradients that a process of a stage holds before the update."""
        held = [(weight, self._parts(weight)) for unit in self.units(stage).values() for weight in unit.held]
        if self.stays:
            return sum(weight.gradients(parts) for weight, parts in held) - self.idle(stage, 1)
        return sum(weight.gradients(parts) // parts for weight, parts in held) - self.idle(stage, self.mesh.weights)

    def made(self, unit: GatheredUnit) -> int:
        """Bytes of the gradients of a unit before their sum is divided, with padding."""
        return sum(weight.gradients(self._parts(weight)) for weight in unit.held)

    def gathered(self, units: Mapping[str, GatheredUnit]) -> GatheredWeights:
        """What stands outside the layers, the largest layer, and their gradients."""
        layers = [unit for prefix, unit in units.items() if prefix]
        weights, gradients = [self.whole(unit) for unit in layers], [self.made(unit) for unit in layers]
        return GatheredWeights(
            root=self.whole(units[""]),
            root_gradients=self.made(units[""]),
            layer=max(weights, default=0),
            layer_gradients=max(gradients, default=0),
            kept=sum(weights) if self.stays else 0,
            kept_gradients=sum(gradients) if self.stays else 0,
            ways=self.mesh.weights,
        )

    def idle(self, stage: int, parts: int) -> int:
        """Bytes of one of so many parts of the gradients that a stage has room for, of weights that get none in it."""
        staged = Staged(self.architecture, self.mesh.pipeline, self.mesh.chunks)
        names = [name for name in self.gradients if self.mesh.pipeline > 1 and staged.stage_of(name) is None]
        learning = {name: {chunk % self.mesh.pipeline for chunk in staged.learning(name)} for name in names}
        return sum(self._own(name) // parts for name in names if stage not in learning[name])

    def flight(self, stage: int, waiting: float) -> Flight:
        """What a stage holds of micro-batches on their way. Of the first chunk torch computes no half of a backward pass."""
        mesh, learnt = self.mesh, max(1, sum(map(self.made, self.units(stage).values())) - self.idle(stage, 1))
        outside = self.made(self.units(stage)[""]) - self.idle(stage, 1)
        flying = Layout(pp=mesh.pipeline, chunks=mesh.chunks, micro_batches=_MANY * mesh.pipeline, schedule=mesh.schedule)
        pieces, chunks = in_flight(flying, stage)
        halves = stage + 1 if self.stays and (stage > 0 or mesh.chunks > 1) else 0
        return Flight(pieces, chunks, mesh.pipeline, outside / learnt, halves, waiting / mesh.chunks)

    def outputs(self, stage: int, weights: Mapping[str, Weight], shape: Shape) -> float:
        """Numbers that come out of the matrices and norms of a stage, of all positions of a micro-batch."""
        staged, found = Staged(self.architecture, self.mesh.pipeline, self.mesh.chunks), 0
        for name, weight in weights.items():
            head = name in self.tied or staged.learning(name) == {self.mesh.all_chunks - 1}
            here = head and stage == self.mesh.pipeline - 1 if staged.stage_of(name) is None else staged.stage_of(name) == stage
            if here and weight.fill != "zeros":  # a bias is added to what comes out
                found += (weight.chosen or 1) * weight.shape[-2 if len(weight.shape) > 1 else 0]
        return found * shape.batch * shape.length / self.mesh.alike

    def first(self, find: Find) -> int:
        """Bytes of the gradients that come before those of the layers."""
        own = [name for name in self.gradients if self.tuned is None or name not in self.tuned.added]
        return sum(self._own(name) for name in own if find(name)[0].after or name in self.tied)

    def _own(self, name: str) -> int:
        return self.gradients[name] // (self.mesh.tensor if name in self.in_rows else 1)

    def _parts(self, weight: HeldWeight) -> int:
        """The processes that divide a weight."""
        return self.mesh.weights // (self.mesh.expert if weight.expert else 1)


@dataclass(frozen=True)
class _OwnTensors:
    """What a process saves of each tensor of a layer: its positions, and its heads and features."""

    architecture: Architecture
    mesh: Mesh
    shape: Shape
    plan: Plan
    find: Find

    def by_layer(self, tensors: Collection[SavedTensor]) -> Mapping[str, float]:
        """Bytes per layer, with what its sublayers gather of all positions, as often as chunks compute it."""
        found: dict[str, float] = {}
        for tensor in tensors:
            if tensor.layer and not tensor.copies and not tensor.loss:
                found[tensor.layer] = found.get(tensor.layer, 0.0) + tensor.bytes * self._share(tensor)
        times = {layer: self.mesh.chunks if self.stage_of(layer) is None else 1 for layer in found}
        return {layer: (size + self._gathered(layer)) * times[layer] for layer, size in found.items()}

    def stage_of(self, layer: str) -> int | None:
        """The stage of the pipeline that computes a layer; None for one that all compute."""
        return Staged(self.architecture, self.mesh.pipeline, self.mesh.chunks).stage_of(f"{layer}.")

    def _share(self, tensor: SavedTensor) -> float:
        """Between sublayers each process has its positions; a divided sublayer reads those of all of `tensor`, and one
        that is not divided computes them all."""
        at, sublayers = self.find(tensor.name)[0], self._sublayers(tensor.layer)
        computes = at.sublayer and at.branch in sublayers
        divided = at.branch in self._divided(tensor.layer)
        of_all = computes and at.branch is not None and sublayers[at.branch].gathers(self.architecture.width) is None
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
        stack, number = self._place(layer)
        return {name: branch.sublayer for name, branch in stack.variants[stack.layers[number]].branches.items()}

    def _divided(self, layer: str) -> Mapping[str, Sublayer]:
        """What a process computes of those that `tensor` divides."""
        if self.mesh.tensor == 1:
            return {}
        stack, number = self._place(layer)
        found = divided_branches(stack, self.architecture.width, self.mesh.tensor)
        return {name: part for (variant, name), part in found.items() if variant == stack.layers[number]}

    def _place(self, layer: str) -> tuple[Stack, int]:
        """The stack of a layer, and its number."""
        at = self.find(layer)[0]
        assert at.layer is not None, "it is the path of a layer"
        return self.architecture.stacks[at.module], int(at.layer)
