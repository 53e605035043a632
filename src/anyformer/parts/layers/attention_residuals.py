"""Attention residuals: each step reads a softmax-weighted sum of what earlier steps, or blocks of them, left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from anyformer.describe import Count, Positive
from anyformer.operations import Contraction, Operation, Tally, matrix, total
from anyformer.operations.elementwise import softmax
from anyformer.parts.layers.streams import StepStreams, StreamEnds
from anyformer.parts.norms.layer_norm import RMSNorm
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Sketch


class AttentionResiduals(StepStreams):
    """N values in place of one residual stream: the input, and for each block of `block` steps the sum of their outputs.

    AttnRes (Kimi Team 2026, arXiv 2603.15031). Step s, the first of which is 0, reads

        h = sum_i a_i v_i     a = softmax over i of scale * w . norm(v_i)     v_i: (B, T, D), w: (D,), a: (B, T, n)

    of the n values that stand: v_0, the whole blocks before its own, and its own block so far. w is a weight of the step that
    begins at zero, so that h begins as a mean; the first step reads v_0. Behind the last layer a further w joins all N values.
    `block = 1` is the paper's full form, more than 1 its form by blocks; its layer is our step, its pseudo-query w. Each step
    rewrites all N values here, where the paper shares whole blocks among steps: training keeps more.
    """

    stability: ClassVar[str | None] = "attention residuals"
    placed: ClassVar[bool] = True
    kind: Literal["attention_residuals"] = "attention_residuals"
    block: Count = 1
    """Steps of a block."""
    norm: Norm = RMSNorm()
    """Of the values that w reads (the keys), one for each step."""
    values: Literal["plain", "normed"] = "plain"
    """What is summed: v, or norm(v) (Inkling 2)."""
    scale: Positive = 1.0
    """Factor of the scores (Inkling 2: D^-1/2)."""

    @property
    def lanes(self) -> int:
        return min(self.count, 4)

    def sketch(self, width: int) -> Sketch:
        of = "steps" if self.block == 1 else f"blocks of {self.block} steps"
        return Sketch("Attention residuals", (f"softmax over {self.count - 1} {of} and the input",))

    def problem_of_layers(self, steps: Sequence[int], *, own: bool) -> str | None:
        if len(set(steps)) > 1:
            return f"attention_residuals count steps: give each layer as many, not {sorted(set(steps))}"
        if not own:
            return "attention_residuals read by a weight of each place: leave shared_weights out"
        needed = 1 + -(-sum(steps) // self.block)
        if self.count != needed:
            made = f"the input and {sum(steps)} steps in blocks of {self.block} are {needed} values"
            return f"{made}: set streams.count = {needed}, not {self.count}"
        return None

    def standing(self, index: int) -> int:
        """n, the values that step `index` reads."""
        return 1 + -(-index // self.block)

    def build_ends(self, width: int) -> AttentionResidualsEnds:
        return AttentionResidualsEnds(self, width)

    def ends_cost(self, width: int, rows: int) -> tuple[Tally, Tally]:
        return Tally(), self._cost(width, rows, self.count)

    def build(self, width: int, index: int) -> nn.Module:
        return DepthStep(self, width, index) if index else FirstStep()

    def cost(self, width: int, rows: int, index: int) -> Tally:
        return self._cost(width, rows, self.standing(index)) if index else Tally()

    def _cost(self, width: int, rows: int, values: int) -> Tally:
        query = matrix("query", width, 1, rows * values, role="replicate", fill="zeros", sensitive=True)
        work: dict[str, Operation] = {
            "weights": softmax(rows * values, rows * values),
            "mix": Contraction(2 * rows * values * width),
        }
        return query + total({"norm": self.norm.cost(width, rows * values)}) + Tally(own_work=work)


class DepthAttention(nn.Module):
    """The values that stand, (B, T, n, D) -> their sum by weights of the token, (B, T, D)."""

    def __init__(self, streams: AttentionResiduals, width: int) -> None:
        super().__init__()
        self.sums_normed, self.scale = streams.values == "normed", streams.scale
        self.norm = streams.norm.build(width)
        self.query = nn.Linear(width, 1, bias=False)

    def mixed(self, x_BTnD: Tensor) -> Tensor:
        k_BTnD = self.norm(x_BTnD)
        share_BTn1 = torch.softmax(self.query(k_BTnD).float() * self.scale, 2).to(x_BTnD.dtype)
        sums: Tensor = share_BTn1.mT @ (k_BTnD if self.sums_normed else x_BTnD)
        return sums.squeeze(2)


class DepthStep(DepthAttention):
    """What step `index` reads of the values (B, T, N, D), these as they are, and where it writes, (B, T, N, 1)."""

    def __init__(self, streams: AttentionResiduals, width: int, index: int) -> None:
        super().__init__(streams, width)
        self.standing, self.place = streams.standing(index), 1 + index // streams.block

    def forward(self, x_BTND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.mixed(x_BTND[:, :, : self.standing]), x_BTND, written(x_BTND, self.place)


class FirstStep(nn.Module):
    """The first step reads the input, and has no weights."""

    def forward(self, x_BTND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x_BTND[:, :, 0], x_BTND, written(x_BTND, 1)


def written(x_BTND: Tensor, place: int) -> Tensor:
    """1 at one place of the values and 0 at all others, (B, T, N, 1)."""
    at = torch.arange(x_BTND.shape[2], device=x_BTND.device) == place
    return at.to(x_BTND.dtype)[:, None].expand(*x_BTND.shape[:3], 1)


class AttentionResidualsEnds(StreamEnds):
    """Before the layers the input and zeros, where nothing stands yet; behind them the sum of all by weights of the token."""

    def __init__(self, streams: AttentionResiduals, width: int) -> None:
        super().__init__()
        self.count = streams.count
        self.leave = DepthAttention(streams, width)

    def entering(self, x_BTD: Tensor) -> Tensor:
        return nn.functional.pad(x_BTD[:, :, None], (0, 0, 0, self.count - 1))

    def leaving(self, x_BTND: Tensor) -> Tensor:
        return self.leave.mixed(x_BTND)
