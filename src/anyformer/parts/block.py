"""Block wiring as data: steps of parallel branches around the residual stream.

    x -> for each step: x = norm_after(x + sum over branches of f(norm_before(x)))
    f(x) = multiplier * dropout(norm_after(sublayer(norm_before(x))))

Every norm is optional. Pre-norm, post-norm, sandwich and output norms, parallel attention and feed-forward,
cross-attention: all are values of this one shape; `wiring` spells the common ones.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from anyformer.describe import DescriptionError, Named, Problem, Value
from anyformer.parts.attention import Attention
from anyformer.parts.context import Context
from anyformer.parts.cross_attention import CrossAttention
from anyformer.parts.differential_attention import DifferentialAttention
from anyformer.parts.experts import Experts
from anyformer.parts.feedforward import FeedForward
from anyformer.parts.latent_attention import LatentAttention
from anyformer.parts.noise import Dropout
from anyformer.parts.norm import Norm
from anyformer.parts.state import State
from anyformer.plan import Plan
from anyformer.tally import Shape, Tally, total

Sublayer = Annotated[
    Attention | DifferentialAttention | LatentAttention | CrossAttention | FeedForward | Experts, Field(discriminator="kind")
]
"""Every kind of sublayer a branch can hold."""


class Branch(Value):
    """multiplier * dropout(norm_after(sublayer(norm_before(x)))): what one sublayer adds to the residual stream."""

    through: ClassVar[tuple[str, ...]] = ("sublayer",)
    norm_before: Norm | None = None
    sublayer: Sublayer
    norm_after: Norm | None = None
    multiplier: float = 1.0
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    def build(self, width: int, plan: Plan, name: str) -> BranchModule:
        return BranchModule(self, width, plan, name)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        parts = {
            "norm_before": self.norm_before.cost(width) if self.norm_before else Tally(),
            "sublayer": self.sublayer.cost(width, shape, plan),
            "norm_after": self.norm_after.cost(width) if self.norm_after else Tally(),
        }
        return total(parts)


class BranchModule(nn.Module):
    def __init__(self, branch: Branch, width: int, plan: Plan, name: str) -> None:
        super().__init__()
        self.multiplier = branch.multiplier
        self.norm_before = branch.norm_before.build(width) if branch.norm_before else nn.Identity()
        self.sublayer = branch.sublayer.build(width, plan, f"{name}.sublayer")
        self.norm_after = branch.norm_after.build(width) if branch.norm_after else nn.Identity()
        self.dropout = Dropout(branch.dropout, f"{name}.dropout")

    def forward(self, x_BTD: Tensor, context: Context, state: State | None) -> Tensor:
        y_BTD: Tensor = self.norm_after(self.sublayer(self.norm_before(x_BTD), context, state))
        y_BTD = self.dropout(y_BTD, context.noise)
        return y_BTD if self.multiplier == 1.0 else y_BTD * self.multiplier


class Step(Value):
    """Branches that read the same x and are added to it together."""

    through: ClassVar[tuple[str, ...]] = ("branches",)
    norm_before: Norm | None = None
    """One norm that all branches read (parallel attention and feed-forward of GPT-J, PaLM)."""
    branches: Named[Branch]
    norm_after: Norm | None = None
    """Norm of the sum: norm(x + branches) (post-norm, the original Transformer)."""

    @field_validator("branches")
    @classmethod
    def _some(cls, branches: Named[Branch]) -> Named[Branch]:
        if not branches:
            raise ValueError("needs at least one branch")
        for name in branches:
            if hasattr(nn.Module, name) or name.startswith("step_"):
                raise ValueError(f"a branch cannot be called {name!r}: the name is taken in a module")
        return branches

    @property
    def norms(self) -> dict[str, Norm]:
        """The step's own norms by name."""
        norms = {"norm_before": self.norm_before, "norm_after": self.norm_after}
        return {name: norm for name, norm in norms.items() if norm is not None}


class Block(Value):
    """One layer: steps in order."""

    through: ClassVar[tuple[str, ...]] = ("steps",)
    steps: tuple[Step, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_once(self) -> Block:
        names = [name for step in self.steps for name in step.branches]
        twins = sorted({name for name in names if names.count(name) > 1})
        if twins:
            raise ValueError(f"branch names must be unique in a block, {twins} stand more than once")
        return self

    @property
    def branches(self) -> dict[str, Branch]:
        """All branches by name, in the order computed."""
        return {name: branch for step in self.steps for name, branch in step.branches.items()}

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        """What the branches hold, in the order computed."""
        return tuple(branch.sublayer for branch in self.branches.values())

    @property
    def reads_source(self) -> bool:
        """Whether a branch attends to another sequence."""
        return any(branch.sublayer.reads_source for branch in self.branches.values())

    def check(self, width: int, path: str) -> None:
        """Refuse what only the width reveals, at the path of the branch."""
        for name, branch in self.branches.items():
            try:
                branch.sublayer.check(width)
            except ValueError as error:
                raise DescriptionError([Problem(f"{path}.{name}", str(error))]) from None

    def build(self, width: int, plan: Plan, name: str) -> BlockModule:
        return BlockModule(self, width, plan, name)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        parts = {name: branch.cost(width, shape, plan) for name, branch in self.branches.items()}
        norms = {f"step_{i}_{name}": norm.cost(width) for i, step in enumerate(self.steps) for name, norm in step.norms.items()}
        return total(parts | norms)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> dict[str, State]:
        """The decode state of every branch that has memory, by branch name."""
        states = {
            name: branch.sublayer.state(width, batch, capacity, source, dtype, device) for name, branch in self.branches.items()
        }
        return {name: state for name, state in states.items() if state is not None}


class BlockModule(nn.Module):
    """(B, T, D) -> (B, T, D). A branch's module carries the branch's name; a step's norms are `step_<i>_norm_before|after`."""

    def __init__(self, block: Block, width: int, plan: Plan, name: str) -> None:
        super().__init__()
        self.steps = [tuple(step.branches) for step in block.steps]
        for branch_name, branch in block.branches.items():
            self.add_module(branch_name, branch.build(width, plan, f"{name}.{branch_name}"))
        for i, step in enumerate(block.steps):
            for place in ("norm_before", "norm_after"):
                norm = step.norms.get(place)
                self.add_module(f"step_{i}_{place}", norm.build(width) if norm else nn.Identity())

    def forward(self, x_BTD: Tensor, context: Context, states: dict[str, State] | None = None) -> Tensor:
        for i, branches in enumerate(self.steps):
            read_BTD = getattr(self, f"step_{i}_norm_before")(x_BTD)
            for name in branches:
                x_BTD = x_BTD + getattr(self, name)(read_BTD, context, states.get(name) if states else None)
            x_BTD = getattr(self, f"step_{i}_norm_after")(x_BTD)
        return x_BTD
