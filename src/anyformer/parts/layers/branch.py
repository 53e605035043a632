"""A branch of a block: one sublayer with its norms, gain and dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import model_validator

from anyformer.describe import Probability, Value
from anyformer.operations import Shape, StateBytes, Tally, Watchables, Weight, total, value
from anyformer.operations.elementwise import added
from anyformer.parts.attention.residual_convolution import ResidualConvolution
from anyformer.parts.call.shared import Read
from anyformer.parts.layers.modulation import READS_CONDITION, Modulation
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.gain import Gain
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.state import State
    from anyformer.parts.layers.branch_module import BranchModule


class Branch(Value):
    """drop_path(multiplier * gain * dropout(norm_after(filtered(sublayer(norm_before(x)) + b)))): what a sublayer
    adds to the stream.

    A modulation stands behind both norms.
    """

    through: ClassVar[tuple[str, ...]] = ("sublayer",)
    norm_before: Norm | None = None
    sublayer: Sublayer
    modulation: Modulation | None = None
    """Shift, scale and gate by the stack's condition."""
    output_bias: Literal[True] | None = None
    """Add b, a learned bias (D,), to what the sublayer gives (JetMoE: one beside all experts, arXiv 2404.07413)."""
    residual_convolution: ResidualConvolution | None = None
    """A short filter over what the sublayer gives, before a norm (Inkling)."""
    norm_after: Norm | None = None
    multiplier: float = 1.0
    """A constant factor (Granite; 1 / sqrt(2))."""
    gain: Gain | None = None
    """A learned factor."""
    dropout: Probability = 0.0
    drop_path: Probability = 0.0
    """Share of rows whose whole branch is dropped in training."""
    added: Literal["after_block"] | None = None
    """None: added to the stream with its step. `after_block`: only behind the block's last step, so that the steps between do
    not wait for it (shortcut-connected experts: Cai et al. 2024, arXiv 2404.05019; LongCat-Flash, arXiv 2509.01322)."""

    @model_validator(mode="after")
    def _norm_is_read(self) -> Branch:
        if self.norm_before is not None and not self.sublayer.reads_stream:
            raise ValueError(f"{self.sublayer.kind} does not read the stream here: leave norm_before out, or set norm_after")
        if self.modulation is not None and not self.sublayer.reads_stream:
            raise ValueError(f"{self.sublayer.kind} does not read the stream here, which a modulation shifts: leave it out")
        return self

    @property
    def reads(self) -> tuple[Read, ...]:
        """The values that its parts read beside the stream."""
        return self.sublayer.reads if self.modulation is None else (*self.sublayer.reads, READS_CONDITION)

    @property
    def stability(self) -> tuple[str, ...]:
        """Its techniques for stable training."""
        own = {"residual multiplier": self.multiplier != 1, "layer scale": self.gain is not None}
        return (*self.sublayer.traits.stability, *(name for name, used in own.items() if used))

    def watchable(self, width: int) -> Watchables:
        """The values that are seen of it, in the order computed."""
        before, after = self.norm_before, self.norm_after
        return {
            **(before.shown("norm_before", width) if before else {}),
            **({"input": value("BTD", "what the sublayer reads", D=width)} if self.sublayer.reads_stream else {}),
            **self.sublayer.watchable(width),
            "sublayer.output": value("BTD", "what the sublayer gives", D=width),
            **(after.shown("norm_after", width) if after else {}),
            "output": value("BTD", "what is added to the stream", D=width),
        }

    def build(self, width: int, plan: Plan, name: str) -> BranchModule:
        from anyformer.parts.layers.branch_module import BranchModule

        return BranchModule(self, width, plan, name)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> State | None:
        """The decode state of its sublayer, with that of its convolution."""
        inner = self.sublayer.state(width, batch, capacity, source, dtype, device)
        if self.residual_convolution is None:
            return inner
        from anyformer.parts.call.branch_state import BranchState

        return BranchState(inner, self.residual_convolution.state(width, batch, dtype, device))

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        before, after = self.norm_before, self.norm_after
        tally = self.sublayer.cost(width, shape, plan).within("sublayer", "sublayer")
        tally += total({"norm_before": before.cost(width, shape.rows)}) if before else Tally()
        tally += total({"norm_after": after.cost(width, shape.rows).writing()}) if after else Tally()
        if self.modulation is not None:
            tally += total({"modulation": self.modulation.cost(width, shape.batch, shape.rows)})
        if self.residual_convolution is not None:
            size = self.residual_convolution.state_elements(width, shape.batch) * plan.activation_bytes
            own = Tally(own_state=StateBytes(size, size if shape.length == 1 else 0, size))
            tally += (self.residual_convolution.cost(width) + own).within("residual_convolution", "branch")
        weights = {"gain": self.gain.weight(width)} if self.gain else {}
        weights |= {"output_bias": Weight((width,), "replicate", "zeros", writes=True)} if self.output_bias else {}
        return tally + Tally(weights, {"residual": added(shape.rows * width)})
