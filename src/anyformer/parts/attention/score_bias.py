"""Positions as numbers added to attention scores, whatever the tokens: ALiBi and T5's buckets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from anyformer.describe import Count, Registry
from anyformer.operations import Shape, Tally, Weight, total
from anyformer.parts.attention.slots import AttentionCall, Term
from anyformer.parts.sketch import Drawn, Sketch, words
from anyformer.parts.slot import HeadSizes, Way

if TYPE_CHECKING:
    from torch import Tensor, nn

    from anyformer.parts.attention.score_bias_module import ALiBiModule, RelativeBucketsModule
    from anyformer.parts.call.context import Memory


SCORE_BIAS = "score_bias"
"""Name in `Context.shared` of the module of the stack's score bias."""


class ScoreBias(Term):
    """The base of biases of the scores of an attention over heads; a stack may have one for all its layers."""

    name: ClassVar[str] = "score_bias"
    rules_out: ClassVar[frozenset[Way]] = Term.rules_out | {"divided heads"}  # it is made for all heads
    kinds: ClassVar[Registry] = Registry()
    kind: str
    position_name: ClassVar[str]
    """Its name in tables of architectures."""

    @property
    def words(self) -> tuple[str, ...]:
        return (words(self),)

    @property
    def position(self) -> str:
        return self.position_name

    def module(self, sizes: HeadSizes) -> nn.Module:
        """The module: queries, memory, context, the attention and its input -> (B or 1, H, T, S)."""
        raise NotImplementedError

    def work(self, sizes: HeadSizes, shape: Shape) -> Tally:
        """Its weights and products; none by default."""
        return Tally()

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {"score_bias": self.module(sizes)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        return total({"score_bias": self.work(sizes, shape)})

    def term(self, q_BHTE: Tensor, memory: Memory, call: AttentionCall) -> Tensor:
        return call.built("score_bias")(q_BHTE, memory, call.context, call.attention, call.x)  # type: ignore[no-any-return]


class ALiBi(ScoreBias):
    """Linear in the distance: bias = -slope_h * |t - s| (Press et al. 2022, arXiv 2108.12409). The farther a key, the less it
    weighs, by one rule at every length and with no weight to train: a bias towards recency (section 3), so that what is farther
    away than any key of training adds little.

    Slopes are 2^(-8 i / n) for the first n = 2^floor(log2 H) heads, and every other slope of 2n heads for the rest. MPT's
    formula, the slopes of 2^ceil(log2 H) heads reordered, gives the same.
    """

    position_name: ClassVar[str] = "ALiBi"
    kind: Literal["alibi"] = "alibi"
    before_scale: bool = False
    """Add the bias before the scores are scaled, so that it is scaled with them (Falcon)."""
    rounded_to: Literal["bfloat16"] | None = None
    """Type in which slope * t and slope * s are computed, whatever the type of the scores (Falcon)."""

    def of_heads(self, heads: int) -> list[float]:
        """The slope of each head."""
        n = 2 ** math.floor(math.log2(heads))
        extra = [2 ** (-4 * i / n) for i in range(1, 2 * (heads - n), 2)]
        return [2 ** (-8 * i / n) for i in range(1, n + 1)] + extra

    def module(self, sizes: HeadSizes) -> ALiBiModule:
        from anyformer.parts.attention.score_bias_module import ALiBiModule

        return ALiBiModule(self, sizes)


class RelativeBuckets(ScoreBias):
    """A learned number per head and bucket of s - t (Raffel et al. 2020, arXiv 1910.10683, section 2.1; T5).

    Half of the buckets hold one distance each, the others grow by equal factors up to `max_distance`; with `two_sided` half
    of all buckets are for later keys (T5's encoder), otherwise later keys share bucket 0 (its decoder).
    """

    position_name: ClassVar[str] = "relative"
    kind: Literal["relative_buckets"] = "relative_buckets"
    buckets: Annotated[int, Field(ge=4)] = 32
    max_distance: Annotated[int, Field(ge=2)] = 128
    two_sided: bool = False

    @model_validator(mode="after")
    def _fits_together(self) -> RelativeBuckets:
        exact = self.buckets // (4 if self.two_sided else 2)
        if self.buckets % (4 if self.two_sided else 2) or self.max_distance <= exact:
            raise ValueError(
                f"buckets must be a multiple of {4 if self.two_sided else 2} and max_distance larger than the {exact} exact "
                f"distances, got buckets = {self.buckets} and max_distance = {self.max_distance}"
            )
        return self

    def module(self, sizes: HeadSizes) -> RelativeBucketsModule:
        from anyformer.parts.attention.score_bias_module import RelativeBucketsModule

        return RelativeBucketsModule(self, sizes.heads)

    def work(self, sizes: HeadSizes, shape: Shape) -> Tally:
        return self.table(sizes.heads)

    def table(self, heads: int) -> Tally:
        """The declaration of the weights."""
        return Tally({"weight": Weight((self.buckets, heads), "replicate", "matrix", linear=False)})


class SharedBias(Drawn):
    """One table of relative positions for every self-attention of a stack (T5; UMT5 has one per layer)."""

    position_name: ClassVar[str] = "relative"
    heads: Count
    """H of every layer."""
    buckets: RelativeBuckets = RelativeBuckets()

    def sketch(self, width: int) -> Sketch:
        title = "Relative position bias, one for all layers"
        return Sketch(title, (f"{self.heads} heads × {self.buckets.buckets} buckets, up to {self.buckets.max_distance}",))

    def build(self) -> RelativeBucketsModule:
        from anyformer.parts.attention.score_bias_module import RelativeBucketsModule

        return RelativeBucketsModule(self.buckets, self.heads)

    def cost(self) -> Tally:
        return self.buckets.table(self.heads)
