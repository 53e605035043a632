"""Context: the data of one call of a stack that its layers read, and the values that they share.

Positions, padding, document boundaries and prefix lengths are data of a call, not of the description. Masks and rotary
tables that several layers need are computed once per call and stored here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.describe import Digested
from anyformer.parts.call.choices import Choices
from anyformer.parts.call.noise import Noise, Span
from anyformer.parts.call.opened import Showing
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.call.shared import Read, Shared, read_only
from anyformer.parts.call.state import EMPTY, ChunkSlots, Keys
from anyformer.parts.masks.band import Band, band_of
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.simple import Causal
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.positions.rotary_module import rotate, table
from anyformer.plan import Plan

R = TypeVar("R")
_CAUSAL = Causal().digest


@dataclass(frozen=True)
class Visible:
    """The keys that a query may see: all of them, or those where `allowed`, bool (B or 1, 1, T or 1, S), is true.

    `causal`: the lower triangle of a square, which kernels know without a mask; `dense` makes it a tensor.
    `band`: `allowed` holds each block of queries against the keys around it, bool (B or 1, n, size, keys).
    """

    allowed: Tensor | None = None
    causal: bool = False
    band: Band | None = None

    def dense(self, length: int, device: torch.device) -> Tensor | None:
        """The mask of T queries as a tensor; None where every key is visible."""
        if not self.causal:
            return self.allowed
        return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]

    def narrowed(self, selected: Tensor) -> Visible:
        """The visible keys that are also `selected`, bool (B or 1, 1, T, S)."""
        assert self.band is None, "a selection of keys is laid out for all pairs, so its layer asks for no band"
        allowed = self.dense(selected.shape[2], selected.device)
        return Visible(selected if allowed is None else allowed & selected)

    def after(self, count: int, length: int, device: torch.device) -> Visible:
        """Visibility for T queries with `count` more keys in front, which every query sees."""
        allowed = self.dense(length, device)
        return self if allowed is None else Visible(F.pad(allowed, (count, 0), value=True))


@dataclass(frozen=True)
class Memory:
    """Keys (B, K, S, E), values (B, K, S, U) and positions of a self-attention layer, which later layers may read."""

    key: Tensor
    value: Tensor
    keys: Keys


@dataclass(frozen=True)
class Share:
    """The positions of a row that one of several processes has: the context of all, and how to get what the others have."""

    whole: Context
    gather: Callable[[Tensor], Tensor]
    """(B, T, ...) of this process's positions -> (B, S, ...) of all."""


