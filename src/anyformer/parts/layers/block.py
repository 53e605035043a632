"""Block wiring as data: steps of parallel branches around the residual stream.

    x -> for each step: x = gain * norm_after(residual_scale * residual + norm_branches(sum over branches of f(norm_before(x))))
    f(x) = drop_path(multiplier * gain * dropout(norm_after(sublayer(norm_before(x)) + b)))

A branch may be added after the last step instead (`Branch.added`).
Every norm is optional. Pre-norm, post-norm, sandwich and output norms, parallel attention and feed-forward,
cross-attention: all are values of this one shape; `wiring` spells the common ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from anyformer.describe import DescriptionError, Named, Problem, Value, change_all
from anyformer.operations import Shape, Tally, Watchable, Watchables, inside, total, value
from anyformer.operations.elementwise import interpolated
from anyformer.parts.call.shared import Read
from anyformer.parts.layers.alternating import AlternatingUpdates
from anyformer.parts.layers.branch import Branch
from anyformer.parts.layers.step import Step
from anyformer.parts.layers.streams import StepStreams, Streams
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.state import State
    from anyformer.parts.layers.block_module import BlockModule


class Block(Value):
    """One layer: steps in order."""

    through: ClassVar[tuple[str, ...]] = ("steps",)
    steps: tuple[Step, ...] = Field(min_length=1)
    output: Literal["stream", "aside"] = "stream"
    """Whether the result is the residual stream of the next layer, or is left for the layers that read the stream behind this
    one, and the stream goes on as it entered (the shared blocks of Zamba)."""

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

    @model_validator(mode="after")
    def _detaches_first(self) -> Block:
        if any(step.residual == "detached" for step in self.steps[1:]):
            raise ValueError("residual = 'detached' belongs into the first step of a block: make the steps before a layer")
        return self

    @model_validator(mode="after")
    def _corrects_last(self) -> Block:
        behind = [step.residual == "inactive" for step in self.steps]
        if behind != sorted(behind):
            raise ValueError("steps with residual = 'inactive' stand behind all others of a block: move them to its end")
        return self

    @property
    def needs_streams(self) -> str | None:
        """Why a single stream is not enough, with {} for the block's name; None if it is."""
        if any(step.inputs_of_depth for step in self.steps):
            return "side_inputs in {} read the depth of the model: set streams to attention_residuals"
        if self.steps[-1].residual != "inactive":
            return None
        return "residual = 'inactive' in {} adds to streams that a layer does not compute: set streams to alternating_updates"

    @property
    def detaches(self) -> bool:
        """Whether no gradient reaches the layer before through the stream."""
        return self.steps[0].residual == "detached"

    @property
    def branches(self) -> dict[str, Branch]:
        """All branches by name, in the order computed."""
        return {name: branch for step in self.steps for name, branch in step.branches.items()}

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        """The sublayers of the branches, in the order computed."""
        return tuple(branch.sublayer for branch in self.branches.values())

    def resolved(self, width: int) -> Block:
        """A copy with a number for every size and factor of its sublayers that follows from others."""

        def step_of(step: Step) -> Step:
            own = {name: branch.but(sublayer=branch.sublayer.resolved(width)) for name, branch in step.branches.items()}
            return step.but(branches=Named(own))

        return self.but(steps=tuple(map(step_of, self.steps)))

    @property
    def reads(self) -> tuple[Read, ...]:
        """The values that its branches read beside the stream, each once."""
        return tuple(dict.fromkeys(read for branch in self.branches.values() for read in branch.reads))

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
        made = change_all(self, changes) if changes else self
        if all(step.residual_scale != "by_layer" for step in made.steps):
            return made
        before = 2 + layer * len(self.steps)
        return made.but(steps=tuple(step.numbered(before + i) for i, step in enumerate(made.steps)))

    def build(self, width: int, plan: Plan, name: str, streams: Streams | None = None, layer: int = 0) -> BlockModule:
        from anyformer.parts.layers.block_module import AlternatingBlockModule, BlockModule, StreamedBlockModule

        if isinstance(streams, AlternatingUpdates):
            return AlternatingBlockModule(self.steps, width, plan, name, streams)
        if isinstance(streams, StepStreams):
            return StreamedBlockModule(self.steps, width, plan, name, streams, layer)
        return BlockModule(self.steps, width, plan, name)

    def cost(self, width: int, shape: Shape, plan: Plan, streams: Streams | None = None, layer: int = 0) -> Tally:
        tally = total({name: branch.cost(width, shape, plan) for name, branch in self.branches.items()}, "branch")
        for i, step in enumerate(self.steps):
            beside = {name: norm.cost(width, shape.rows) for name, norm in step.norms.items()}
            if step.norm_branches is not None:
                beside["norm_branches"] = beside["norm_branches"].writing()
            if isinstance(streams, StepStreams):
                beside["streams"] = streams.cost(width, shape.rows, layer * len(self.steps) + i, step.inputs_of_depth)
            if step.gain is not None:
                beside["gain"] = Tally({"": step.gain.weight(width)})
            if step.interpolation is not None:
                beside["interpolation"] = Tally({"": step.interpolation.weight(width)}, {"": interpolated(shape.rows * width)})
            for name, part in beside.items():
                tally += part.within(f"step_{i}_{name}", "branch", name)
        if isinstance(streams, AlternatingUpdates):
            tally += streams.cost(width, shape.rows).within("streams", "branch")
        return tally

    def watchable(self, width: int, streams: Streams | None = None) -> Watchables:
        """The values that are seen of a layer, in the order computed; branches of a step see the same stream around it."""
        found = {"input": _stream(width, streams, "the stream before the layer")}
        for i, step in enumerate(self.steps):
            norms = {name: inside(f"step[{i}]", norm.shown(name, width)) for name, norm in step.norms.items()}
            found |= {f"{name}.before": value("BTD", "the stream before its step", D=width) for name in step.branches}
            found |= norms.get("norm_before", {})
            for name, branch in step.branches.items():
                found |= inside(name, branch.watchable(width))
            found |= norms.get("norm_branches", {}) | norms.get("norm_after", {})
            one = isinstance(streams, AlternatingUpdates) and step.residual != "inactive"
            behind = _stream(width, None if one else streams, "the stream behind its step")
            found |= {f"{name}.after": behind for name in step.branches}
        return found | {"output": _stream(width, streams, "the stream behind the layer")}

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> dict[str, State]:
        """The decode state of every branch that has memory, by branch name."""
        states = {name: branch.state(width, batch, capacity, source, dtype, device) for name, branch in self.branches.items()}
        return {name: state for name, state in states.items() if state is not None}


def _stream(width: int, streams: Streams | None, about: str) -> Watchable:
    """The stream, or all streams, where there are several."""
    return value("BTD", about, D=width) if streams is None else value("BTND", about, N=streams.count, D=width)
