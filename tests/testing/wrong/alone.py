"""Parts that are wrong by themselves, each in one respect, beside what is said of them a second time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from tests.testing.wrong.fading import FadingSum, fading_by_hand
from tests.testing.wrong.table import Promises, Table
from torch import Tensor, nn

from anyformer.describe import Value
from anyformer.operations import Elementwise, Shape, Tally, Weight
from anyformer.operations.elementwise import normalised
from anyformer.parts import AttentionCall, Combine
from anyformer.parts.norms.norm import Norm, gain_and_bias
from anyformer.parts.slot import HeadSizes
from anyformer.plan import Plan
from anyformer.testing.checks import Checks
from anyformer.testing.said_twice import said_twice


class ByRootModule(nn.Module):
    """x / sqrt(mean(x^2) + 1) * w."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        return (x.float() * self.factor(x.float().square())).to(x.dtype) * self.weight

    def factor(self, squares: Tensor) -> Tensor:
        return (squares.mean(-1, keepdim=True) + 1).rsqrt()


class ByRoot(Norm):
    """The right one."""

    Module: ClassVar[type[ByRootModule]] = ByRootModule
    kind: Literal["by_root"] = "by_root"

    def build(self, width: int) -> nn.Module:
        return self.Module(width)

    def cost(self, width: int, vectors: int) -> Tally:
        return gain_and_bias("weight", False, width, self.work(width, vectors))

    def work(self, width: int, vectors: int) -> Elementwise:
        return normalised(width, vectors, 4 * width + 2)


def by_root(part: ByRoot, weights: Mapping[str, Tensor], v: Tensor) -> Tensor:
    return v / ((v**2).mean() + 1).sqrt() * weights["weight"]


class Louder(Combine):
    """The right one: y'_h = w_h y_h, w from 1."""

    name: ClassVar[str] = "louder"
    axis: ClassVar[Literal["heads", "features"]] = "heads"

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {"louder": nn.Parameter(torch.empty(sizes.heads))}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        return Tally({"louder": Weight((sizes.heads,), "column", "ones", axes=(((self.axis, sizes.heads),),))})

    def mixed(self, y_BHTU: Tensor, call: AttentionCall) -> Tensor:
        return y_BHTU * call.built("louder").to(y_BHTU.dtype)[:, None, None]


def louder(part: Louder, weights: Mapping[str, Tensor], heads: list[Tensor], t: int) -> list[Tensor]:
    return [factor * head for factor, head in zip(weights["louder"], heads, strict=True)]


def owed(made: type[Value]) -> Promises:
    part = made()
    name = part.name if isinstance(part, Louder) else str(part.plain()["kind"])
    given = Checks(
        formulas={} if isinstance(part, FadingSum) else {name: louder if isinstance(part, Louder) else by_root},
        twins={name: fading_by_hand},
        starts={name: {"louder": 1.0} if isinstance(part, Louder) else {"weight": 1.0} if isinstance(part, Norm) else FADING},
    )
    found = said_twice("it", name, part, given)
    return {each.what: each.holds for each in found if each.holds is not None}


FADING = {"gate.weight": "matrix", "value.weight": "matrix", "output.weight": "residual"}
ALONE = Table(owed)


@ALONE.breaks("part_equals_its_formula")
class OfTheFirst(ByRoot):
    """A mean over all features but the last."""

    kind: Literal["of_the_first"] = "of_the_first"

    class Module(ByRootModule):
        def factor(self, squares: Tensor) -> Tensor:
            return super().factor(squares[..., :-1])


@ALONE.breaks("statistics_are_in_fp32")
class RoundsItsMean(ByRoot):
    """Computes its mean in the type of a norm's weights."""

    kind: Literal["rounds_its_mean"] = "rounds_its_mean"

    class Module(ByRootModule):
        def factor(self, squares: Tensor) -> Tensor:
            return super().factor(squares.to(self.weight.dtype)).float()


@ALONE.breaks("declared_work_is_that_of_its_formula")
class FreeSquares(ByRoot):
    """Leaves its squares out of its work."""

    kind: Literal["free_squares"] = "free_squares"

    def work(self, width: int, vectors: int) -> Elementwise:
        return normalised(width, vectors, 3 * width + 2)


@ALONE.breaks("axes_count_what_they_name")
class FactorsOfFeatures(Louder):
    """Says that its factors are those of the features of a head."""

    name: ClassVar[str] = "louder_features"
    axis: ClassVar[Literal["heads", "features"]] = "features"


@ALONE.breaks("weights_start_as_said")
class StartsSilent(ByRoot):
    """Starts at 0."""

    kind: Literal["starts_silent"] = "starts_silent"

    def cost(self, width: int, vectors: int) -> Tally:
        return Tally({"weight": Weight((width,), "replicate", "zeros")}, {"": self.work(width, vectors)})


@ALONE.breaks("declared_work_is_near_that_of_its_twin")
class FreeSums(FadingSum):
    """Declares a tenth of its work."""

    kind: Literal["free_sums"] = "free_sums"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        found = super().cost(width, shape, plan)
        work = {name: each for name, each in found.own_work.items() if name != "silu"}
        return Tally(found.own_weights, work, found.own_state)
