"""The base of self-attentions over heads, with any head width, positions and score biases."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import model_validator

from anyformer.describe import Count, Value
from anyformer.operations import Dimension, Limit, Operation, Shape, StateBytes, Tally, Weight, total
from anyformer.operations.elementwise import rotated
from anyformer.parts.attention.exclusive import Exclusive
from anyformer.parts.attention.forgetting import ForgettingGate
from anyformer.parts.attention.heads import Heads
from anyformer.parts.attention.heads_sketch import heads_sketch, heads_title, rotary_cell
from anyformer.parts.attention.joined import Joined
from anyformer.parts.attention.score_bias import SCORE_BIAS, ScoreBias
from anyformer.parts.attention.span_convolution import SpanConvolution
from anyformer.parts.attention.temperature import Temperature
from anyformer.parts.attention.value_convolution import ValueConvolution
from anyformer.parts.attention.value_embedding import ValueEmbedding
from anyformer.parts.attention.value_residual import ValueResidual
from anyformer.parts.call.annotated_state import AnnotatedState
from anyformer.parts.call.recurrent_state import SUM_BYTES
from anyformer.parts.call.ring_state import RingState, empty_keys_and_values
from anyformer.parts.call.shared import MEMORY, TOKENS, VALUES, Read
from anyformer.parts.call.state import FullState
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.simple import Bidirectional, Causal
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.sketch import Sketch, words
from anyformer.parts.sublayer import Traits
from anyformer.plan import Plan

VIRTUAL = ("virtual_key", "virtual_value")


class SelfAttention(Heads):
    """The base of self-attentions over heads: mask, positions, decode state."""

    mask: Mask = Causal()
    """The positions that each query may see."""
    rotary: Rotary | None = None
    score_bias: ScoreBias | None = None
    """Bias of this layer's scores; a stack may have one for all its layers."""
    temperature: Temperature | None = None
    """Factor of the queries by position."""
    forget: ForgettingGate | None = None
    """Gate by which each token lowers the scores between what stands before it and what follows."""
    virtual_tokens: Count | None = None
    """Learned keys and values that every query sees, without a position (prefix tuning, Li & Liang 2021, arXiv 2101.00190)."""
    keys_from: str | None = None
    """A variant: this layer reads the keys and values of its latest layer before, and has none of its own (Gemma 3n)."""
    value_embedding: ValueEmbedding | None = None
    """A table of tokens whose rows are added to the values, after their norm and scale."""
    value_residual: ValueResidual | None = None
    exclusive: Exclusive | None = None
    """What of its own value a token takes out of what its heads mix."""
    value_convolution: ValueConvolution | None = None
    """A filter over the values around a token, added to what its heads mix."""
    convolution: SpanConvolution | None = None
    """Heads of a convolution, which reads the same queries, beside those of attention."""
    joined: Joined | None = None
    """An earlier stream that its projections read beside x."""

    @model_validator(mode="after")
    def _makes_sense(self) -> SelfAttention:
        own = {
            "value_norm": self.value_norm is not None,
            "values": self.values == "keys",
            "value_embedding": self.value_embedding is not None,
            "value_residual": self.value_residual is not None,
            "exclusive": self.exclusive is not None,
            "forget": self.forget is not None,
            "value_convolution": self.value_convolution is not None,
            "grouped.key and grouped.value": self.in_groups("key") > 1 or self.in_groups("value") > 1,
            "the bias on 'key' or 'value'": not {"key", "value"}.isdisjoint(self.bias),
        }
        if self.keys_from is not None and any(own.values()):
            without = " and ".join(name for name, given in own.items() if given)
            raise ValueError(f"with keys_from this layer has no keys and values of its own: leave {without} out")
        if self.forget is not None and self.mask.window is not None:
            raise ValueError(
                f"forget adds up the gates of every position, and a window keeps its latest {self.mask.window} alone: leave "
                f"forget out, or give a mask without a window"
            )
        if self.value_convolution is not None and not isinstance(self.mask, Bidirectional):
            raise ValueError(f"value_convolution looks ahead: it needs a bidirectional mask, got {self.mask.kind}")
        return self

    def check(self, width: int) -> None:
        """Refuse a width that does not fit."""
        super().check(width)
        if self.rotary is not None:
            self.rotary.rotated(self.width_of_head(width))
        if self.score_bias is not None:
            self.score_bias.check(width)
        if self.joined is not None:
            self.joined.check(width)

    def inputs(self, width: int) -> int:
        return width if self.joined is None else 2 * width

    def sketch(self, width: int) -> Sketch:
        rotary, beside = rotary_cell(self.rotary), None if self.convolution is None else self.convolution.cell
        return heads_sketch(self, width, self.title, self.facts, rotary=rotary, memory=self.keys_from, beside=beside)

    @property
    def title(self) -> str:
        """The title of its picture."""
        return f"{heads_title(self)} attention"

    @property
    def facts(self) -> tuple[str, ...]:
        """The rules of its scores in words, for pictures."""
        facts = [self.mask.words, *(words(part) for part in (self.score_bias, self.temperature) if part is not None)]
        if self.forget is not None:
            facts.append("a forgetting gate per head")
        if self.virtual_tokens is not None:
            facts.append(f"{self.virtual_tokens} virtual tokens")
        if self.value_embedding is not None:
            facts.append(f"values plus a row of {self.value_embedding.vocab:,} for each token")
        if self.value_residual is not None:
            facts.append(f"with values of the latest {self.value_residual.variant} layer")
        if self.exclusive is not None:
            facts.append("without the direction of a token's own value")
        if self.value_convolution is not None:
            facts.append(f"values of the {self.value_convolution.kernel} positions around added")
        if self.joined is not None:
            facts.append(self.joined.words)
        return tuple(facts)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows, own, P = shape.rows, self.keys_from is None, self.virtual_tokens or 0
        E, U, K = self.width_of_head(width), self.width_of_value(width), self.groups
        axes: tuple[Dimension, ...] = ((("kv_heads", K),), (), ())
        sizes = zip(VIRTUAL, (E, U) if P else (), strict=False)
        virtual = {name: Weight((K, P, of), "column", "matrix", axes=axes) for name, of in sizes}
        gates = 0 if self.forget is None else self.heads * SUM_BYTES
        position = shape.batch * (K * (E + U) * plan.activation_bytes + gates)
        held = position * self.mask.cache_length(shape.cache_length) if own else 0
        state = StateBytes.of(shape, held, position * self.mask.pairs(shape), K)
        inner = {} if self.score_bias is None else {"score_bias": self.score_bias.cost(self, width, shape)}
        inner |= {} if self.forget is None else {"forget": self.forget.cost(self.inputs(width), self.heads, rows)}
        if self.value_embedding is not None:
            inner["value_embedding"] = self.value_embedding.cost(self.inputs(width), K, U, rows)
        inner |= {} if self.exclusive is None else {"exclusive": self.exclusive.cost(self.heads)}
        inner |= {} if self.value_convolution is None else {"value_convolution": self.value_convolution.cost(K)}
        inner |= {} if self.convolution is None else {"convolution": self.convolution.cost(self, width, rows)}
        inner |= {} if self.joined is None else {"joined": self.joined.cost(width, rows)}
        features = 0 if self.rotary is None else self.rotary.rotated(E) * (self.heads + (K if own else 0))
        rotary: Mapping[str, Operation] = {"rotary": rotated(rows * features)} if features else {}
        products = self.products(width, shape, *self.pairs(shape, plan))
        return (
            self.projections(width, rows, rows, own_keys=own)
            + products
            + Tally(virtual, rotary, state, self.limits)
            + total(inner)
        )

    def pairs(self, shape: Shape, plan: Plan) -> tuple[int, int]:
        """The (query, key) pairs of a head and row that are computed, and those that are allowed."""
        virtual = shape.length * (self.virtual_tokens or 0)
        return shape.length * shape.keys + virtual, self.mask.pairs(shape) + virtual

    @property
    def traits(self) -> Traits:
        positions = ["RoPE"] if self.rotary is not None else []
        positions += [self.score_bias.position_name] if self.score_bias is not None else []
        positions += ["forgetting"] if self.forget is not None else []
        techniques: dict[str, Value | None] = {
            "query temperature": self.temperature, "value embedding": self.value_embedding,
            "value residual": self.value_residual, "exclusive": self.exclusive,
        }  # fmt: skip
        mixing = "MHA" if self.groups == self.heads else "MQA" if self.groups == 1 else "GQA"
        return Traits(
            mixing if self.convolution is None else f"{mixing}+convolution",
            "+".join(positions) or "NoPE",
            stability=(*super().traits.stability, *(name for name, part in techniques.items() if part is not None)),
        )

    @property
    def reads(self) -> tuple[Read, ...]:
        reads = [Read(SCORE_BIAS, size=self.heads, required=False), *(self.score_bias.reads if self.score_bias else ())]
        if self.keys_from is not None:
            reads.append(Read(MEMORY, self.keys_from, size=self.groups, state=True))
        if self.value_embedding is not None:
            reads.append(TOKENS)
        if self.value_residual is not None:
            reads.append(Read(VALUES, self.value_residual.variant, size=self.groups))
        return (*reads, *((self.joined.read,) if self.joined is not None else ()))

    @property
    def leaves(self) -> Mapping[str, int]:
        return {MEMORY: self.groups, VALUES: self.groups} if self.keys_from is None else {}

    @property
    def masks(self) -> tuple[Mask, ...]:
        return (self.mask,)

    def read_by_output(self, width: int) -> int:
        mixed = super().read_by_output(width)
        return mixed if self.convolution is None else 2 * mixed

    def gathers(self, width: int) -> int | None:
        if any((self.value_convolution, self.convolution, self.joined, self.forget)):
            return None
        return 0 if self.keys_from is not None else self.groups * (self.width_of_head(width) + self.width_of_value(width))

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that this attention breaks by its mathematics."""
        rotary, convolution = self.rotary and self.rotary.limits, self.convolution and self.convolution.limits
        return (*self.mask.limits, *(rotary or ()), *(convolution or ()))

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> FullState | RingState | None:
        """A ring for a mask with a window, else every position: B * K * min(window, C) * (E + U) elements; None if shared.

        With a forgetting gate, B * H * C sums beside them.
        """
        if self.keys_from is not None:
            return None
        features, kept = (self.width_of_head(width), self.width_of_value(width)), self.mask.cache_length(capacity)
        state = empty_keys_and_values(batch, self.groups, features, kept, capacity, dtype, device)
        if self.forget is None:
            return state
        sums = torch.zeros(batch, self.heads, capacity, 1, dtype=torch.float32, device=device)
        return AnnotatedState(state.key, state.value, sums)
