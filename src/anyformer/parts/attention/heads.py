"""What every attention over heads shares: the description of heads, projections, norms and scales."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from anyformer.parts.attention.attend_keeps import Seen, Sizes, attend_keeps
from anyformer.parts.norms.layer_norm import LayerNorm, RMSNorm
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import keeps_input
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.sublayer import Sublayer, each_once, head_width
from anyformer.tally import Flops, Shape, Tally, Weight, matrix, total
from anyformer.tape import Held, Tape

Projection = Literal["query", "key", "value", "output"]
PROJECTIONS: tuple[Projection, ...] = ("query", "key", "value", "output")
Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]


class Heads(Sublayer):
    """What every attention over heads shares: how many, how wide, with which biases, norms and scales."""

    kind: str
    heads: Count
    """H, query heads."""
    kv_heads: Count | None = None
    """K, heads of keys and values, a divisor of H: H is multi-head (the default), 1 multi-query, between grouped-query."""
    head_width: Count | None = None
    """E, features of a head; D / H by default."""
    value_width: Count | None = None
    """U, features of a value head; E by default (MiMo-V2: 128 beside 192)."""
    bias: tuple[Projection, ...] = ()
    """Projections that add a bias."""
    qk_norm: Norm | None = None
    """Norm of queries and keys."""
    qk_norm_over: Literal["head", "each_head", "projection"] = "head"
    """What it normalises: each head by itself, with one gain for all (Qwen 3) or a gain of its own (Command R+), or the whole
    projection (OLMo 2)."""
    value_norm: Norm | None = None
    """Norm over the features of each value head (Gemma 4)."""
    value_scale: Annotated[float, Field(gt=0)] = 1.0
    """Factor of the values (MiMo-V2: 0.707)."""
    values: Literal["own", "keys"] = "own"
    """`keys`: the key projection, not normalised nor rotated, also gives the values (Gemma 4's global layers)."""
    clip: Annotated[float, Field(gt=0)] | None = None
    """Bound of the entries of queries, keys and values as projected (OLMo 1, DBRX)."""
    scale: Annotated[float, Field(gt=0)] | None = None
    """Factor of the scores; E^-0.5 by default."""
    softcap: Annotated[float, Field(gt=0)] | None = None
    """Bound c of the scores: c * tanh(s / c)."""
    sink: Literal["head"] | None = None
    """`head`: a learned logit per head that takes part in the softmax and has no value (gpt-oss)."""
    gate: Gate | None = None
    """Gate of the mixed heads, before the output projection (Qiu et al. 2025, arXiv 2505.06708)."""
    sub_norm: Norm | None = None
    """Norm of the mixed heads side by side, before the output projection (BitNet, Magneto)."""
    dropout: Rate = 0.0
    """Share of attention weights dropped in training."""

    @field_validator("bias")
    @classmethod
    def _in_order(cls, names: tuple[Projection, ...]) -> tuple[Projection, ...]:
        return each_once(names, PROJECTIONS)

    @model_validator(mode="after")
    def _grouped(self) -> Heads:
        if self.heads % self.groups:
            raise ValueError(f"kv_heads must divide heads, got kv_heads = {self.groups} and heads = {self.heads}")
        if self.values == "keys" and "value" in self.bias:
            raise ValueError("a bias on 'value' needs values = 'own': here the keys are the values")
        if self.values == "keys" and self.value_width is not None:
            raise ValueError("value_width needs values = 'own': here the keys are the values")
        if self.qk_norm is None and self.qk_norm_over != "head":
            raise ValueError("qk_norm_over says what qk_norm normalises, and there is no qk_norm")
        if self.qk_norm_over == "each_head" and not isinstance(self.qk_norm, RMSNorm | LayerNorm):
            raise ValueError("qk_norm_over = 'each_head' needs a qk_norm of kind rms_norm or layer_norm")
        return self

    @property
    def groups(self) -> int:
        """K."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def cuts(self) -> tuple[int, ...]:
        return self.heads, self.groups

    @property
    def state_cuts(self) -> int:
        return self.groups

    @property
    def tricks(self) -> tuple[str, ...]:
        there = {
            "QK-norm": self.qk_norm,
            "V-norm": self.value_norm,
            "score soft-cap": self.softcap,
            "QKV clip": self.clip,
            "sinks": self.sink,
            "output gate": self.gate,
            "sub-norm": self.sub_norm,
        }
        return tuple(name for name, part in there.items() if part is not None)

    def width_of_head(self, width: int) -> int:
        """E."""
        return head_width(width, self.heads, self.head_width)

    def width_of_value(self, width: int) -> int:
        """U."""
        return self.width_of_head(width) if self.value_width is None else self.value_width

    @property
    def divides_width(self) -> int:
        return self.heads if self.head_width is None else 1

    def spelled_out(self, width: int) -> Self:
        return self.but(head_width=self.width_of_head(width), kv_heads=self.groups)

    def mixed(self, width: int) -> tuple[int, int]:
        """How many heads come out of mixing, and how wide."""
        return self.heads, self.width_of_value(width)

    def scale_of(self, width: int) -> float:
        """The factor of the scores."""
        return self.width_of_head(width) ** -0.5 if self.scale is None else self.scale

    def check(self, width: int) -> None:
        """Refuse what only the width reveals."""
        self.width_of_head(width)

    def projections(self, width: int, rows: int, source_rows: int, *, reads: bool = True) -> Tally:
        """Weights and FLOPs of projections, norms, sink and gate; `reads`: keys and values are this layer's own."""
        E, U = self.width_of_head(width), self.width_of_value(width)
        H, K = self.heads * E, self.groups * E
        whole = self.qk_norm_over != "head"
        parts = matrix("query", width, H, rows, role="column", bias="query" in self.bias)
        parts += matrix("output", self.heads * U, width, rows, role="row", bias="output" in self.bias, fill="residual")
        inner = total({"sub_norm": self.sub_norm.cost(self.heads * U)}) if self.sub_norm else Tally()
        if self.qk_norm is not None:
            inner += total({"query_norm": self.qk_norm.cost(H if whole else E)})
        if reads:
            parts += matrix("key", width, K, source_rows, role="column", bias="key" in self.bias)
            if self.values == "own":
                parts += matrix("value", width, self.groups * U, source_rows, role="column", bias="value" in self.bias)
            if self.qk_norm is not None:
                inner += total({"key_norm": self.qk_norm.cost(K if whole else E)})
            if self.value_norm is not None:
                inner += total({"value_norm": self.value_norm.cost(U)})
        if self.sink is not None:
            inner += Tally({"sink": Weight((self.heads,), "column", "zeros")})
        if self.gate is not None:
            inner += total({"gate": self.gate.cost(width, *self.mixed(width), rows)})
        return parts + inner

    def meetings(self, width: int, shape: Shape) -> Mapping[str, tuple[int, int]]:
        return {"scores": (self.heads, self.width_of_head(width)), "mix": (self.heads, self.width_of_value(width))}

    def products(self, width: int, shape: Shape, dense: int, exact: int) -> Tally:
        """FLOPs of scores and mixing over so many (query, key) pairs per head and row."""
        per_pair = {name: 2 * shape.batch * H * E for name, (H, E) in self.meetings(width, shape).items()}
        return Tally(flops={name: Flops(work * dense, work * exact) for name, work in per_pair.items()})

    def queries_keep(self, tape: Tape, x: Held, width: int, *, late: bool = False) -> Held:
        """What the projection, the clip and the norm of queries keep."""
        return self._projected_keeps(tape, "query", x, width, self.heads, late=late)

    def keys_and_values_keep(self, tape: Tape, x: Held, width: int, *, late: bool = False) -> tuple[Held, Held]:
        """The same of keys and values; one tensor in two forms where the keys are the values."""
        U = self.width_of_value(width)
        projected = self._linear_keeps(tape, "key", x, width, self.groups * self.width_of_head(width))
        key = self._normed_keep(tape, "key", projected, width, self.groups, late=late)
        value = projected if self.values == "keys" else self._linear_keeps(tape, "value", x, width, self.groups * U)
        value = self.value_norm.keeps(tape.within("value_norm"), value, U) if self.value_norm else value
        return key, value if self.value_scale == 1 else tape.like(value)

    def _projected_keeps(self, tape: Tape, name: str, x: Held, width: int, heads: int, *, late: bool) -> Held:
        projected = self._linear_keeps(tape, name, x, width, heads * self.width_of_head(width))
        return self._normed_keep(tape, name, projected, width, heads, late=late)

    def _linear_keeps(self, tape: Tape, name: str, x: Held, width: int, outputs: int) -> Held:
        projected = tape.linear(name, x, width, outputs)
        return projected if self.clip is None else keeps_input(tape, projected)

    def _normed_keep(self, tape: Tape, name: str, x: Held, width: int, heads: int, *, late: bool) -> Held:
        if self.qk_norm is None or late:
            return x
        E, at = self.width_of_head(width), tape.within(f"{name}_norm")
        match self.qk_norm_over:
            case "head":
                return self.qk_norm.keeps(at, x, E)
            case "projection":
                return self.qk_norm.keeps(at, x, heads * E)
            case "each_head":
                return self.qk_norm.keeps(at, x, heads * E, heads)

    def mix_keeps(
        self, tape: Tape, x: Held, width: int, q: Held, k: Held, v: Held, seen: Seen, bias: Held | None = None
    ) -> Held:
        """What attention, gate, norm and output projection keep."""
        U = self.width_of_value(width)
        mixed = self.attended_keeps(tape, width, q, tape.cast(k, q.number), tape.cast(v, q.number), seen, bias)
        if self.gate is not None:
            mixed = self.gate.keeps(tape.within("gate"), x, mixed, width, *self.mixed(width))
        # Heads side by side: a copy where they stand one after the other.
        mixed = tape.like(mixed) if mixed.apart else mixed
        if self.sub_norm is not None:
            mixed = self.sub_norm.keeps(tape.within("sub_norm"), mixed, self.heads * U)
        return tape.linear("output", mixed, self.heads * U, width)

    def attended_keeps(self, tape: Tape, width: int, q: Held, k: Held, v: Held, seen: Seen, bias: Held | None) -> Held:
        """What the kernel keeps."""
        sizes = Sizes(self.heads, self.groups, self.width_of_head(width), self.width_of_value(width))
        capped, sink = self.softcap is not None, self.sink is not None
        return attend_keeps(tape, sizes, q, k, v, seen, bias, capped=capped, sink=sink, dropout=self.dropout)
