"""Context: the run-time facts of one forward through one stack, and what layers share of it.

Positions, padding, document boundaries and prefix lengths are data of a call, not of the description. Masks and rotary
tables that several layers need are computed once per forward and kept here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_leaves

from anyformer.describe import Value
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.call.state import EMPTY, Chunk, Keys
from anyformer.parts.masks.band import Band, band_of
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.simple import Causal
from anyformer.parts.positions.rotary import Rotary
from anyformer.plan import Plan

R = TypeVar("R")
V = TypeVar("V", bound=Value)


@dataclass(frozen=True)
class Labelled(Generic[V]):
    """A description and its digest, taken once at build time: layers with equal descriptions share what is computed from them.

    (A compiler can trace a comparison of strings, not the hash of a description.)
    """

    value: V
    label: str

    @staticmethod
    def of(value: V) -> Labelled[V]:
        return Labelled(value, value.digest)


_CAUSAL = Causal().digest


@dataclass(frozen=True)
class Visible:
    """What each query may see: everything, or where `allowed`, bool (B or 1, 1, T or 1, S), is true.

    `causal`: the lower triangle of a square, which kernels know by themselves; only who needs it writes it out (`over`).
    `band`: `allowed` is that of each block of the band over its keys, bool (B or 1, n, size, keys).
    """

    allowed: Tensor | None = None
    causal: bool = False
    band: Band | None = None

    def over(self, length: int, device: torch.device) -> Tensor | None:
        """`allowed` of T queries, written out; None where everything is visible."""
        if not self.causal:
            return self.allowed
        return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]

    def after(self, count: int, length: int, device: torch.device) -> Visible:
        """The same for T queries with `count` keys in front that every query sees."""
        allowed = self.over(length, device)
        return self if allowed is None else Visible(F.pad(allowed, (count, 0), value=True))


@dataclass(frozen=True)
class Memory:
    """What a self-attention layer looks at: keys and values (B, K, S, E) and where they stand."""

    key: Tensor
    value: Tensor
    keys: Keys


@dataclass
class Context:
    """One call's facts. `positions` (B or 1, T) count from 0 within a row (or a document) and are EMPTY on padding."""

    positions: Tensor
    plan: Plan
    aligned: bool = True
    """Every row is positions 0 ... T - 1, with no padding and one document: masks need no batch dimension."""
    padded: bool = True
    """Some positions may be EMPTY."""
    documents: Tensor | None = None
    prefix: Tensor | None = None
    noise: Noise | None = None
    tokens: Tensor | None = None
    """(B, T): what was embedded."""
    auxiliary: Auxiliary | None = None
    """Where expert layers leave penalties and statistics, if the caller wants them."""
    chunk: Chunk | None = None
    source: Tensor | None = None
    source_padding: Tensor | None = None
    relative: Tensor | None = None
    """The stack's table of relative positions (DeBERTa), (2 * span, D)."""
    bias: Callable[[Tensor, Memory, Context, None], Tensor] | None = None
    """The stack's score bias, one for all layers (T5)."""
    variant: str = ""
    """The variant of the layer that is computed now."""
    memories: dict[str, Memory] = field(default_factory=dict)
    """The latest memory of each variant, for layers that share it."""
    _shared: dict[Hashable, Any] = field(default_factory=dict)

    def of_layer(self, reads: Iterable[str]) -> Context:
        """A copy for one computation of one layer, which may be repeated: it shares with others what they give it, `reads`
        (variants whose memories it reads), and what it makes stays in the copy."""
        memories = {variant: self.memories[variant] for variant in reads}
        return replace(self, memories=memories, auxiliary=self.auxiliary and self.auxiliary.apart(), _shared={})

    def once(self, key: Hashable, make: Callable[[], R]) -> R:
        """`make()`, computed at the first call with this key."""
        if key not in self._shared:
            self._shared[key] = make()
        value: R = self._shared[key]
        return value

    @property
    def made(self) -> Iterator[tuple[Hashable, Tensor]]:
        """What `once` has made, tensor by tensor."""
        for key, value in self._shared.items():
            for i, x in enumerate(tree_leaves(value.allowed if isinstance(value, Visible) else value)):
                if isinstance(x, Tensor):
                    yield (key, i), x

    @property
    def keys(self) -> Keys:
        """The keys of self-attention without decode state: the queries' own positions."""
        return Keys(self.positions, "self")

    @property
    def valid(self) -> Tensor | None:
        """Where tokens are not padding, bool (B or 1, T); None where all are."""
        return self.once("valid", lambda: self.positions != EMPTY) if self.padded else None

    @property
    def segments(self) -> Tensor | None:
        """Documents numbered 0, 1, ... as they follow each other in a row, (B, T); None without documents."""
        documents = self.documents
        if documents is None:
            return None
        return self.once("segments", lambda: F.pad((documents[:, 1:] != documents[:, :-1]).cumsum(1), (1, 0)))

    def rotary(self, rotary: Labelled[Rotary], head_width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The cosines and sines of this call's positions."""
        return self.once(
            ("rotary", rotary.label, head_width, dtype),
            lambda: rotary.value.table(self.positions.clamp(min=0), head_width, dtype),
        )

    def score_bias(self, q_BHTE: Tensor, memory: Memory) -> Tensor | None:
        """The stack's score bias over the keys of this memory, computed once for equal keys."""
        bias = self.bias
        return None if bias is None else self.once(("bias", memory.keys.label), lambda: bias(q_BHTE, memory, self, None))

    def visible(self, mask: Labelled[Mask], keys: Keys, *, banded: bool = False) -> Visible:
        """What `mask` lets each query of this call see among `keys`; `banded`: as a band where one holds it."""
        band = self._band(mask.value, keys) if banded else None
        return self.once(("mask", mask.label, keys.label, band is not None), lambda: self._visible(mask, keys, band))

    def visible_source(self) -> Visible:
        """Cross-attention sees every position of the source that is not padding."""
        return Visible() if self.source_padding is None else Visible(~self.source_padding[:, None, None, :])

    def _band(self, mask: Mask, keys: Keys) -> Band | None:
        """The band of this call: distances in a row must be those of the positions within a document, without gaps.

        On the meta device there is none: what is counted there is every pair.
        """
        if self.padded or self.prefix is not None or keys.label != "self" or self.positions.is_meta:
            return None
        return band_of(mask, self.positions.shape[1], aligned=self.aligned)

    def _visible(self, mask: Labelled[Mask], keys: Keys, band: Band | None) -> Visible:
        square = self.aligned and self.prefix is None and self.chunk is None
        if square and mask.label == _CAUSAL:
            return Visible(causal=True)
        if band is not None:
            return Visible(self._banded(mask.value, band), band=band)
        query, key = self.positions[:, :, None], keys.positions[:, None, :]
        prefix: Tensor | int = 0 if self.prefix is None else self.prefix[:, None, None]
        allowed = mask.value.allowed(query, key, prefix)
        if square:
            return Visible(allowed[:, None])
        allowed = allowed & (key != EMPTY)
        if self.documents is not None:
            allowed = allowed & (self.documents[:, :, None] == self.documents[:, None, :])
        # A padding query sees nothing, and a softmax over nothing is NaN: let it see everything; nobody reads its output.
        allowed = allowed | (query == EMPTY)
        return Visible(allowed[:, None])

    def _banded(self, mask: Mask, band: Band) -> Tensor:
        """(B or 1, n, size, keys)."""
        query = band.blocks(self.positions, EMPTY)[..., :, None]
        key = band.surroundings(self.positions, EMPTY)[..., None, :]
        allowed = mask.allowed(query, key, 0) & (key != EMPTY)
        if self.documents is not None:
            of_query, of_key = band.blocks(self.documents), band.surroundings(self.documents)
            allowed = allowed & (of_query[..., :, None] == of_key[..., None, :])
        # As above: what fills the last block up sees everything.
        return allowed | (query == EMPTY)
