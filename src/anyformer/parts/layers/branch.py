"""A branch of a block: one sublayer, and what stands around it."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from anyformer.describe import Value
from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import Dropout, DropPath
from anyformer.parts.call.state import State
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.gain import Gain
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan
from anyformer.tally import Shape, Tally, total
from anyformer.tape import Held, Tape


class Branch(Value):
    """drop_path(multiplier * gain * dropout(norm_after(sublayer(norm_before(x))))): what one sublayer adds to the stream."""

    through: ClassVar[tuple[str, ...]] = ("sublayer",)
    norm_before: Norm | None = None
    sublayer: Sublayer
    norm_after: Norm | None = None
    multiplier: float = 1.0
    """A constant factor (Granite; 1 / sqrt(2))."""
    gain: Gain | None = None
    """A learned factor."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    drop_path: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of rows whose whole branch is dropped in training."""

    @property
    def tricks(self) -> tuple[str, ...]:
        """What stabilises training, in the field's words."""
        there = {"residual multiplier": self.multiplier != 1, "layer scale": self.gain is not None}
        return (*self.sublayer.tricks, *(name for name, is_there in there.items() if is_there))

    def build(self, width: int, plan: Plan, name: str) -> BranchModule:
        return BranchModule(self, width, plan, name)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        parts = {
            "norm_before": self.norm_before.cost(width) if self.norm_before else Tally(),
            "sublayer": self.sublayer.cost(width, shape, plan),
            "norm_after": self.norm_after.cost(width) if self.norm_after else Tally(),
        }
        return total(parts) + (Tally({"gain": self.gain.weight(width)}) if self.gain else Tally())

    def keeps(self, tape: Tape, x: Held, width: int) -> Held:
        x = self.norm_before.keeps(tape.within("norm_before"), x, width) if self.norm_before else x
        y = self.sublayer.keeps(tape.within("sublayer"), x, width)
        y = self.norm_after.keeps(tape.within("norm_after"), y, width) if self.norm_after else y
        y = tape.dropped("dropout", y, self.dropout)
        y = self.gain.keeps(tape, y, width) if self.gain else y
        return tape.dropped("drop_path", tape.like(y) if self.multiplier != 1 else y, self.drop_path, tape.shape.batch)


class BranchModule(nn.Module):
    def __init__(self, branch: Branch, width: int, plan: Plan, name: str) -> None:
        super().__init__()
        self.multiplier = branch.multiplier
        self.norm_before = branch.norm_before.build(width) if branch.norm_before else nn.Identity()
        self.sublayer = branch.sublayer.build(width, plan, f"{name}.sublayer")
        self.norm_after = branch.norm_after.build(width) if branch.norm_after else nn.Identity()
        self.gain = nn.Parameter(torch.empty(branch.gain.weight(width).shape)) if branch.gain else None
        self.dropout = Dropout(branch.dropout, f"{name}.dropout")
        self.drop_path = DropPath(branch.drop_path, f"{name}.drop_path")

    def forward(self, x_BTD: Tensor, context: Context, state: State | None) -> Tensor:
        y_BTD: Tensor = self.norm_after(self.sublayer(self.norm_before(x_BTD), context, state))
        y_BTD = self.dropout(y_BTD, context.noise)
        if self.gain is not None:
            y_BTD = y_BTD * self.gain.to(y_BTD.dtype)
        if self.multiplier != 1.0:
            y_BTD = y_BTD * self.multiplier
        return self.drop_path(y_BTD, context.noise)  # type: ignore[no-any-return]
