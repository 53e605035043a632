"""The base description of compressed attention: widths, what is compressed and chosen, and the decode state."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from anyformer.describe import Count, Positive
from anyformer.operations import Limit, Shape, Watchables, value
from anyformer.parts.attention.compressor import Compressor
from anyformer.parts.attention.entry_indexer import EntryIndexer
from anyformer.parts.attention.grouped_output import GroupedOutput
from anyformer.parts.attention.named_values import pairs_seen
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.simple import Window
from anyformer.parts.norms.norm import Norm
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.entry_state import CompressedState


class CompressedHeads(Sublayer):
    """The base of compressed attention: all but its weights and operations."""

    heads: Count
    """H."""
    head_width: Count
    """E, features of a query, and of the one key of each position, which is its value too."""
    window: Count = 128
    """The latest positions that a query sees as they are, its own included."""
    q_rank: Count | None = None
    """Features of the queries' latent; None projects queries directly."""
    norm: Norm | None = None
    """Norm of the queries' latent and of the keys."""
    head_norm: Norm | None = None
    """Norm of each query head."""
    rotary: Rotary | None = None
    """Rotation of queries, keys and entries; the mixed values are rotated back."""
    sink: Literal["head"] | None = None
    """`head`: a learned logit per head that takes part in the softmax and has no value."""
    scale: Positive | None = None
    """Factor of the scores; E^-0.5 by default."""
    compressor: Compressor | None = None
    """What makes entries of blocks of positions; without it there is the window alone."""
    choice: EntryIndexer | None = None
    """A choice of entries per query; without it a query sees the entries of all blocks that it has passed."""
    output: GroupedOutput | None = None
    """An output projection in two steps; None: one matrix."""

    @model_validator(mode="after")
    def _chooses_of_something(self) -> CompressedHeads:
        if self.choice is not None and self.compressor is None:
            raise ValueError("a choice of entries needs a compressor that makes some: give one, or leave choice out")
        return self

    def check(self, width: int) -> None:
        E = self.head_width
        if self.rotary is not None:
            self.rotary.rotated(E)
        for norm, features in ((self.norm, E), (self.norm, self.q_rank or E), (self.head_norm, E)):
            if norm is not None:
                norm.check(features)
        if self.compressor is not None:
            self.compressor.check(E)
            if self.choice is not None:
                self.choice.check(self.compressor)
        if self.output is not None:
            self.output.check(self.heads)

    def resolved(self, width: int) -> Self:
        return self.but(scale=self.scale_of_scores)

    @property
    def mask(self) -> Mask:
        """Of the keys that are not compressed."""
        return Window(size=self.window)

    @property
    def masks(self) -> tuple[Mask, ...]:
        return (self.mask,)

    @property
    def scale_of_scores(self) -> float:
        """The factor of the scores."""
        return self.head_width**-0.5 if self.scale is None else self.scale

    @property
    def traits(self) -> Traits:
        techniques = {"latent norm": self.norm, "QK-norm": self.head_norm}
        stability = tuple(name for name, part in techniques.items() if part is not None)
        mixing = "MQA" if self.compressor is None else "HCA" if self.choice is None else "CSA"
        return Traits(mixing, "NoPE" if self.rotary is None else "RoPE", stability=stability)

    @property
    def reports_index(self) -> bool:
        return self.choice is not None

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that this attention breaks by its mathematics."""
        return (*self.mask.limits, *(self.rotary.limits if self.rotary else ()))

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return (self.heads,) if self.output is None else (self.heads, self.output.groups)

    def narrowed(self, width: int, ways: int) -> Self | None:
        # The loss of an index needs the attention weights of all heads.
        if self.choice is not None or any(count % ways for count in self.tp_divisors):
            return None
        output = None if self.output is None else self.output.but(groups=self.output.groups // ways)
        return self.but(heads=self.heads // ways, output=output)

    def gathers(self, width: int) -> int | None:
        # Entries are of the positions of the row, in order.
        return None

    def entries(self, keys: int) -> int:
        """n, entries of so many positions."""
        return 0 if self.compressor is None else self.compressor.entries(keys)

    def picked(self, keys: int, entries: int) -> int:
        """The most keys and entries that a query may see, of so many."""
        kept = entries if self.choice is None else min(self.choice.keep, entries)
        return min(self.window, keys) + kept

    def sparse(self, keys: int, entries: int, plan: Plan) -> bool:
        """Whether a call gathers what a query sees; attention written out masks the others."""
        return self.picked(keys, entries) < keys + entries and plan.attention != "plain"

    def pairs(self, shape: Shape, plan: Plan) -> tuple[int, int]:
        """Pairs of a query with a key or an entry, of one head of a row: computed, and allowed."""
        keys = min(shape.keys, self.window) if shape.length == 1 and shape.past else shape.keys
        entries, most = self.entries(shape.keys), None if self.choice is None else self.choice.keep
        each = self.picked(keys, entries) if self.sparse(keys, entries, plan) else keys + entries
        seen = 0 if self.compressor is None else self.compressor.seen(shape, most)
        return shape.length * each, self.mask.pairs(shape) + seen

    def numbers(self, capacity: int) -> int:
        """Numbers of one row in the decode state."""
        made = () if self.compressor is None else (self.compressor.held(each, capacity) for each in self.widths.values())
        return self.head_width * self.mask.cache_length(capacity) + sum(made)

    @property
    def widths(self) -> dict[str, int]:
        """The features of the entries of each compressor."""
        made = {} if self.compressor is None else {"compressor": self.head_width}
        return made if self.choice is None else {**made, "choice": self.choice.head_width}

    def watchable(self, width: int) -> Watchables:
        heads = value("BTHE", "queries", H=self.heads, E=self.head_width)
        return {
            "query": heads,
            "key": value("BTE", "the keys of positions, which are their values", E=self.head_width),
            **pairs_seen(self.heads),
            "mixed": replace(heads, about="the values that each head mixed, of positions and of entries behind them"),
            "heads": replace(heads, about="the heads that the output reads, turned back"),
        }

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> CompressedState:
        """B * (min(window, C) * E + (C // m + 1) * E + tail) elements: keys are values, and entries are few."""
        from anyformer.parts.call.entry_state import CompressedState
        from anyformer.parts.call.ring_state import empty_keys_and_values

        kept, made = self.mask.cache_length(capacity), self.compressor
        window = empty_keys_and_values(batch, 1, (self.head_width, 0), kept, capacity, dtype, device)
        entries = {} if made is None else {
            name: made.state(features, batch, capacity, dtype, device) for name, features in self.widths.items()
        }  # fmt: skip
        return CompressedState(window, entries)
