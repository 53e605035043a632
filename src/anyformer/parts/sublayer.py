"""The protocol of sublayers that stacks and blocks rely on; the defaults describe one that mixes no positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import AfterValidator

from anyformer.describe import DescriptionError, Registry, nested
from anyformer.operations import Shape, Tally, Watchables
from anyformer.parts.call.shared import Read
from anyformer.parts.layout import OutsideAttention, WeightLayout
from anyformer.parts.masks.mask import Mask
from anyformer.parts.parametrisation import Parametrisation
from anyformer.parts.positions.rotary_scaling import RotaryScaling
from anyformer.parts.sketch import Drawn
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch
    from torch import nn

    from anyformer.parts.call.state import State


def each_once(*projections: str) -> AfterValidator:
    """A check of a field that names projections: none twice; it puts them in the order of `projections`."""

    def ordered(names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError(f"names a projection twice: {list(names)}")
        return tuple(name for name in projections if name in names)

    return AfterValidator(ordered)


def head_width(width: int, heads: int, given: int | None) -> int:
    """E: the given width of a head, or D / H, which must be whole."""
    if given is not None:
        return given
    if width % heads:
        raise DescriptionError(f"heads must divide the width or head_width be given, got heads = {heads} and width = {width}")
    return width // heads


@dataclass(frozen=True)
class Traits:
    """Terms that tables and pictures of architectures use for a sublayer."""

    mixing: str | None = None
    """Its way of moving information along its own sequence (`GQA`, `MLA`); None if it does not."""
    position: str | None = None
    """Its way of telling positions apart (`RoPE`, `NoPE`); None for a sublayer that mixes no positions."""
    activation: str | None = None
    """The activation of its feed-forward network (`SwiGLU`)."""
    stability: tuple[str, ...] = ()
    """Its techniques for stable training (`QK-norm`)."""


@dataclass(frozen=True)
class Network:
    """A feed-forward network, or a mixture of them."""

    width: int
    """F."""
    gated: bool
    experts: int | None = None
    """Experts of a mixture."""
    chosen: int | None = None
    """Experts of a mixture that a token passes."""
    fields: tuple[str, ...] = ("width",)
    """Paths in the sublayer of every width that grows with F."""


@dataclass(frozen=True)
class Resizing:
    """How a sublayer bounds the architecture's sizes, and which of its own sizes may change."""

    divisor: int = 1
    """A number that must divide the width of the stream: the heads, if the width is split among them."""
    network: Network | None = None


@dataclass(frozen=True)
class Routed:
    """The rows that the tokens of a call take to experts, and how many experts there are."""

    rows: int
    experts: int
    features: int
    """Numbers of a row, on its way there and back."""


@dataclass(frozen=True)
class Coding:
    """What a sparse dictionary says of the code that it reports (`Report.coded`)."""

    features: int
    """F."""
    penalty: str | None
    """The penalty that makes few features active (`L1`, `L0`); None where the code itself sees to it."""
    counts_dead: bool
    """Whether it counts for how long features were not active."""
    revived: int = 0
    """Products of (D, F) a position, forward and backward, of an auxiliary loss of dead features."""
    guessed: int = 0
    """As many of the loss of what the code's gates guess."""


Inputs = Literal["gated", "read"] | None
"""What queries, keys and values read of a model's depth: None, one thing; `gated`, one thing with a message each; `read`, a sum
each, by a query of its own."""


