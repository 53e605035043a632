"""The base description of latent attention: widths, positions, and the decode state of latents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from anyformer.describe import Count, Positive
from anyformer.operations import Limit, Shape, Watchables, value
from anyformer.parts.attention.indexer import KeyChoice
from anyformer.parts.attention.named_values import heads_seen, pairs_seen
from anyformer.parts.attention.temperature import Temperature
from anyformer.parts.call.shared import Read
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.simple import Causal
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.ring_state import RingState
    from anyformer.parts.call.state import FullState


Projection = Literal["query_down", "kv_down", "output"]


class LatentHeads(Sublayer):
    """The base of attention through a latent: all but its weights and operations."""

    heads: Count
    """H."""
    kv_rank: Count
    """P, features of the latent."""
    q_rank: Count | None = None
    """Features of the queries' latent; None projects queries directly."""
    nope_width: Count
    """E - R, features of a head that carry no position."""
    rope_width: Annotated[int, Field(ge=2)]
    """R, features of a head that are rotated; all heads share one rotated key."""
    value_width: Count
    """U, features of a value head."""
    norm: Norm | None = None
    """Norm of both latents (DeepSeek: RMSNorm, eps 1e-6)."""
    rope_norm: Norm | None = None
    """Norm of the one rotated key, before its rotation (dots3-note: RMSNorm)."""
    rotary: Rotary | None = None
    """Rotation of the R features (DeepSeek: adjacent pairs); without it no feature carries a position (Kimi Linear)."""
    mask: Mask = Causal()
    bias: tuple[Projection, ...] = ()
    scale: Positive | None = None
    gate: Gate | None = None
    temperature: Temperature | None = None
    """A factor of the queries that grows with their positions (Mistral 4)."""
    aligned_to: Count | Literal["width"] | None = None
    """n: each latent, behind its norm, times sqrt(n / its features), so that what is made of it varies as if it were made of
    n features, `width` of D (LongCat-Flash's scale correction, arXiv 2509.01322)."""
    queries_from: Literal["normed", "both"] = "normed"
    """What W_uq and W_qr read: the queries' latent behind its norm, or [behind, before] it, 2 Q features (A.X K2)."""
    gate_from: Literal["input", "queries"] = "input"
    """What the gate reads: the layer's input, or what queries are made of (A.X K2)."""
    sink: Literal["head"] | None = None
    """One more score per head, which takes part in its softmax and has no value (Hy4)."""
    choice: KeyChoice | None = None
    """A choice of keys per query, by index scores that its latent gives (DeepSeek sparse attention)."""

    @model_validator(mode="after")
    def _keeps_what_it_chooses_from(self) -> LatentHeads:
        if self.choice is not None and self.mask.window is not None:
            raise ValueError("a choice of keys needs all of the past: leave the window out of the mask, or choice out")
        return self

    @model_validator(mode="after")
    def _has_what_it_reads(self) -> LatentHeads:
        if self.queries_from == "both" and (self.q_rank is None or self.norm is None):
            raise ValueError("queries_from = 'both' reads the queries' latent behind and before its norm: set q_rank and norm")
        if self.gate_from == "queries" and (self.q_rank is None or self.gate is None):
            raise ValueError("gate_from = 'queries' is a gate by the queries' latent: set gate and q_rank")
        return self

    def check(self, width: int) -> None:
        if self.rope_norm is not None:
            self.rope_norm.check(self.rope_width)
        if self.rotary is not None:
            self.rotary.rotated(self.rope_width)
        if self.choice is not None:
            self.choice.check(width)

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return (self.heads,)

    @property
    def query_width(self) -> int:
        """E."""
        return self.nope_width + self.rope_width

    def query_inputs(self, width: int) -> int:
        """The features that queries are made of."""
        return (self.q_rank or width) * (2 if self.queries_from == "both" else 1)

    def gate_inputs(self, width: int) -> int:
        """The features that the gate reads."""
        return self.query_inputs(width) if self.gate_from == "queries" else width

    @property
    def scale_of_scores(self) -> float:
        """The factor of the scores; E^-0.5 by default."""
        return self.query_width**-0.5 if self.scale is None else self.scale

    def factor(self, features: int, width: int) -> float:
        """The factor of a latent of so many features."""
        aligned = self.aligned_width(width)
        return 1.0 if aligned is None else float((aligned / features) ** 0.5)

    def aligned_width(self, width: int) -> int | None:
        """The features that latents are aligned to; None if they are not."""
        return width if self.aligned_to == "width" else self.aligned_to

    @property
    def index_width(self) -> int:
        """Features of an index key; 0 without any."""
        return 0 if self.choice is None else self.choice.index_width

    @property
    def reports_index(self) -> bool:
        return self.index_width > 0

    @property
    def remembered(self) -> int:
        """Numbers per position in the decode state."""
        return self.kv_rank + self.rope_width + self.index_width

    @property
    def reads(self) -> tuple[Read, ...]:
        return () if self.choice is None else self.choice.reads

    @property
    def leaves(self) -> Mapping[str, int]:
        return {} if self.choice is None else self.choice.leaves

    def sparse(self, keys: int, plan: Plan) -> bool:
        """Whether a call with so many keys gathers those that a query chooses; attention written out masks the others."""
        return self.choice is not None and keys > self.choice.keep and plan.attention != "plain"

    def absorbed(self, shape: Shape, plan: Plan) -> bool:
        """Whether a call uses the absorbed form, whose keys and values are the latents, P wide."""
        return (shape.length == 1 and shape.past > 0) or self.sparse(shape.keys, plan)

    def resolved(self, width: int) -> Self:
        return self.but(scale=self.scale_of_scores, aligned_to=self.aligned_width(width))

    def scaled_as(self, base: Sublayer, width: int, base_width: int) -> Self:
        assert isinstance(base, LatentHeads), "the same sublayer at another width"
        return self.but(aligned_to=base_width) if base.aligned_to == "width" else self

    @property
    def traits(self) -> Traits:
        techniques = {
            "latent norm": self.norm,
            "key norm": self.rope_norm,
            "sinks": self.sink,
            "output gate": self.gate,
            "query temperature": self.temperature,
        }
        stability = tuple(name for name, part in techniques.items() if part is not None)
        return Traits("MLA", "NoPE" if self.rotary is None else "RoPE", stability=stability)

    @property
    def masks(self) -> tuple[Mask, ...]:
        return (self.mask,)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that this attention breaks by its mathematics."""
        return (*self.mask.limits, *(self.rotary.limits if self.rotary else ()))

    def watchable(self, width: int) -> Watchables:
        H, U = self.heads, self.value_width
        return {
            "query": value("BTHE", "queries, the features that carry no position before the others", H=H, E=self.query_width),
            "latent": value("BTP", "the latent of keys and values", P=self.kv_rank),
            "rope_key": value("BTR", "the key that is turned, of all heads", R=self.rope_width),
            **pairs_seen(H),
            **heads_seen((H, U), (H, U), width),
        }

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> FullState | RingState:
        """B * min(window, C) * (P + R) elements, whatever the number of heads, and index keys where it has some."""
        import torch

        from anyformer.parts.call.annotated_state import AnnotatedState
        from anyformer.parts.call.ring_state import empty_keys_and_values

        kept = self.mask.cache_length(capacity)
        state = empty_keys_and_values(batch, 1, (self.kv_rank, self.rope_width), kept, capacity, dtype, device)
        if not self.index_width:
            return state
        index = torch.zeros(batch, 1, kept, self.index_width, dtype=dtype, device=device)
        return AnnotatedState(state.key, state.value, index)
