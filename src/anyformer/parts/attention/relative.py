"""Relative positions that depend on the content: the score biases of Transformer-XL and DeBERTa."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from anyformer.describe import Count
from anyformer.operations import Contraction, Shape, Tally, Weight, matrix, total
from anyformer.parts.attention.score_bias import ScoreBias
from anyformer.parts.call.shared import Read
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Drawn
from anyformer.parts.slot import HeadSizes
from anyformer.parts.sublayer import each_once

if TYPE_CHECKING:
    from anyformer.parts.attention.relative_module import DisentangledModule, RelativeTableModule, TransformerXLModule


Term = Literal["content_to_position", "position_to_content"]
TERMS: tuple[Term, ...] = ("content_to_position", "position_to_content")
RELATIVE = "relative"
"""Name in `Context.shared` of the stack's table of relative positions, (2 * span, D)."""


class TransformerXL(ScoreBias):
    """Scores of Dai et al. 2019 (arXiv 1901.02860, section 3.3), with R the sinusoids of the distance t - s:

        q_t k_s + q_t W_r R_(t-s) + u k_s + v W_r R_(t-s), all times scale

    The first term is that of the attention. u, v: (H, E), the same at all positions; W_r: (D, H * E). The paper's W_k,R is W_r.
    """

    position_name: ClassVar[str] = "relative"
    kind: Literal["transformer_xl"] = "transformer_xl"

    def check(self, sizes: HeadSizes) -> None:
        if sizes.width % 2:
            raise ValueError(
                f"Transformer-XL's sinusoids pair sines with cosines, so the width must be even, got {sizes.width}"
            )

    def module(self, sizes: HeadSizes) -> TransformerXLModule:
        from anyformer.parts.attention.relative_module import TransformerXLModule

        return TransformerXLModule(sizes)

    def work(self, sizes: HeadSizes, shape: Shape) -> Tally:
        H, E = sizes.heads, sizes.head_width
        distances = 2 * shape.keys - 1
        content = 2 * shape.batch * H * E * shape.keys
        place = 2 * shape.batch * shape.length * H * E * distances
        vectors = {name: Weight((H, E), "column", "zeros") for name in ("content_bias", "position_bias")}
        return (
            Tally(vectors)
            + matrix("relative", sizes.width, H * E, distances, role="column", constant=True)
            + Tally(own_work={"content": Contraction(content), "position": Contraction(place)})
        )


class Disentangled(ScoreBias):
    """Scores of DeBERTa (He et al. 2021, arXiv 2006.03654, section 3.1), with P a table of relative positions:

        q_t k_s + q_t K_(delta(t, s)) + k_s Q_(delta(t, s)), all times scale

    K, Q = P W: with this layer's key and query projections as W (`shared`, version 2) or with separate ones (version 1).
    delta(t, s) is t - s within the span; with `max_distance`, distances beyond half the span fall into log-sized buckets. The
    last index is that of the released code; the paper writes delta(s, t). P is the stack's `relative` table, (2 * span, D).
    The paper divides by sqrt(3 E): give that as the attention's scale.
    """

    position_name: ClassVar[str] = "relative"
    kind: Literal["disentangled"] = "disentangled"
    terms: tuple[Term, ...] = Field(TERMS, min_length=1)
    shared: bool = True
    span: Count = 256
    """Rows of the table per direction: `position_buckets` of version 2."""
    max_distance: Annotated[int, Field(ge=2)] | None = None
    """Distance of the last bucket; None: every distance up to the span has a row of its own (version 1)."""
    bias: Annotated[tuple[Term, ...], each_once(*TERMS)] = ()
    """Terms whose separate projection adds a bias (version 1: position_to_content, version 2: both)."""

    @model_validator(mode="after")
    def _has_what_it_biases(self) -> Disentangled:
        if self.bias and (self.shared or not set(self.bias) <= set(self.terms)):
            raise ValueError(f"bias needs shared = false and the term itself, got bias = {self.bias} and terms = {self.terms}")
        return self

    @property
    def reads(self) -> tuple[Read, ...]:
        return (Read(RELATIVE, size=self.span),)

    def check(self, sizes: HeadSizes) -> None:
        if self.shared and not (sizes.own_keys and sizes.inputs == sizes.width):
            raise ValueError(
                "disentangled scores with shared = true project positions as the layer does its stream: leave keys_from and "
                "joined out, or set shared = false"
            )

    def module(self, sizes: HeadSizes) -> DisentangledModule:
        from anyformer.parts.attention.relative_module import DisentangledModule

        return DisentangledModule(self, sizes)

    def work(self, sizes: HeadSizes, shape: Shape) -> Tally:
        H, K, E, width = sizes.heads, sizes.groups, sizes.head_width, sizes.width
        rows, parts = 2 * self.span, Tally()
        work = {
            "content_to_position": (
                2 * shape.batch * shape.length * H * E * rows,
                "position_key",
                K * E,
                sizes.projection_groups["key"],
            ),
            "position_to_content": (
                2 * shape.batch * shape.keys * H * E * rows,
                "position_query",
                H * E,
                sizes.projection_groups["query"],
            ),
        }
        for term in self.terms:
            products, name, outputs, of_layer = work[term]
            groups = of_layer if self.shared else 1
            projected = matrix(name, width, outputs, rows, role="column", bias=term in self.bias, groups=groups)
            parts += projected.without("weights") if self.shared else projected
            parts += Tally(own_work={term: Contraction(products)})
        return parts


class RelativeTable(Drawn):
    """A learned vector per relative position from -span to span - 1, (2 * span, D), normalised if `norm` (DeBERTa 3)."""

    span: Count = 256
    norm: Norm | None = None

    def build(self, width: int) -> RelativeTableModule:
        from anyformer.parts.attention.relative_module import RelativeTableModule

        return RelativeTableModule(self, width)

    def cost(self, width: int) -> Tally:
        table = Tally({"weight": Weight((2 * self.span, width), "replicate", "embedding")})
        return table + (total({"norm": self.norm.cost(width, 2 * self.span)}) if self.norm else Tally())
