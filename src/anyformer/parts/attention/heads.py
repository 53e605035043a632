"""The base description of attentions over heads: heads, projections, norms and scales."""

from __future__ import annotations

from math import lcm
from typing import Annotated, Literal, Self

from pydantic import model_validator

from anyformer.describe import Count, DescriptionError, Positive, Probability, Problem
from anyformer.operations import Dimension, Fill, Role, Shape, Tally, Weight, matrix, total
from anyformer.operations.elementwise import SCORE
from anyformer.parts.attention.qk_norm import QKNorm
from anyformer.parts.attention.score_weights import ScoreWeights
from anyformer.parts.attention.scores import pair_work
from anyformer.parts.norms.norm import Norm
from anyformer.parts.parametrisation import Parametrisation
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.pointwise.grouped import HeadGroups
from anyformer.parts.pointwise.layer_lora import LayerLoRA
from anyformer.parts.sublayer import Resizing, Sublayer, Traits, each_once, head_width

Projection = Literal["query", "key", "value", "output"]
PROJECTIONS: tuple[Projection, ...] = ("query", "key", "value", "output")


class Heads(Sublayer):
    """The base of attentions over heads: their number, widths, biases, norms and scales."""

    heads: Count
    """H, query heads."""
    kv_heads: Count | None = None
    """K, heads of keys and values, a divisor of H: H is multi-head (the default), 1 multi-query, between grouped-query."""
    head_width: Count | None = None
    """E, features of a head; D / H by default."""
    value_width: Count | None = None
    """U, features of a value head; E by default (MiMo-V2: 128 beside 192)."""
    bias: Annotated[tuple[Projection, ...], each_once(*PROJECTIONS)] = ()
    """Projections that add a bias."""
    grouped: HeadGroups | None = None
    """Projections whose features are in groups, each of which reads its own inputs alone."""
    qk_norm: QKNorm | None = None
    """Norm of queries and keys."""
    value_norm: Norm | None = None
    """Norm over the features of each value head (Gemma 4)."""
    value_scale: Positive = 1.0
    """Factor of the values (MiMo-V2: 0.707)."""
    values: Literal["own", "keys"] = "own"
    """`keys`: the values are the projected keys, before norm and rotation (Gemma 4's global layers)."""
    clip: Positive | None = None
    """Bound of the entries of queries, keys and values right after their projections (OLMo 1, DBRX)."""
    scale: Positive | None = None
    """Factor of the scores; E^-0.5 by default."""
    softcap: Positive | None = None
    """Bound c of the scores: c * tanh(s / c)."""
    sink: Literal["head"] | None = None
    """`head`: a learned logit per head that takes part in the softmax and has no value (gpt-oss)."""
    weights: ScoreWeights | None = None
    """What turns scores into attention weights in the place of the softmax."""
    gate: Gate | None = None
    """Gate of the mixed heads, before the output projection (Qiu et al. 2025, arXiv 2505.06708)."""
    sub_norm: Norm | None = None
    """Norm of the mixed heads side by side, before the output projection (BitNet, Magneto)."""
    lora: LayerLoRA | None = None
    """Low-rank matrices beside the projections of queries, keys and values, of each layer that shares these."""
    dropout: Probability = 0.0
    """Share of attention weights dropped in training."""

    @model_validator(mode="after")
    def _grouped(self) -> Heads:
        if self.heads % self.groups:
            raise ValueError(f"kv_heads must divide heads, got kv_heads = {self.groups} and heads = {self.heads}")
        if self.values == "keys" and "value" in self.bias:
            raise ValueError("a bias on 'value' needs values = 'own': here the keys are the values")
        if self.values == "keys" and self.value_width is not None:
            raise ValueError("value_width needs values = 'own': here the keys are the values")
        if self.values == "keys" and self.in_groups("value") > 1:
            raise ValueError("grouped.value needs values = 'own': here the keys are the values")
        if self.sink is not None and self.weights is not None:
            raise ValueError(
                f"a sink takes part in a softmax, and weights = {self.weights.kind} has none: leave sink or weights out"
            )
        return self

    @property
    def groups(self) -> int:
        """K."""
        return self.heads if self.kv_heads is None else self.kv_heads

    def in_groups(self, name: Projection) -> int:
        """The number of groups of a projection."""
        return 1 if self.grouped is None else self.grouped.counts[name]

    @property
    def sharers(self) -> int | None:
        return None if self.lora is None else self.lora.layers

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return self.heads, self.groups

    @property
    def traits(self) -> Traits:
        techniques = {
            "QK-norm": self.qk_norm,
            "V-norm": self.value_norm,
            "score soft-cap": self.softcap,
            "QKV clip": self.clip,
            "sinks": self.sink,
            "output gate": self.gate,
            "sub-norm": self.sub_norm,
        }
        weights = () if self.weights is None else (self.weights.kind.replace("_", " "),)
        return Traits(stability=(*(name for name, part in techniques.items() if part is not None), *weights))

    def width_of_head(self, width: int) -> int:
        """E."""
        return head_width(width, self.heads, self.head_width)

    def width_of_value(self, width: int) -> int:
        """U."""
        return self.width_of_head(width) if self.value_width is None else self.value_width

    @property
    def norms_late(self) -> bool:
        """Whether queries and keys are normalised after the rotation."""
        return self.qk_norm is not None and self.qk_norm.at == "after_rotary"

    @property
    def resizing(self) -> Resizing:
        grouped = () if self.grouped is None else self.grouped.counts.values()
        return Resizing(lcm(self.heads if self.head_width is None else 1, *grouped))

    def resolved(self, width: int) -> Self:
        return self.but(head_width=self.width_of_head(width), kv_heads=self.groups)

    def inputs(self, width: int) -> int:
        """Features of what the queries, and self-attention's keys and values, are projected from."""
        return width

    def mixed(self, width: int) -> tuple[int, int]:
        """The number and the width of the heads after mixing."""
        return self.heads, self.width_of_value(width)

    def read_by_output(self, width: int) -> int:
        """Features that the output projection reads: the mixed heads side by side."""
        return self.heads * self.width_of_value(width)

    def scale_of(self, width: int) -> float:
        """The factor of the scores."""
        return self.width_of_head(width) ** -0.5 if self.scale is None else self.scale

    def scaled_as(self, base: Sublayer, width: int, base_width: int) -> Self:
        assert isinstance(base, Heads), "the same sublayer at another width"
        E, narrow = self.width_of_head(width), base.width_of_head(base_width)
        return self if narrow == E else self.but(scale=base.scale_of(base_width) * narrow / E)

    def at_unit_scale(self, width: int, rules: Parametrisation) -> tuple[Self, float]:
        E = self.width_of_head(width)
        if self.scale is not None:
            raise DescriptionError([Problem("scale", f"is {self.scale:g}, and u-muP gives scores their factor: leave it out")])
        return self.but(scale=rules.score_scale(E)), 1.0 if self.sub_norm is not None else rules.averaged(E)

    def check(self, width: int) -> None:
        """Refuse a width that does not fit."""
        E, U, H, K = self.width_of_head(width), self.width_of_value(width), self.heads, self.groups
        if self.grouped is not None:
            own = {"query": (width, H * E), "key": (width, K * E), "value": (width, K * U)}
            own["output"] = (self.read_by_output(width), width)
            self.grouped.check(own)

    def of_heads(self, width: int, ways: int) -> Self | None:
        """This attention with 1 / `ways` of its heads; one head of keys and values stays whole. None: heads are not apart."""
        joined = self.sub_norm is not None or (self.qk_norm is not None and self.qk_norm.over == "projection")
        joined = joined or self.grouped is not None
        if joined or self.heads % ways or (self.groups > 1 and self.groups % ways):
            return None
        return self.but(
            heads=self.heads // ways, kv_heads=max(1, self.groups // ways), head_width=self.width_of_head(width),
            scale=self.scale_of(width),
        )  # fmt: skip

    def projections(self, width: int, rows: int, source_rows: int, *, own_keys: bool = True) -> Tally:
        """Weights and work of projections, norms, sink and gate; `own_keys`: keys and values are this layer's own."""
        E, U = self.width_of_head(width), self.width_of_value(width)
        H, K, D = self.heads, self.groups, self.inputs(width)
        queries: Dimension = (("heads", H), ("features", E))
        keys: Dimension = (("kv_heads", K), ("features", E))
        values: Dimension = (("kv_heads", K), ("features", U))
        read = self.read_by_output(width)
        mixed: Dimension = (("heads", H), ("features", U)) if read == H * U else ()
        parts = self._matrix("query", D, H * E, rows, outputs_as=queries)
        parts += self._matrix("output", read, width, rows, role="row", fill="residual", inputs_as=mixed)
        inner = {} if self.sub_norm is None else {"sub_norm": self.sub_norm.cost(self.heads * U, rows)}
        inner |= {} if self.lora is None else {"query_lora": self.lora.cost(D, {"up": H * E}, rows)}
        if self.qk_norm is not None:
            inner["query_norm"] = self.qk_norm.cost(self.heads, E, rows)
        if own_keys:
            parts += self._matrix("key", D, K * E, source_rows, outputs_as=keys)
            if self.values == "own":
                parts += self._matrix("value", D, K * U, source_rows, outputs_as=values)
            if self.lora is not None:
                beside = {"key": K * E, **({"value": K * U} if self.values == "own" else {})}
                inner |= {f"{name}_lora": self.lora.cost(D, {"up": of}, source_rows) for name, of in beside.items()}
            if self.qk_norm is not None:
                norm = self.qk_norm.cost(K, E, source_rows)
                inner["key_norm"] = norm if self.qk_norm.over == "head" else norm.counted(keys)
            if self.value_norm is not None:
                inner["value_norm"] = self.value_norm.cost(U, source_rows * self.groups)
        if self.sink is not None:
            parts += Tally({"sink": Weight((H,), "column", "zeros", axes=((("heads", H),),))})
        if self.gate is not None:
            inner["gate"] = self.gate.cost(D, *self.mixed(width), rows)
        return parts + total(inner)

    def _matrix(
        self,
        name: Projection,
        inputs: int,
        outputs: int,
        rows: int,
        *,
        role: Role = "column",
        fill: Fill = "matrix",
        outputs_as: Dimension = (),
        inputs_as: Dimension = (),
    ) -> Tally:
        """The weight and the work of a projection. A grouped one is whole in every process of tensor parallelism."""
        groups = self.in_groups(name)
        return matrix(
            name, inputs, outputs, rows, role=role if groups == 1 else "replicate", bias=name in self.bias, fill=fill,
            outputs_as=outputs_as, inputs_as=inputs_as, groups=groups,
        )  # fmt: skip

    def products(self, width: int, shape: Shape, pairs: int, exact: int) -> Tally:
        """Scores, softmax and mixing over `pairs` (query, key) pairs per head and row, `exact` of them allowed by the mask."""
        E, U = self.width_of_head(width), self.width_of_value(width)
        return pair_work(shape, self.heads, E, U, pairs, exact, self.work_of_score)

    @property
    def work_of_score(self) -> int:
        """Element-wise operations that make a score an attention weight."""
        return SCORE if self.weights is None else self.weights.each
