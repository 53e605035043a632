"""Block wiring as data: steps of parallel branches around the residual stream.

    x -> for each step: x = gain * norm_after(residual_scale * x + norm_branches(sum over branches of f(norm_before(x))))
    f(x) = drop_path(multiplier * gain * dropout(norm_after(sublayer(norm_before(x)) + b)))

A branch may be added after the last step instead (`Branch.added`).
Every norm is optional. Pre-norm, post-norm, sandwich and output norms, parallel attention and feed-forward,
cross-attention: all are values of this one shape; `wiring` spells the common ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from anyformer.describe import DescriptionError, Named, Positive, Problem, Value, change_all
from anyformer.operations import Shape, Tally, total
from anyformer.parts.call.context import Context
from anyformer.parts.call.shared import Read
from anyformer.parts.call.state import State
from anyformer.parts.layers.branch import Branch
from anyformer.parts.layers.streams import Streams
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.gain import Gain
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan

STEP_NORMS = ("norm_before", "norm_branches", "norm_after")


class Step(Value):
    """Branches that read the same x and are added to it together."""

    through: ClassVar[tuple[str, ...]] = ("branches",)
    norm_before: Norm | None = None
    """One norm that all branches read (parallel attention and feed-forward of GPT-J, PaLM)."""
    branches: Named[Branch]
    norm_branches: Norm | None = None
    """Norm of the sum of the branches: x + norm(branches) (Gemma 4: a dense network beside experts)."""
    norm_after: Norm | None = None
    """Norm of the sum: norm(x + branches) (post-norm, the original Transformer)."""
    residual: Literal["input", "normed"] = "input"
    """Whether the branches are added to x or to their input, norm_before(x) (MiniMax-M1)."""
    residual_scale: Positive = 1.0
    """Factor of the residual that the branches are added to (DeepNorm's alpha, arXiv 2203.00555)."""
    gain: Gain | None = None
    """A learned factor of the step's output (Gemma 4's layer_scalar, one number)."""

    @field_validator("branches")
    @classmethod
    def _some(cls, branches: Named[Branch]) -> Named[Branch]:
        if not branches:
            raise ValueError("needs at least one branch")
        for name in branches:
            if hasattr(nn.Module, name) or name.startswith("step_"):
                raise ValueError(f"a branch cannot be called {name!r}: the name is taken in a module")
        return branches

    @model_validator(mode="after")
    def _normed_residual(self) -> Step:
        if self.residual == "normed" and self.norm_before is None:
            raise ValueError("residual = 'normed' adds the branches to norm_before(x), and the step has no norm_before")
        return self

    @model_validator(mode="after")
    def _norms_a_sum(self) -> Step:
        if self.norm_branches is not None and all(branch.added for branch in self.branches.values()):
            raise ValueError("norm_branches norms the sum of the step's branches, and all of them are added after the block")
        return self

    @property
    def shapes_residual(self) -> bool:
        """Whether the step does more to the residual stream than add to it."""
        return self.norm_after is not None or self.residual != "input" or self.residual_scale != 1.0 or self.gain is not None

    @property
    def norms(self) -> dict[str, Norm]:
        """The step's own norms by name."""
        norms = {name: getattr(self, name) for name in STEP_NORMS}
        return {name: norm for name, norm in norms.items() if norm is not None}

    @property
    def all_norms(self) -> tuple[Norm, ...]:
        """The norms of the step and of its branches."""
        inner = [norm for branch in self.branches.values() for norm in (branch.norm_before, branch.norm_after)]
        return tuple(norm for norm in (self.norm_before, *inner, self.norm_branches, self.norm_after) if norm is not None)

    @property
    def placement(self) -> tuple[str, ...]:
        """The place of each branch's norms; a residual taken from the normed value is a post-norm of the step before."""
        if self.norm_after is not None or self.residual == "normed":
            return ("post",)
        places = {(True, True): "sandwich", (True, False): "pre", (False, True): "output", (False, False): "none"}
        before, after = self.norm_before is not None, self.norm_branches is not None
        return tuple(
            places[before or b.norm_before is not None, after or b.norm_after is not None] for b in self.branches.values()
        )

    @property
    def stability(self) -> tuple[str, ...]:
        """Techniques for stable training, its own and those of its branches."""
        own = {"residual scale": self.residual_scale != 1, "layer scale": self.gain is not None}
        inner = (word for branch in self.branches.values() for word in branch.stability)
        return (*(name for name, used in own.items() if used), *inner)


class Block(Value):
    """One layer: steps in order."""

    through: ClassVar[tuple[str, ...]] = ("steps",)
    steps: tuple[Step, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_once(self) -> Block:
        names = [name for step in self.steps for name in step.branches]
        twins = sorted({name for name in names if names.count(name) > 1})
        if twins:
            raise ValueError(f"branch names must be unique in a block, {twins} occur more than once")
        return self

    @model_validator(mode="after")
    def _late_branches_pass_steps(self) -> Block:
        last = [name for name, branch in self.steps[-1].branches.items() if branch.added]
        if last:
            raise ValueError(f"{last[0]} stands in the last step, and added = 'after_block' passes later steps: leave it out")
        return self

    @property
    def branches(self) -> dict[str, Branch]:
        """All branches by name, in the order computed."""
        return {name: branch for step in self.steps for name, branch in step.branches.items()}

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        """The sublayers of the branches, in the order computed."""
        return tuple(branch.sublayer for branch in self.branches.values())

    @property
    def reads(self) -> tuple[Read, ...]:
        """The values that its sublayers read beside the stream, each once."""
        return tuple(dict.fromkeys(read for sublayer in self.sublayers for read in sublayer.reads))

    @property
    def leaves(self) -> dict[str, int]:
        """The values that its sublayers leave for later layers, by name with sizes."""
        return {name: size for sublayer in self.sublayers for name, size in sublayer.leaves.items()}

    @property
    def norms(self) -> tuple[Norm, ...]:
        """The norms on the residual stream, in the order computed."""
        return tuple(norm for step in self.steps for norm in step.all_norms)

    @property
    def placement(self) -> tuple[str, ...]:
        """The places of norms, each once: `pre`, `post`, `sandwich` (before and after a sublayer), `output` (after it)."""
        return tuple(dict.fromkeys(word for step in self.steps for word in step.placement))

    @property
    def parallel(self) -> bool:
        """Whether branches read the same x."""
        return any(len(step.branches) > 1 for step in self.steps)

    @property
    def late(self) -> tuple[str, ...]:
        """The names of the branches that are added after the last step."""
        return tuple(name for name, branch in self.branches.items() if branch.added)

    @property
    def stability(self) -> tuple[str, ...]:
        """Techniques for stable training, each once."""
        return tuple(dict.fromkeys(word for step in self.steps for word in step.stability))

    def check(self, width: int, path: str) -> None:
        """Refuse a width that does not fit; the error names the branch."""
        for name, branch in self.branches.items():
            try:
                branch.sublayer.check(width)
            except ValueError as error:
                raise DescriptionError([Problem(f"{path}.{name}", str(error))]) from None

    def of_layer(self, layer: int, depth: int) -> Block:
        """A copy for layer `layer` of `depth`, with a number for every factor that follows from the layer's."""
        sublayers = {
            f"steps.{i}.branches.{name}.sublayer": (branch.sublayer, branch.sublayer.of_layer(layer, depth))
            for i, step in enumerate(self.steps)
            for name, branch in step.branches.items()
        }
        changes = {path: own for path, (described, own) in sublayers.items() if own is not described}
        return change_all(self, changes) if changes else self

    def build(self, width: int, plan: Plan, name: str, streams: Streams | None = None, layer: int = 0) -> BlockModule:
        return BlockModule(self, width, plan, name, streams, layer)

    def cost(self, width: int, shape: Shape, plan: Plan, streams: Streams | None = None) -> Tally:
        tally = total({name: branch.cost(width, shape, plan) for name, branch in self.branches.items()}, "branch")
        for i, step in enumerate(self.steps):
            beside = {name: norm.cost(width, shape.rows) for name, norm in step.norms.items()}
            if step.norm_branches is not None:
                beside["norm_branches"] = beside["norm_branches"].writing()
            if streams is not None:
                beside["streams"] = streams.cost(width, shape.rows)
            if step.gain is not None:
                beside["gain"] = Tally({"": step.gain.weight(width)})
            for name, part in beside.items():
                tally += part.within(f"step_{i}_{name}", "branch", name)
        return tally

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> dict[str, State]:
        """The decode state of every branch that has memory, by branch name."""
        states = {
            name: branch.sublayer.state(width, batch, capacity, source, dtype, device) for name, branch in self.branches.items()
        }
        return {name: state for name, state in states.items() if state is not None}


class BlockModule(nn.Module):
    """(B, T, D) -> (B, T, D), or (B, T, N, D) -> (B, T, N, D) with streams.

    A branch's module carries the branch's name; what belongs to a step is `step_<i>_` and the name of
    a norm, `gain` or `streams`.
    """

    def __init__(self, block: Block, width: int, plan: Plan, name: str, streams: Streams | None, layer: int) -> None:
        super().__init__()
        self.steps = block.steps
        for branch_name, branch in block.branches.items():
            self.add_module(branch_name, branch.build(width, plan, f"{name}.{branch_name}"))
        for i, step in enumerate(block.steps):
            for place in STEP_NORMS:
                norm = step.norms.get(place)
                self.add_module(f"step_{i}_{place}", norm.build(width) if norm else nn.Identity())
            if step.gain is not None:
                self.register_parameter(f"step_{i}_gain", nn.Parameter(torch.empty(step.gain.weight(width).shape)))
            if streams is not None:
                self.add_module(f"step_{i}_streams", streams.build(width, layer * len(block.steps) + i))
        self.streamed = streams is not None

    def forward(self, x: Tensor, context: Context, states: dict[str, State] | None = None) -> Tensor:
        late: list[Tensor] = []
        for i, step in enumerate(self.steps):
            x = self._streamed(i, step, x, context, states) if self.streamed else self._plain(i, step, x, context, states, late)
        for y_BTD in late:
            x = x + y_BTD
        return x

    def _plain(
        self, i: int, step: Step, x_BTD: Tensor, context: Context, states: dict[str, State] | None, late: list[Tensor]
    ) -> Tensor:
        """The stream after a step; the outputs of branches that are added after the block go to `late`."""
        read_BTD = self.get_submodule(f"step_{i}_norm_before")(x_BTD)
        x_BTD = read_BTD if step.residual == "normed" else x_BTD
        x_BTD = x_BTD if step.residual_scale == 1.0 else x_BTD * step.residual_scale
        for y_BTD in self._branches(i, step, read_BTD, context, states, late):
            x_BTD = x_BTD + y_BTD
        x_BTD = self.get_submodule(f"step_{i}_norm_after")(x_BTD)
        return x_BTD if step.gain is None else step.gain.scaled(x_BTD, self.get_parameter(f"step_{i}_gain"))

    def _streamed(self, i: int, step: Step, x_BTND: Tensor, context: Context, states: dict[str, State] | None) -> Tensor:
        h_BTD, mixed_BTND, write_BTN1 = self.get_submodule(f"step_{i}_streams")(x_BTND)
        read_BTD = self.get_submodule(f"step_{i}_norm_before")(h_BTD)
        first_BTD, *others = self._branches(i, step, read_BTD, context, states, [])
        sum_BTD = sum(others, first_BTD)
        return mixed_BTND + write_BTN1 * sum_BTD[..., None, :]  # type: ignore[no-any-return]

    def _branches(
        self,
        i: int,
        step: Step,
        read_BTD: Tensor,
        context: Context,
        states: dict[str, State] | None,
        late: list[Tensor],
    ) -> Iterator[Tensor]:
        """The output of each branch, one after the other; if the step norms their sum, the normed sum alone."""
        if step.norm_branches is None:
            yield from self._outputs(step, read_BTD, context, states, late)
        else:
            first_BTD, *others = self._outputs(step, read_BTD, context, states, late)
            yield self.get_submodule(f"step_{i}_norm_branches")(sum(others, first_BTD))

    def _outputs(
        self, step: Step, read_BTD: Tensor, context: Context, states: dict[str, State] | None, late: list[Tensor]
    ) -> Iterator[Tensor]:
        for name, branch in step.branches.items():
            y_BTD = self.get_submodule(name)(read_BTD, context, states.get(name) if states else None)
            if branch.added is None:
                yield y_BTD
            else:
                late.append(y_BTD)