class Sublayer(Drawn):
    """The description of a branch's computation: (B, T, D) -> (B, T, D)."""

    kinds: ClassVar[Registry] = Registry()
    kind: str
    reads_stream: ClassVar[bool] = True
    """Whether it reads the stream where it stands; else a norm before it would have no effect."""

    @property
    def called(self) -> str:
        """The name of a branch that has it, where nobody gives another."""
        return self.kind

    @property
    def reads(self) -> tuple[Read, ...]:
        """The values of the call, of its stack and of earlier layers that it reads beside the stream."""
        return ()

    @property
    def inputs_of_depth(self) -> Inputs:
        """What it reads of the depth of the model, where streams give its sides inputs of their own."""
        return None

    def source_features(self, width: int) -> int:
        """Features of the source that it reads, if it reads one."""
        return width

    @property
    def leaves(self) -> Mapping[str, int]:
        """The values that it leaves for later layers: the name of each with the size that a `Read` checks."""
        return {}

    def misfit(self, read: Read, of: Sublayer, width: int) -> str | None:
        """Why it cannot read a value of another layer's sublayer at this width; None if it can."""
        return None

    @property
    def reports_index(self) -> bool:
        """Whether it chooses keys by index scores, whose loss it reports in training (`Report.index`)."""
        return False

    @property
    def coding(self) -> Coding | None:
        """The sparse code that it reports; None of anything but a dictionary."""
        return None

    @property
    def masks(self) -> tuple[Mask, ...]:
        """The masks of its attentions."""
        return ()

    def outside(self, width: int) -> OutsideAttention | None:
        """What a kernel from outside would compute of it; None without keys and values of its own tokens."""
        return None

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """Positions of the texts for which its rotary frequencies were made, of those that are scaled for longer ones."""
        lengths = (each.trained_length for each in nested(self) if isinstance(each, RotaryScaling))
        return tuple(dict.fromkeys(length for length in lengths if length is not None))

    @property
    def traits(self) -> Traits:
        """The terms that tables and pictures use for it."""
        return Traits()

    @property
    def resizing(self) -> Resizing:
        """Its sizes that follow a change of the architecture's width or of its feed-forward networks."""
        return Resizing()

    @property
    def sharers(self) -> int | None:
        """The most layers that can share its weights, which has some of each layer's own (`LayerLoRA`); None: any number."""
        return None

    def layout(self, width: int) -> WeightLayout:
        """What its weights are, for making them from those of another sublayer, or those of another from them."""
        return WeightLayout()

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        """Counts, beside the sides of weights, that the degree of tensor parallelism must divide, so that no head is split."""
        return ()

    def narrowed(self, width: int, ways: int) -> Self | None:
        """The sublayer that each of `ways` processes computes, so that their outputs add up to this one's; None: undivided.

        Its weights are parts of this one's, in order: one that is smaller in a dimension is cut along it, any other is whole
        in every process (tensor parallelism, Shoeybi et al. 2019, arXiv 1909.08053).
        """
        return None

    def routed(self, width: int, tokens: int) -> tuple[Routed, ...]:
        """What travels in training if processes divide its experts, on each of its ways to them and back."""
        return ()

    def gathers(self, width: int) -> int | None:
        """The numbers per position that a process needs of all positions to compute its own (`Context.gathered`), where
        several processes divide positions; None: each computes all.

        0 of a sublayer that mixes no positions; the keys and values of attention (Grattafiori et al. 2024, arXiv 2407.21783,
        section 3.3.2).
        """
        return None

    def scaled_as(self, base: Sublayer, width: int, base_width: int) -> Self:
        """This sublayer at D = `width` with factors by which its scores stay as large as those of `base`, itself at D =
        `base_width`, while both learn (`MaximalUpdate`)."""
        return self

    def at_unit_scale(self, width: int, rules: Parametrisation) -> tuple[Self, float]:
        """This sublayer with the factor of its scores by `rules`, and the factor of its output that undoes what its
        nonlinearity does to the variance."""
        return self, 1.0

    def resolved(self, width: int) -> Self:
        """A copy with a number for every size that follows from others."""
        return self

    def of_layer(self, layer: int, depth: int) -> Self:
        """A copy for layer `layer` of `depth`, counted from 0, with a number for every factor that follows from the layer's."""
        return self

    def check(self, width: int) -> None:
        """Refuse a width that does not fit."""

    def build(self, width: int, plan: Plan, name: str) -> nn.Module:
        """The module; `name` is its path in the model."""
        raise NotImplementedError

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        """Its weights, operations, decode state and limits for one call."""
        raise NotImplementedError

    def watchable(self, width: int) -> Watchables:
        """The values that its module names while it computes (`Context.see`), beside what it reads and gives."""
        return {}

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> State | None:
        """Preallocated decode state; None for a sublayer without memory."""
        return None
