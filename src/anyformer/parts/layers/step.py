"""A step of a block: branches that read the same stream and are added to it together."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import field_validator, model_validator

from anyformer.describe import Named, Value
from anyformer.parts.derived import LayerScale
from anyformer.parts.layers.branch import Branch
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.gain import Gain
from anyformer.parts.pointwise.scaled_gain import ScaledGain
from anyformer.parts.sublayer import Inputs

STEP_NORMS = ("norm_before", "norm_branches", "norm_after")
TAKEN = frozenset((
    "add_module", "apply", "bfloat16", "buffers", "call_super_init", "children", "compile", "cpu", "cuda", "double",
    "dump_patches", "eval", "extra_repr", "float", "forward", "get_buffer", "get_extra_state", "get_parameter",
    "get_submodule", "half", "ipu", "load_state_dict", "modules", "mro", "mtia", "named_buffers", "named_children",
    "named_modules", "named_parameters", "parameters", "register_backward_hook", "register_buffer", "register_forward_hook",
    "register_forward_pre_hook", "register_full_backward_hook", "register_full_backward_pre_hook",
    "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook", "register_module", "register_parameter",
    "register_state_dict_post_hook", "register_state_dict_pre_hook", "requires_grad_", "set_extra_state", "set_submodule",
    "share_memory", "state_dict", "steps", "streams", "T_destination", "to", "to_empty", "train", "training", "type", "xpu",
    "zero_grad",
))  # fmt: skip
"""Names that a module has itself, those of `torch.nn.Module` and of a block's: no branch can be called so."""


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
    residual: Literal["input", "normed", "block", "none", "detached", "inactive"] = "input"
    """What the branches are added to: x, their input norm_before(x) (MiniMax-M1), what entered the block (Zamba), none, or x as
    a constant: no gradient flows back through the step but by what its branches read of other layers (HRM's first cycles).
    `inactive`: of `AlternatingUpdates` the streams that the layer does not compute (Gemma 3n's inputs of layers)."""
    residual_scale: LayerScale = 1.0
    """Factor of the residual that the branches are added to (DeepNorm's alpha, arXiv 2203.00555). `by_layer`: sqrt((n - 1) / n)
    where the step's sum is the n-th value of the stream, the embedding the first, and sqrt(1 / n) of each branch: independent
    values of variance 1 keep it at 1 (Beam)."""
    gain: Gain | None = None
    """A learned factor of the step's output (Gemma 4's layer_scalar, one number)."""
    interpolation: ScaledGain | None = None
    """x + |g| (branches - x) in the place of x + branches, g (D,): the stream goes a learned share of the way to what the
    branches give (nGPT, arXiv 2410.01131, whose eigen learning rates these are)."""

    @field_validator("branches")
    @classmethod
    def _some(cls, branches: Named[Branch]) -> Named[Branch]:
        if not branches:
            raise ValueError("needs at least one branch")
        for name in branches:
            if name in TAKEN or name.startswith(("_", "step_")):
                raise ValueError(f"a branch cannot be called {name!r}: the name is taken in a module")
        return branches

    @model_validator(mode="after")
    def _normed_residual(self) -> Step:
        if self.residual == "normed" and self.norm_before is None:
            raise ValueError("residual = 'normed' adds the branches to norm_before(x), and the step has no norm_before")
        if self.residual_scale == "by_layer" and self.norm_branches is not None:
            raise ValueError("residual_scale = 'by_layer' scales branches, which norm_branches undoes: leave one out")
        if self.residual == "none" and self.residual_scale != 1.0:
            raise ValueError("residual = 'none' adds the branches to nothing, which no residual_scale multiplies: leave it out")
        return self

    @model_validator(mode="after")
    def _adds_alone(self) -> Step:
        scales = self.residual_scale != 1.0 or self.gain is not None
        if self.residual == "inactive" and (scales or self.norm_after is not None or self.added_late):
            changes = "norm_after, gain, residual_scale and added"
            raise ValueError(f"residual = 'inactive' adds branches to several streams and does no more: leave {changes} out")
        return self

    @model_validator(mode="after")
    def _goes_from_somewhere(self) -> Step:
        if self.interpolation is not None and (self.residual in ("none", "inactive") or self.residual_scale != 1.0):
            raise ValueError("interpolation goes from the residual to the branches: leave residual and residual_scale out")
        if self.interpolation is not None and self.added_late:
            raise ValueError("interpolation goes to what the step's branches give: leave added = 'after_block' out")
        return self

    @model_validator(mode="after")
    def _norms_a_sum(self) -> Step:
        if self.norm_branches is not None and all(branch.added for branch in self.branches.values()):
            raise ValueError("norm_branches norms the sum of the step's branches, and all of them are added after the block")
        if self.residual == "none" and all(branch.added for branch in self.branches.values()):
            raise ValueError("residual = 'none' leaves nothing of a step whose branches are all added after the block")
        return self

    @property
    def inputs_of_depth(self) -> Inputs:
        """What the sides of its branches read of the depth of the model."""
        return next((found for each in self.branches.values() if (found := each.sublayer.inputs_of_depth)), None)

    @property
    def added_late(self) -> bool:
        """Whether a branch is added after the block."""
        return any(branch.added is not None for branch in self.branches.values())

    @property
    def shapes_residual(self) -> bool:
        """Whether the step does more to the residual stream than add to it."""
        changed = self.norm_after is not None or self.residual != "input" or self.residual_scale != 1.0
        return changed or self.gain is not None or self.interpolation is not None

    def numbered(self, n: int) -> Step:
        """A copy with numbers for its factors, if its sum is the n-th value of the stream."""
        if self.residual_scale != "by_layer":
            return self
        share: float = n**-0.5
        scaled = {name: branch.but(multiplier=branch.multiplier * share) for name, branch in self.branches.items()}
        return self.but(residual_scale=(1 - 1 / n) ** 0.5, branches=Named(scaled))

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
        own["interpolation"] = self.interpolation is not None
        inner = (word for branch in self.branches.values() for word in branch.stability)
        return (*(name for name, used in own.items() if used), *inner)