@dataclass(frozen=True)
class Context(Showing):
    """The data of one call of a stack; a layer may get a copy with its own variant or noise."""

    positions: Tensor
    """(B or 1, T): counted from 0 within a row, or within a document; EMPTY on padding."""
    plan: Plan
    aligned: bool = True
    """Every row is positions 0 ... T - 1, with no padding and one document: masks need no batch dimension."""
    padded: bool = True
    """Whether some positions may be EMPTY."""
    documents: Tensor | None = None
    prefix: Tensor | None = None
    until: Tensor | None = None
    """(B, T): the last position that a query sees even if its mask does not allow it, such as the end of its image."""
    axes: Tensor | None = None
    """(n, B or 1, T): positions on each of n axes, numbers by which rotary positions turn; None: `positions` on all."""
    added: tuple[Tensor, ...] = ()
    """What is added to the stream behind the first layers, (B, T, D) for each: features of images (deep-stack)."""
    tapped: frozenset[int] = frozenset()
    """Numbers of the layers behind which the stream is left for the caller, as `behind` names it."""
    noise: Noise | None = None
    tokens: Tensor | None = None
    """(B, T): the tokens that were embedded."""
    times: Tensor | None = None
    """(B,): how far each row is between data, 0, and noise, 1, which a stack's condition reads; None: 0."""
    classes: Tensor | None = None
    """(B,): the class of each row, which a condition reads; None: the null class."""
    auxiliary: Auxiliary | None = None
    """The collector of expert layers' reports, if the caller wants them."""
    choices: Choices | None = None
    """The experts that are given for tokens, or noted."""
    chunk: ChunkSlots | None = None
    source: Tensor | None = None
    """(B, S, D): the other sequence, which cross-attention reads; None without one, or if decode state holds it."""
    source_padding: Tensor | None = None
    """(B, S) bool, true on padding."""
    variant: str | None = None
    """The variant of the layer that is computed, if other layers read values of that variant."""
    turn: int = 0
    """Of the layers that share the weights of the one that is computed, how many stand before it."""
    sides: tuple[Tensor, ...] | None = None
    """(B, T, D) each: what keys and values of a step read, where it is not what queries do (`SideInputs`)."""
    shared: Shared = field(default_factory=dict)
    """Values that the stack and its layers have left for later layers."""
    share: Share | None = None
    """Where several processes divide the positions, and this is the context of some of them."""
    _tables: dict[Hashable, Any] = field(default_factory=dict)

    def isolated(self, reads: Iterable[Read]) -> Context:
        """A copy for a layer that may be computed again: it holds what the layer `reads`, and collects what it makes."""
        auxiliary = self.auxiliary and self.auxiliary.emptied()
        return replace(self, shared=read_only(self.shared, reads), auxiliary=auxiliary, _tables={})

    def ahead(self, k: int) -> Context:
        """A copy for the first T - k positions, at which the token k after the next one is predicted."""
        count, documents = self.positions.shape[1] - k, self.documents
        return replace(
            self,
            positions=self.positions[:, :count],
            documents=None if documents is None else documents[:, :count],
            prefix=None,
            until=None if self.until is None else self.until[:, :count],
            axes=None if self.axes is None else self.axes[:, :, :count],
            added=tuple(x[:, :count] for x in self.added),
            tokens=None if self.tokens is None else self.tokens[:, :count],
            auxiliary=self.auxiliary and self.auxiliary.ahead(k, documents),
            shared={},
            _tables={},
        )

    def of_positions(self, numbers: Tensor, gather: Callable[[Tensor], Tensor]) -> Context:
        """A copy for the positions `numbers` (T,) of a row; those beyond its last are padding. `gather`: see `Share`."""
        length = self.positions.shape[1]
        own = numbers.clamp(max=length - 1)
        return replace(
            self,
            positions=torch.where(numbers < length, self.positions[:, own], EMPTY),
            padded=True,
            documents=None if self.documents is None else self.documents[:, own],
            until=None if self.until is None else self.until[:, own],
            axes=None if self.axes is None else self.axes[:, :, own],
            added=tuple(x[:, own] for x in self.added),
            tokens=None if self.tokens is None else self.tokens[:, own],
            noise=None if self.noise is None else replace(self.noise, span=Span(numbers, length)),
            share=Share(self, gather),
            _tables={},
        )

    def of_all_positions(self) -> Context:
        """The context of all positions of the row, for a layer that computes them all."""
        assert self.share is not None, "this is the context of some of them"
        noise = None if self.noise is None else replace(self.noise, span=None)
        tables = self.once("of all positions", dict[Hashable, Any])
        return replace(
            self.share.whole, noise=noise, source=self.source, auxiliary=self.auxiliary, variant=self.variant,
            turn=self.turn, shared=self.shared, _tables=tables,
        )  # fmt: skip

    def chosen(self, name: str, own_ZJ: Tensor) -> Tensor:
        """The experts of each token with which the layer of a module's name goes on, (Z, J), that chose `own`."""
        rows = (-1, self.positions.shape[1])
        given, own_BTJ = self.choices, torch.unflatten(own_ZJ, 0, rows)
        return own_ZJ if given is None else given.taken((name, self.turn), own_BTJ).flatten(0, 1)

    def leave(self, name: str, value: object) -> None:
        """Leave a value for later layers under the name of this variant, or of the stack if `variant` is None."""
        self.shared[self.variant, name] = value

    def once(self, key: Hashable, make: Callable[[], R]) -> R:
        """The result of `make`, computed at the first call with this key."""
        if key not in self._tables:
            self._tables[key] = make()
        value: R = self._tables[key]
        return value

    @property
    def keys(self) -> Keys:
        """The keys of self-attention without decode state: all positions of the row."""
        return Keys(self.positions if self.share is None else self.share.whole.positions, "self")

    def gathered(self, x: Tensor) -> Tensor:
        """x (B, T, ...) at all positions of the row, of which other processes may have some."""
        return x if self.share is None else self.share.gather(x)

    @property
    def valid(self) -> Tensor | None:
        """True at tokens, false at padding, bool (B or 1, T); None without padding."""
        return self.once("valid", lambda: self.positions != EMPTY) if self.padded else None

    @property
    def segments(self) -> Tensor | None:
        """The number of each position's document, 0, 1, ... in the order of its row, (B, T); None without documents."""
        documents = self.documents
        if documents is None:
            return None
        return self.once("segments", lambda: F.pad((documents[:, 1:] != documents[:, :-1]).cumsum(1), (1, 0)))

    def _rotary(self, rotary: Digested[Rotary], head_width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The cosines and sines of this call's positions."""
        key = ("rotary", rotary.digest, head_width, dtype)
        if key not in self._tables:
            last = None if self.share is None else self.share.whole.positions.amax()
            positions = self.positions if self.axes is None or rotary.value.axes is None else self.axes
            # Counted positions are EMPTY on padding; coordinates are real numbers, and may be below 0.
            counted = positions if positions.is_floating_point() else positions.clamp(min=0)
            self._tables[key] = table(rotary.value, counted, head_width, dtype, last)
        found: tuple[Tensor, Tensor] = self._tables[key]
        return found

    def rotated(self, x_BTHE: Tensor, rotary: Digested[Rotary] | None) -> Tensor:
        """Heads rotated by this call's positions; as they are, without rotary positions."""
        if rotary is None:
            return x_BTHE
        return rotate(rotary.value, x_BTHE, self._rotary(rotary, x_BTHE.shape[-1], x_BTHE.dtype))

    def rotated_back(self, x_BTHE: Tensor, rotary: Digested[Rotary] | None) -> Tensor:
        """Heads rotated against this call's positions, so that what `rotated` turned at these stands again as it was."""
        if rotary is None:
            return x_BTHE
        cos, sin = self._rotary(rotary, x_BTHE.shape[-1], x_BTHE.dtype)
        return rotate(rotary.value, x_BTHE, (cos, -sin))

    def visible(self, mask: Digested[Mask], keys: Keys, *, banded: bool = False) -> Visible:
        """The keys that the mask lets each query of this call see; `banded`: as a band, if the mask fits into one."""
        band = self._band(mask.value, keys) if banded else None
        return self.once(("mask", mask.digest, keys.label, band is not None), lambda: self._visible(mask, keys, band))

    def visible_source(self) -> Visible:
        """The keys of cross-attention: every position of the source that is not padding."""
        return Visible() if self.source_padding is None else Visible(~self.source_padding[:, None, None, :])

    def _band(self, mask: Mask, keys: Keys) -> Band | None:
        """The band that holds the mask; None where distances in a row differ from those of the positions within a document.

        None on the meta device too, where every pair is counted.
        """
        special = self.prefix is not None or self.until is not None or self.share is not None
        if self.padded or special or keys.label != "self" or self.positions.is_meta:
            return None
        return band_of(mask, self.positions.shape[1], aligned=self.aligned)

    def _visible(self, mask: Digested[Mask], keys: Keys, band: Band | None) -> Visible:
        square = self.aligned and self.prefix is None and self.until is None and self._is_whole(keys)
        if square and mask.digest == _CAUSAL:
            return Visible(causal=True)
        if band is not None:
            return Visible(self._banded(mask.value, band), band=band)
        query, key = self.positions[:, :, None], keys.positions[:, None, :]
        prefix: Tensor | int = 0 if self.prefix is None else self.prefix[:, None, None]
        allowed = mask.value.allowed(query, key, prefix)
        if square:
            return Visible(allowed[:, None])
        if self.until is not None:
            allowed = allowed | ((key > query) & (key <= self.until[:, :, None]))
        allowed = allowed & (key != EMPTY)
        if self.documents is not None:
            of_keys = self.documents if self.share is None else self.share.whole.documents
            assert of_keys is not None, "some positions of a row have documents if all have"
            allowed = allowed & (self.documents[:, :, None] == of_keys[:, None, :])
        # A padding query sees no key, and a softmax over no key is NaN: let it see all keys; its output is never read.
        allowed = allowed | (query == EMPTY)
        return Visible(allowed[:, None])

    def _is_whole(self, keys: Keys) -> bool:
        """Whether the keys are those of the row that the queries are: a first chunk is as a row without state."""
        return self.share is None and (self.chunk is None or keys.positions.shape[1] == self.positions.shape[1])

    def _banded(self, mask: Mask, band: Band) -> Tensor:
        """The mask of each block of queries over the keys around it: (B or 1, n, size, keys)."""
        query = band.blocks(self.positions, EMPTY)[..., :, None]
        key = band.surroundings(self.positions, EMPTY)[..., None, :]
        allowed = mask.allowed(query, key, 0) & (key != EMPTY)
        if self.documents is not None:
            of_query, of_key = band.blocks(self.documents), band.surroundings(self.documents)
            allowed = allowed & (of_query[..., :, None] == of_key[..., None, :])
        # As above: the padding that fills the last block sees everything.
        return allowed | (query == EMPTY)
