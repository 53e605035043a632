"""Contracts of sublayers that several processes divide."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.model import Architecture
from anyformer.model.narrowed import Cut, cuts, divided_branches
from anyformer.operations import Shape
from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.counting import standing_still
from anyformer.parts.layers.branch_module import BranchModule
from anyformer.parts.layers.stack_module import StackModule
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan
from anyformer.testing.comparisons import equal
from anyformer.testing.inputs import inputs
from anyformer.testing.models import evaluated

WAYS = 2


def parts_of_sublayers_add_up(architecture: Architecture) -> None:
    """The outputs of the parts that two processes compute of a sublayer add up to its output, in a call of the whole model."""
    model = evaluated(architecture)
    with torch.no_grad():
        whole = model(*inputs(architecture))
        for place, stack in architecture.stacks.items():
            divided = divided_branches(stack, architecture.width, WAYS)
            module = model.get_submodule(place)
            assert isinstance(module, StackModule)
            for block, variant in zip(module.layers, stack.layers, strict=True):
                for name, branch in block.named_children():
                    if (variant, name) in divided and isinstance(branch, BranchModule) and not _is_divided(branch):
                        branch.sublayer = _InParts(branch, architecture.width)
        equal(model(*inputs(architecture)), whole)


def positions_of_sublayers_are_those_of_the_row(architecture: Architecture) -> None:
    """A sublayer that gathers computes some positions as it computes all, from the numbers of each that it declares; in a call
    of the whole model in training, with dropout."""
    torch.manual_seed(0)
    model = evaluated(architecture).train()
    given = inputs(architecture)
    noise = Noise.at(1, 0, torch.arange(len(given[0])))
    with torch.no_grad(), standing_still(model):
        reported, again = Auxiliary(), Auxiliary()
        whole = model(*given, noise=noise, auxiliary=reported)
        for place in architecture.stacks:
            for branch in model.get_submodule(place).modules():
                if isinstance(branch, BranchModule) and branch.branch.sublayer.gathers(architecture.width) is not None:
                    branch.sublayer = _BySomePositions(branch, architecture.width)
        equal(model(*given, noise=noise, auxiliary=again), whole)
        assert again.reports.keys() == reported.reports.keys()
        for path, report in reported.reports.items():
            if report.load is not None:
                assert torch.equal(again.loads[path].counts, report.load.counts)
            for mine, theirs in zip(again.reports[path].losses, report.losses, strict=True):
                if mine is not None and theirs is not None:
                    equal(mine, theirs)


def _is_divided(branch: BranchModule) -> bool:
    """Whether it is, as that of a layer whose weights an earlier one shares."""
    return isinstance(branch.sublayer, _InParts)


class _InParts(nn.Module):
    """The sublayer of a branch computed in parts, one after the other."""

    def __init__(self, branch: BranchModule, width: int) -> None:
        super().__init__()
        whole = branch.branch.sublayer
        part = whole.narrowed(width, WAYS)
        assert part is not None
        weights, cut = dict(branch.sublayer.named_parameters()), cuts(whole, part, width, WAYS)
        held, own = (_held(each, width) for each in (whole, part))
        assert own < held, (
            f"{branch.name}: `narrowed` says that {WAYS} processes divide it, and of its {held:,} weights each has {own:,}: "
            "give None, or a part of them"
        )
        self.parts = nn.ModuleList(part.build(width, Plan(), branch.name).eval() for _ in range(WAYS))
        for number, made in enumerate(self.parts):
            for name, parameter in made.named_parameters():
                share = part_of(weights[name], cut[name], number)
                assert share.shape == parameter.shape, (
                    f"{branch.name}: `narrowed` gives one of {WAYS} processes {tuple(parameter.shape)} of {name}, its share "
                    f"is {tuple(share.shape)}"
                )
                parameter.data = share

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        return sum(self._part(number, x_BTD, context) for number in range(WAYS))  # type: ignore[return-value]

    def _part(self, number: int, x_BTD: Tensor, context: Context) -> Tensor:
        """The output of a part, whose keys and values are its own."""
        own = context.shared.setdefault((None, f"left by parts {number}"), {})
        shared = {**context.shared, **own}
        y_BTD: Tensor = self.parts[number](x_BTD, replace(context, shared=shared), None)
        own.update({key: value for key, value in shared.items() if key not in context.shared})
        return y_BTD


def _held(sublayer: Sublayer, width: int) -> int:
    """The numbers of its weights."""
    return sum(weight.count for weight in sublayer.cost(width, Shape(source=1), Plan()).weights.values())


class _BySomePositions(nn.Module):
    """The sublayer of a branch computed for some positions, then for the others and padding."""

    def __init__(self, branch: BranchModule, width: int) -> None:
        super().__init__()
        self.sublayer, self.declared = branch.sublayer, branch.branch.sublayer.gathers(width)

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        length, gathered = x_BTD.shape[1], list[Tensor]()

        def keep(x: Tensor) -> Tensor:
            gathered.append(x)
            return x

        self.sublayer(x_BTD, context.of_positions(torch.arange(length), keep), None)
        assert sum(x[0, 0].numel() for x in gathered) == self.declared, "it gathers what it declares"
        each = -(-length // WAYS)
        parts = torch.arange(WAYS * each).chunk(WAYS)
        return torch.cat([self._some(i, own, x_BTD, context, gathered) for i, own in enumerate(parts)], 1)[:, :length]

    def _some(self, i: int, positions: Tensor, x_BTD: Tensor, context: Context, gathered: list[Tensor]) -> Tensor:
        """The output at some positions; it finds what earlier sublayers left for these."""
        left = context.shared.setdefault((None, f"left by positions {i}"), {})
        before = {**context.shared, **left}
        shared, found = dict(before), iter(gathered)
        own = replace(context.of_positions(positions, lambda x: next(found)), shared=shared)
        x_BTD = F.pad(x_BTD, (0, 0, 0, len(positions)))[:, positions]
        y_BTD: Tensor = self.sublayer(x_BTD, own, None)
        left.update({key: value for key, value in shared.items() if before.get(key) is not value})
        return y_BTD


def part_of(weight: Tensor, cut: Cut, number: int) -> Tensor:
    """The part of a weight that process `number` of two computes with."""
    if cut.dimension is None:
        return weight if cut.share == 1.0 else weight * cut.share
    return weight.chunk(WAYS, cut.dimension)[number]
