"""Divides a model that generates: each process computes a part of every sublayer, with a part of its weights and its state.

The parts come from descriptions, as in training (`Sublayer.narrowed`); what cannot be divided every process computes whole.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.costs.available import free_memory
from anyformer.describe import Notice, UserError
from anyformer.inference.hooks import AddedUp, OwnExperts, RowsOfTokens
from anyformer.model import Architecture
from anyformer.model.collectives import Group
from anyformer.model.initialise import on_meta
from anyformer.model.narrowed import cuts, divided_vocabulary, narrowed, widest_ways
from anyformer.model.portions import Portion, Types
from anyformer.model.reductions import name_of
from anyformer.model.share import ProcessShare
from anyformer.model.transformer import Transformer
from anyformer.parts.embedding.vocabulary import HoldsVocabulary
from anyformer.parts.experts.exchange import HoldsExperts
from anyformer.parts.layers.branch_module import BranchModule
from anyformer.parts.layers.stack_module import StackModule
from anyformer.planning.layout import bounds
from anyformer.quantising.tensor import Quantised


@dataclass(frozen=True)
class EqualPart:
    """What a process keeps of a weight: part `number` of `ways` equal ones along a dimension."""

    dimension: int
    number: int
    ways: int

    def of(self, weight: Tensor) -> Tensor:
        return weight.chunk(self.ways, self.dimension)[self.number]


@dataclass(frozen=True)
class Division:
    """`Divide` of one of so many `processes`, of which so many, `here`, take memory from `device`.

    `groups`: by their size, of those processes that divide sublayers in so many ways; `holders`: of those that divide experts.
    """

    processes: int
    here: int
    device: torch.device
    groups: Mapping[int, Group]
    holders: Group | None = None

    @property
    def experts(self) -> int:
        """The processes that divide experts; 1 where none do."""
        return 1 if self.holders is None else self.holders.size

    def __call__(self, model: Transformer, types: Types) -> Portion:
        """Divide a model on the meta device; gives what this process keeps of each weight. A `Notice` names what stays whole.

        Raises `UserError` for experts that the processes do not divide, and for weights that would not fit into free memory.
        """
        architecture, whole = model.architecture, dict(model.named_parameters())
        self._check_experts(architecture)
        ways = widest_ways(architecture, self.processes, self.experts)
        kept = Portions()
        for place, stack in architecture.stacks.items():
            module = model.get_submodule(place)
            assert isinstance(module, StackModule)
            for block, variant in dict(zip(module.layers, stack.layers, strict=True)).items():
                for name, branch in block.named_children():
                    if isinstance(branch, BranchModule) and (place, variant, name) in ways:
                        _divide_branch(branch, model, self.groups[ways[place, variant, name]], kept)
        if self.holders is not None:
            _divide_experts(model, self.holders, kept)
        divided = self._divide_vocabulary(model, kept)
        model.share = ProcessShare(narrowed(architecture, ways), self.processes, self.here)
        self._check_memory(sum(kept.of(name, empty).numel() * types(name).itemsize for name, empty in whole.items()))
        self._tell(architecture, ways, vocabulary=divided)
        return kept

    def _check_experts(self, architecture: Architecture) -> None:
        if self.experts == 1:
            return
        experts = bounds(architecture).experts
        if not experts:
            raise UserError(f"--expert {self.experts} divides experts, and the model has none: leave it out")
        if uneven := [count for count in experts if count % self.experts]:
            raise UserError(f"--expert {self.experts} must divide the experts of every layer, and one has {uneven[0]}")

    def _check_memory(self, of_one: int) -> None:
        """Refuse a model of which the weights of every process here, of so many bytes, would not fit into free memory."""
        needed, free = self.here * of_one, free_memory(self.device)
        if needed > free:
            raise UserError(
                f"the weights of {self.here} of {self.processes} processes would take {needed / 1e9:,.1f} GB, and "
                f"{free / 1e9:,.1f} GB of memory are free: start more processes on more devices"
            )

    def _divide_vocabulary(self, model: Transformer, kept: Portions) -> bool:
        """Divide the rows of tables and heads in as many ways as they have equal parts; whether there are some."""
        sizes = sorted(self.groups, reverse=True)
        ways = next((ways for ways in sizes if divided_vocabulary(model.architecture, ways)), None)
        if ways is None:
            return False
        group = self.groups[ways]
        for name in divided_vocabulary(model.architecture, ways):
            kept.pieces[name].append(EqualPart(0, group.rank, group.size))
        for module in model.modules():
            if isinstance(module, HoldsVocabulary):
                module.vocabulary = RowsOfTokens(name_of(group), group.rank, group.size)
        return True

    def _tell(self, architecture: Architecture, ways: Mapping[tuple[str, str, str], int], *, vocabulary: bool) -> None:
        """Say once what is not divided among all."""
        branches = [
            (place, variant, name)
            for place, stack in architecture.stacks.items()
            for variant, block in stack.variants.items()
            for name, branch in block.branches.items()
            if self.experts == 1 or not branch.sublayer.routed(architecture.width, 1)
        ]
        parts: defaultdict[int, list[str]] = defaultdict(list)
        for key in branches:
            parts[ways.get(key, 1)].append(".".join(key))
        if not vocabulary and architecture.vocabularies:
            parts[1].append("the vocabulary")
        for count, named in sorted(parts.items()):
            if count < self.processes and self.groups[self.processes].rank == 0:
                does, how = (
                    ("do not divide", ", which each computes whole") if count == 1 else ("divide", f" in {count} parts alone")
                )
                warnings.warn(f"{self.processes} processes {does} {', '.join(named)}{how}", Notice, stacklevel=2)


class Portions:
    """`Portion` of a divided model: the pieces of each weight, by name, from the first dimension of a mesh to the last.

    `elsewhere`: biases of outputs that are added up, which another process adds.
    """

    def __init__(self) -> None:
        self.pieces: defaultdict[str, list[EqualPart]] = defaultdict(list)
        self.elsewhere: set[str] = set()

    def of(self, name: str, weight: Tensor) -> Tensor:
        """The pieces of a weight, as a view."""
        for piece in self.pieces.get(name, ()):
            weight = piece.of(weight)
        return weight

    def __call__(self, name: str, weight: Tensor) -> Tensor:
        if isinstance(weight, Quantised):
            raise UserError(
                f"{name} is stored in few bits, and such matrices are not divided among processes yet: start one process, or "
                "take the model that it was made of"
            )
        part = self.of(name, weight)
        return torch.zeros_like(part) if name in self.elsewhere else part.clone(memory_format=torch.contiguous_format)


def _divide_branch(branch: BranchModule, model: Transformer, group: Group, kept: Portions) -> None:
    """Let a branch compute this process's part of its sublayer."""
    width, whole = model.architecture.width, branch.branch.sublayer
    part = whole.narrowed(width, group.size)
    assert part is not None, "`widest_ways` found it"
    with on_meta():
        branch.sublayer = part.build(width, model.plan, f"{branch.name}.sublayer")
    branch.crossing = AddedUp(name_of(group), branch.crossing)
    for name, cut in cuts(whole, part, width, group.size).items():
        path = f"{branch.name}.sublayer.{name}"
        if cut.dimension is not None:
            kept.pieces[path].append(EqualPart(cut.dimension, group.rank, group.size))
        elif cut.share != 1 and group.rank:
            kept.elsewhere.add(path)


def _divide_experts(model: Transformer, group: Group, kept: Portions) -> None:
    """Let each process of a group hold some experts of every layer, which may be divided by features already."""
    for path, module in model.named_modules():
        if isinstance(module, HoldsExperts):
            module.exchange = OwnExperts(name_of(group), group.rank, group.size)
            for name, _ in module.named_parameters(recurse=False):
                kept.pieces[f"{path}.{name}"].append(EqualPart(0, group.rank, group.size))
