"""Tensor parallelism with sequence parallelism: each process computes a part of every sublayer for all positions, and all that
stands between sublayers for its positions alone (Shoeybi et al. 2019, arXiv 1909.08053; Korthikanti et al. 2022, 2205.05198).

The parts come from descriptions (`Sublayer.narrowed`). What cannot be divided, and layers that predict later tokens, every
process computes whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard

from anyformer.model.collectives import Group, entering, gathered, gathered_alike, scattered, sliced
from anyformer.model.narrow import narrowed_alike
from anyformer.model.narrowed import cuts, divided_branches
from anyformer.model.transformer import Transformer
from anyformer.model.unlearnt import unlearnt
from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import Dropout
from anyformer.parts.call.state import State
from anyformer.parts.embedding.condition import CONDITION
from anyformer.parts.layers.branch_module import BranchModule
from anyformer.parts.layers.spread import Crossing, Spread, through
from anyformer.parts.layers.stack_module import StackModule
from anyformer.training.parallel.adapted import divide_adapters
from anyformer.training.parallel.locals import hold


@dataclass(frozen=True)
class Positions:
    """`Spread` of a stream whose positions the processes of a group divide, or of those that `apart` leaves to the group."""

    group: Group
    apart: Spread | None

    def enter(self, x: Tensor, context: Context) -> tuple[Tensor, Context]:
        if self.apart is not None:
            x, context = self.apart.enter(x, context)
        if (condition_BD := context.shared.get((None, CONDITION))) is not None:
            # Each process modulates its positions alone, so that gradients of the condition are sums over all of them.
            context.leave(CONDITION, entering(condition_BD, self.group))
        return sliced(x, self.group), context

    def leave(self, x: Tensor, length: int) -> Tensor:
        if self.apart is None:
            return gathered_alike(x, length, self.group)
        return self.apart.leave(gathered_alike(x, self.apart.of(length), self.group), length)

    def of(self, length: int) -> int:
        return -(-(length if self.apart is None else self.apart.of(length)) // self.group.size)


@dataclass(frozen=True)
class InPart:
    """`Crossing` of a branch of whose sublayer each process computes a part; `within`: its way around the sublayer itself."""

    group: Group
    within: Crossing | None

    def __call__(self, sublayer: nn.Module, x: Tensor, context: Context, state: State | None = None) -> Tensor:
        reports = context.auxiliary and context.auxiliary.emptied()
        source = None if context.source is None else entering(context.source, self.group)
        own = replace(context, source=source, auxiliary=reports)
        y = through(sublayer, gathered(x, context.positions.shape[1], self.group), own, self.within)
        if context.auxiliary is not None and reports is not None:
            found = {path: report.of_each(self.group.size) for path, report in reports.reports.items()}
            context.auxiliary.reports.update(found)
        return scattered(y, self.group)


@dataclass(frozen=True)
class Alike:
    """`Crossing` of a branch whose sublayer all processes compute whole; `within`: its way around the sublayer itself."""

    group: Group
    within: Crossing | None

    def __call__(self, sublayer: nn.Module, x: Tensor, context: Context, state: State | None = None) -> Tensor:
        whole = gathered_alike(x, context.positions.shape[1], self.group)
        return sliced(through(sublayer, whole, context, self.within), self.group)


def divide_layers(model: Transformer, mesh: DeviceMesh) -> None:
    """Divide the layers of a model, whose positions may be divided already, over a mesh of one dimension, `tensor`."""
    group, width = Group.of(mesh.get_group()), model.architecture.width
    for place, stack in model.architecture.stacks.items():
        module = model.get_submodule(place)
        assert isinstance(module, StackModule)
        module.spread = Positions(group, module.spread)
        divided = divided_branches(stack, width, group.size)
        for block, variant in dict(zip(module.layers, stack.layers, strict=True)).items():
            for name, branch in block.named_children():
                if isinstance(branch, BranchModule):
                    _divide(branch, model, mesh, group, narrow=(variant, name) in divided)
            _share(block, mesh)


def _divide(branch: BranchModule, model: Transformer, mesh: DeviceMesh, group: Group, *, narrow: bool) -> None:
    """Divide the sublayer of a branch if it can be, and the positions around it."""
    branch.dropout.divide(group.rank, group.size)
    branch.crossing = InPart(group, branch.crossing) if narrow else Alike(group, branch.crossing)
    if not narrow:
        return
    width, whole, kept = model.architecture.width, branch.sublayer, unlearnt(model.architecture)
    part = branch.branch.sublayer.narrowed(width, group.size)
    assert part is not None, "divided_branches found it"
    with torch.device(model.device):
        made = part.build(width, model.plan, f"{branch.name}.sublayer").train(whole.training)
    narrowed_alike(made, whole)
    cut = cuts(branch.branch.sublayer, part, width, group.size)
    for module in made.modules():
        if isinstance(module, Dropout):
            module.divide(group.rank, group.size)
    divide_adapters(model, whole, made, cut, group)
    for path, module in made.named_modules():
        for name, weight in whole.get_submodule(path)._parameters.items():
            if weight is None:
                continue
            own = f"{path}.{name}" if path else name
            if f"{branch.name}.sublayer.{own}" in kept:
                module._parameters[name] = weight
            else:
                dimension = cut[own].dimension
                hold(module, name, weight, mesh, Replicate() if dimension is None else Shard(dimension), cut[own].share)
    branch.sublayer = made


def _share(block: nn.Module, mesh: DeviceMesh) -> None:
    """Let the weights between sublayers be whole in every process, with gradients that are sums over all positions."""
    between = [block]
    for module in between:
        for name, weight in list(module._parameters.items()):
            if weight is not None and weight.requires_grad:
                hold(module, name, weight, mesh, Replicate())
        between += [child for child in module.children() if not (isinstance(module, BranchModule) and child is module.sublayer)]
