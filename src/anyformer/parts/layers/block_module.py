"""The modules of blocks: steps in order, on one stream or several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.state import State
from anyformer.parts.layers.alternating import AlternatingUpdates
from anyformer.parts.layers.attention_residuals_module import DepthStep
from anyformer.parts.layers.step import STEP_NORMS, Step
from anyformer.parts.layers.streams import StepStreams
from anyformer.plan import Plan


def before(step: Step, x: Tensor, context: Context) -> Tensor:
    """The stream that a step begins with, seen under the name of each of its branches."""
    for name in step.branches if context.opened is not None else ():
        x = context.see(f"{name}.before", x)
    return x


def after(step: Step, x: Tensor, context: Context) -> Tensor:
    """The stream behind a step, likewise."""
    for name in step.branches if context.opened is not None else ():
        x = context.see(f"{name}.after", x)
    return x


class BlockModule(nn.Module):
    """(B, T, D) -> (B, T, D).

    A branch's module carries the branch's name; what belongs to a step is `step_<i>_` and the name of a norm, `gain` or
    `streams`.
    """

    def __init__(self, steps: tuple[Step, ...], width: int, plan: Plan, name: str) -> None:
        super().__init__()
        self.steps = steps
        for branch_name, branch in ((name, branch) for step in steps for name, branch in step.branches.items()):
            self.add_module(branch_name, branch.build(width, plan, f"{name}.{branch_name}"))
        for i, step in enumerate(steps):
            for place in STEP_NORMS:
                norm = step.norms.get(place)
                self.add_module(f"step_{i}_{place}", norm.build(width) if norm else nn.Identity())
            if step.gain is not None:
                self.register_parameter(f"step_{i}_gain", nn.Parameter(torch.empty(step.gain.weight(width).shape)))
            if step.interpolation is not None:
                self.register_parameter(f"step_{i}_interpolation", nn.Parameter(torch.empty(width)))

    def forward(self, x: Tensor, context: Context, states: dict[str, State] | None = None) -> Tensor:
        late: list[Tensor] = []
        entered = x
        for i, step in enumerate(self.steps):
            assert not isinstance(step.residual_scale, str), "a number in each layer: see `of_layer`"
            x = x.detach() if step.residual == "detached" else x
            x = before(step, x, context)
            read = context.normed(self.get_submodule(f"step_{i}_norm_before"), x, f"step[{i}].norm_before")
            outputs = self._outputs(i, step, read, context, states, late)
            if step.residual == "none":
                x = next(outputs)
            else:
                x = read if step.residual == "normed" else entered if step.residual == "block" else x
                x = x if step.residual_scale == 1.0 else x * step.residual_scale
            if step.interpolation is not None:
                rate_D = step.interpolation.taken(self.get_parameter(f"step_{i}_interpolation")).abs()
                first, *others = outputs
                outputs = iter([rate_D.to(x.dtype) * (sum(others, first) - x)])
            for y in outputs:
                x = x + y
            x = context.normed(self.get_submodule(f"step_{i}_norm_after"), x, f"step[{i}].norm_after")
            x = x if step.gain is None else step.gain.scaled(x, self.get_parameter(f"step_{i}_gain"))
            x = after(step, x, context)
        for y in late:
            x = x + y
        return x

    def _sum(self, i: int, step: Step, x_BTD: Tensor, context: Context, states: dict[str, State] | None) -> Tensor:
        """The sum of the branches of a step that reads x."""
        norm = self.get_submodule(f"step_{i}_norm_before")
        read_BTD = context.normed(norm, before(step, x_BTD, context), f"step[{i}].norm_before")
        first_BTD, *others = self._outputs(i, step, read_BTD, context, states, [])
        return sum(others, first_BTD)

    def _outputs(
        self,
        i: int,
        step: Step,
        read_BTD: Tensor,
        context: Context,
        states: dict[str, State] | None,
        late: list[Tensor],
    ) -> Iterator[Tensor]:
        """The output of each branch of a step, one after the other; if the step norms their sum, the normed sum alone.

        `late` receives the outputs of branches that are added after the block.
        """
        summed = None
        for name, branch in step.branches.items():
            y_BTD = self.get_submodule(name)(read_BTD, context.inside(name), states.get(name) if states else None)
            if branch.added is not None:
                late.append(y_BTD)
            elif step.norm_branches is None:
                yield y_BTD
            else:
                summed = y_BTD if summed is None else summed + y_BTD
        if summed is not None:
            yield context.normed(self.get_submodule(f"step_{i}_norm_branches"), summed, f"step[{i}].norm_branches")


class StreamedBlockModule(BlockModule):
    """(B, T, N, D) -> (B, T, N, D), each step on all streams."""

    def __init__(self, steps: tuple[Step, ...], width: int, plan: Plan, name: str, streams: StepStreams, layer: int) -> None:
        super().__init__(steps, width, plan, name)
        for i in range(len(steps)):
            self.add_module(f"step_{i}_streams", streams.build(width, layer * len(steps) + i, steps[i].inputs_of_depth))

    def forward(self, x: Tensor, context: Context, states: dict[str, State] | None = None) -> Tensor:
        for i, step in enumerate(self.steps):
            streams = self.get_submodule(f"step_{i}_streams")
            if isinstance(streams, DepthStep):
                (h_BTD, *others), mixed_BTND, write_BTN1 = streams.entered(x, context.turn)
                context = replace(context, sides=tuple(others) or None)
            else:
                h_BTD, mixed_BTND, write_BTN1 = streams(x)
            sum_BTD = self._sum(i, step, h_BTD, context, states)
            x = after(step, mixed_BTND + write_BTN1 * sum_BTD[..., None, :], context)
        return x


class AlternatingBlockModule(BlockModule):
    """(B, T, N, D) -> (B, T, N, D): steps on the first stream, and behind the correction those on the others."""

    def __init__(self, steps: tuple[Step, ...], width: int, plan: Plan, name: str, streams: AlternatingUpdates) -> None:
        super().__init__(steps, width, plan, name)
        self.steps = tuple(step for step in steps if step.residual != "inactive")
        self.beside = steps[len(self.steps) :]
        """The steps on all streams but the first, behind those on the first."""
        self.streams = streams.build(width)

    def forward(self, x: Tensor, context: Context, states: dict[str, State] | None = None) -> Tensor:
        predicted_BTND = self.streams.predicted(x)
        x = self.streams.corrected(predicted_BTND, super().forward(predicted_BTND[:, :, 0], context, states))
        for i, step in enumerate(self.beside, len(self.steps)):
            sum_BTD = self._sum(i, step, x[:, :, 0], context, states)
            x = after(step, torch.cat([x[:, :, :1], x[:, :, 1:] + sum_BTD[:, :, None]], 2), context)
        return x
