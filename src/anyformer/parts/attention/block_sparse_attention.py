"""Block-sparse attention: each query over some blocks of keys, chosen for each head or each head of keys."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import BeforeValidator, model_validator
from torch import Tensor

from anyformer.describe import with_kind
from anyformer.operations import Shape, StateBytes, Tally, total
from anyformer.parts.attention.attend_chosen import attend_chosen
from anyformer.parts.attention.attend_chosen_blocks import attend_chosen_blocks
from anyformer.parts.attention.attention_module import AttentionModule
from anyformer.parts.attention.block_choice import BlockChoice
from anyformer.parts.attention.chosen_blocks import ChosenBlocks, places
from anyformer.parts.attention.self_attention import SelfAttention
from anyformer.parts.call.context import Context, Memory, Visible
from anyformer.parts.call.ring_state import empty_keys_and_values
from anyformer.parts.call.state import FullState
from anyformer.parts.masks.simple import Causal
from anyformer.plan import Plan

UNLIKE = ("keys_from", "virtual_tokens", "score_bias", "forget", "softcap", "sink", "weights", "convolution", "joined")
"""Fields of other attentions that it refuses."""


class BlockSparseAttention(SelfAttention):
    """Self-attention over the keys of the blocks that `choice` picks for each query and head, or head of keys.

    softmax(q k^T * scale over the chosen keys up to t) v, (B, T, D) -> (B, T, D). Beyond n * b keys, time and memory grow with
    the chosen ones alone; the choice itself scores every key with one small head (`BlockIndexer`: MiniMax-M3 2026), or the mean
    key of every block (`MeanKeys`: MoBA, arXiv 2502.13189). The others are masked instead where rows have several documents,
    and where weights are dropped.
    """

    kind: Literal["block_sparse_attention"] = "block_sparse_attention"
    choice: Annotated[BlockChoice, BeforeValidator(with_kind("block_indexer"))]
    """How blocks are chosen; a table without a kind describes a `BlockIndexer`."""

    @model_validator(mode="after")
    def _chooses_from_all(self) -> BlockSparseAttention:
        if not isinstance(self.mask, Causal):
            raise ValueError(f"a choice of blocks needs all of the past: leave the mask {self.mask.kind!r} out")
        given = [name for name in UNLIKE if getattr(self, name)]
        if given:
            raise ValueError(f"blocks are chosen of the layer's own keys, by plain scores: leave {' and '.join(given)} out")
        return self

    def check(self, width: int) -> None:
        super().check(width)
        self.choice.check(width)

    @property
    def title(self) -> str:
        return "Block-sparse attention"

    @property
    def facts(self) -> tuple[str, ...]:
        return (*super().facts, f"best {self.choice.keep} blocks of {self.choice.block}")

    @property
    def reports_index(self) -> bool:
        return self.choice.learns

    def gathers(self, width: int) -> int | None:
        return None

    def sparse(self, keys: int, plan: Plan) -> bool:
        """Whether a call with so many keys leaves out those that are not chosen; attention written out masks them."""
        return self.choice.blocks(keys) > self.choice.keep and plan.attention != "plain"

    def build(self, width: int, plan: Plan, name: str) -> BlockSparseAttentionModule:
        return BlockSparseAttentionModule(self, width, plan, name)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        parts = super().cost(width, shape, plan).without("state")
        E, U, K = self.width_of_head(width), self.width_of_value(width), self.groups
        number_bytes, mask = shape.batch * plan.activation_bytes, self.mask
        held = number_bytes * (K * (E + U) * shape.cache_length + self.choice.held(K, E, shape.cache_length))
        chosen = self.choice.choosing(self.heads, K) * (E + U) * self._seen(shape)
        read = number_bytes * (chosen + self.choice.read(K, E, mask, shape))
        choice = total({"choice": self.choice.cost(width, self.heads, K, E, mask, shape)})
        return parts + choice + Tally(own_state=StateBytes.of(shape, held, read))

    def pairs(self, shape: Shape, plan: Plan) -> tuple[int, int]:
        keys = self.choice.most if self.sparse(shape.keys, plan) else shape.keys
        return shape.length * keys, self._seen(shape)

    def _seen(self, shape: Shape) -> int:
        """Allowed pairs of one row: of each query no more than what it chooses, of which its own block ends with it."""
        size, most = self.choice.block, self.choice.most

        def of_first(queries: int) -> int:
            start, later = min(queries, most), max(queries - most, 0)
            whole, rest = divmod(later, size)
            return start * (start + 1) // 2 + later * (most - size) + whole * size * (size + 1) // 2 + rest * (rest + 1) // 2

        return of_first(shape.past + shape.length) - of_first(shape.past)

    def state(self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device) -> FullState:
        """B * C * K * (E + U) elements, and what the choice holds beside them."""
        features = self.width_of_head(width), self.width_of_value(width)
        state = empty_keys_and_values(batch, self.groups, features, capacity, capacity, dtype, device)
        assert isinstance(state, FullState), "a ring holds fewer positions than its capacity"
        return self.choice.state(state, capacity)


class BlockSparseAttentionModule(AttentionModule):
    """(B, T, D) -> (B, T, D)."""

    attention: BlockSparseAttention

    def __init__(self, attention: BlockSparseAttention, width: int, plan: Plan, name: str) -> None:
        super().__init__(attention, width, plan, name)
        self.choice = attention.choice.build(width, attention.groups, name)

    def forward(self, x_BTD: Tensor, context: Context, state: FullState | None = None) -> Tensor:  # type: ignore[override]
        q_BHTE = self.placed(self.queries(x_BTD, context), context)
        memory, own_BTKU = self.remember(x_BTD, context, state)
        visible, size = self.visible(x_BTD, context, memory.keys), self.attention.choice.block
        where = context.once(("blocks of keys", size, memory.keys.label), lambda: places(context, memory.keys, size))
        chosen = self.choice(x_BTD, q_BHTE, memory, visible, where, state, context)
        sparse = self.attention.sparse(chosen.keys, self.plan) and not where.documents and not self.drops
        reports = self.attention.choice.learns and context.auxiliary is not None
        if not sparse and not reports:
            return self._masked(x_BTD, q_BHTE, memory, visible, chosen, context, own_BTKU)
        of = self._of_blocks if sparse else self._of_all
        mixed, share = of(q_BHTE, memory, visible, chosen, context)
        if reports:
            self.choice.report(chosen, share, context)
        if self.drops:
            return self._masked(x_BTD, q_BHTE, memory, visible, chosen, context, own_BTKU)
        return self.finished(x_BTD, mixed, context, own_BTKU)

    def _of_all(
        self, q_BHTE: Tensor, memory: Memory, visible: Visible, chosen: ChosenBlocks, context: Context
    ) -> tuple[Tensor, Tensor]:
        """As `_of_blocks`, by attention to all keys, of which those of other blocks are masked."""
        chosen, q_BKTGE, _ = self._by_groups(q_BHTE, chosen, context)
        some = visible if chosen.everything else visible.narrowed(chosen.dense())
        mixed, share = self._of_groups(q_BKTGE, memory, None, some.dense(q_BKTGE.shape[2], q_BHTE.device))
        return self._by_heads(mixed, q_BHTE.shape[2]), chosen.summed_of_all(share)

    def _of_blocks(
        self, q_BHTE: Tensor, memory: Memory, visible: Visible, chosen: ChosenBlocks, context: Context
    ) -> tuple[Tensor, Tensor]:
        """Attention to the chosen blocks, (B, H, T, U), and the share of each, (B, T, K, n): by blocks on a processor, where
        there are many queries; else of keys that are gathered."""
        T, at_key = q_BHTE.shape[2], memory.keys.positions.expand(len(q_BHTE), -1)
        chosen, q_BKTGE, at_query = self._by_groups(q_BHTE, chosen, context)
        if q_BHTE.device.type != "cpu" or T == 1:
            mixed, share = self._of_groups(q_BKTGE, memory, *chosen.indices(at_query, at_key))
            return self._by_heads(mixed, T), chosen.summed(share)
        k, v = (x.to(q_BHTE.dtype) for x in (memory.key, memory.value))
        mixed, share = attend_chosen_blocks(
            q_BKTGE, k, v, torch.where(chosen.allowed, chosen.numbers, -1), chosen.places.slots, at_query, at_key,
            size=chosen.size, scale=self.scale,
        )  # fmt: skip
        return self._by_heads(mixed, T), share

    def _by_groups(self, q_BHTE: Tensor, chosen: ChosenBlocks, context: Context) -> tuple[ChosenBlocks, Tensor, Tensor]:
        """The choice, queries and their positions by heads of keys: R heads of one that choose by themselves are R * T queries
        of it, (B, R * T, K, n), (B, K, R * T, H / (K * R), E) and (B, R * T)."""
        K, R = self.attention.groups, chosen.numbers.shape[2] // self.attention.groups
        q_BKTGE = torch.unflatten(q_BHTE, 1, (K, R, -1)).transpose(3, 4).flatten(2, 3)
        return chosen.by_groups(K), q_BKTGE, context.positions.expand(len(q_BHTE), -1).repeat(1, R)

    def _by_heads(self, mixed_BKTGU: Tensor, queries: int) -> Tensor:
        """(B, K, R * T, H / (K * R), U) -> (B, H, T, U)."""
        return torch.unflatten(mixed_BKTGU, 2, (-1, queries)).transpose(3, 4).flatten(1, 3)

    def _of_groups(
        self, q_BKTGE: Tensor, memory: Memory, at_BKTm: Tensor | None, seen_BKTm: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Attention of each head of keys and its queries by themselves, (B, K, T, G, U), and the mean over these queries of the
        weights of the keys at `at`, or of all S, (B, K, T, m)."""
        B, K, T = q_BKTGE.shape[:3]
        each = [None if x is None else x.expand(B, K, T, -1).flatten(0, 1) for x in (at_BKTm, seen_BKTm)]
        q = q_BKTGE.flatten(0, 1)
        k, v = (x.to(q.dtype).flatten(0, 1)[:, :, None] for x in (memory.key, memory.value))
        plain = self.plan.attention == "plain"
        mixed, share = attend_chosen(q, k, v, *each, scale=self.scale, plain=plain)
        mixed, share = (torch.unflatten(x, 0, (B, K)) for x in (mixed, share))
        return mixed, share

    def _masked(
        self, x_BTD: Tensor, q_BHTE: Tensor, memory: Memory, visible: Visible, chosen: ChosenBlocks, context: Context,
        own_BTKU: Tensor,
    ) -> Tensor:  # fmt: skip
        """The layer's output by the kernel of all keys, of which those of other blocks are masked."""
        if not chosen.everything:
            kept_BKTS = chosen.dense()
            visible = visible.narrowed(kept_BKTS.repeat_interleave(q_BHTE.shape[1] // kept_BKTS.shape[1], 1))
        return self.mix(x_BTD, q_BHTE, memory.key, memory.value, visible, context, None, own_BTKU)
