"""What an indexer of pooled keys computes: index queries and keys, mean keys of blocks, and the choice by them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.attention.chosen_blocks import ChosenBlocks, Places
from anyformer.parts.attention.chosen_keys import blocks as some_at_a_time
from anyformer.parts.attention.index_loss import index_loss
from anyformer.parts.attention.indexed_blocks_module import IndexedBlocksModule, all_keys
from anyformer.parts.attention.pooled_indexer import PooledIndexer
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.call.context import Context, Memory
from anyformer.parts.call.state import EMPTY
from anyformer.parts.positions.rotary_module import rotate, table


@dataclass(frozen=True)
class SomeBlocks(ChosenBlocks):
    """Blocks of which some are left out, even where as many could be chosen as there are."""

    @property
    def everything(self) -> bool:
        return False


class PooledIndexerModule(IndexedBlocksModule):
    """(B, T, D) -> index queries (B, T, J, E) and index keys (B, T, E), which are pooled where they are chosen by."""

    def __init__(self, indexer: PooledIndexer, width: int) -> None:
        super().__init__(indexer, width, indexer.heads)

    def forward(self, x_BTD: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        return self.asking(x_BTD, context), self.key(x_BTD)

    def pooled(self, k_BSE: Tensor, where: Places, positions_BS: Tensor) -> Tensor:
        """The mean key of each whole block, normed and rotated, (B, n, E); of others something that is no whole block's."""
        means_BnE = self.key_norm(_means(k_BSE, where, self.indexer.block))
        if self.rotary is None:
            return means_BnE  # type: ignore[no-any-return]
        starts = _starts(where, positions_BS.expand(len(k_BSE), -1), self.indexer.block)
        turned = table(self.rotary.value, starts, means_BnE.shape[-1], means_BnE.dtype)
        return rotate(self.rotary.value, means_BnE[:, :, None], turned)[:, :, 0]


def _means(k_BSE: Tensor, where: Places, size: int) -> Tensor:
    B, S, E = k_BSE.shape
    if where.of_key is None:
        padded = F.pad(k_BSE, (0, 0, 0, where.count * size - S))
        return torch.unflatten(padded, 1, (-1, size)).float().mean(2).to(k_BSE.dtype)
    sums = torch.zeros((B, where.count + 1, E), dtype=torch.float32, device=k_BSE.device)
    sums = sums.scatter_add(1, where.of_key.expand(B, S)[..., None].expand(B, S, E), k_BSE.float())
    return (sums[:, :-1] / size).to(k_BSE.dtype)


def _starts(where: Places, positions_BS: Tensor, size: int) -> Tensor:
    """The position at which each block begins in its row or document, (1 or B, n)."""
    if not where.documents:
        return (torch.arange(where.count, device=positions_BS.device) * size)[None]
    assert where.of_key is not None, "documents have numbers of blocks"
    starts = positions_BS.new_zeros((len(positions_BS), where.count + 1))
    first = positions_BS.clamp(min=0) // size * size
    return starts.scatter(1, where.of_key.expand_as(positions_BS), first)[:, :-1]


def chosen(part: PooledIndexer, memory: Memory, where: Places, call: AttentionCall) -> ChosenBlocks:
    """The blocks of each query, the same for every head of keys."""
    module: PooledIndexerModule = call.built("choice")
    q_BTJE, k_BSE = module(call.x.detach(), call.context)
    pooled_BnE = module.pooled(all_keys(k_BSE, call).to(q_BTJE.dtype), where, memory.keys.positions)
    scores_BTn = index_scores(q_BTJE, pooled_BnE)
    best, numbers = choose(scores_BTn, where, call.context.positions, part.block, part.keep)
    groups = memory.key.shape[1]
    each = [x[:, :, None].expand(-1, -1, groups, -1) for x in (numbers, best)]
    made = ChosenBlocks if where.count <= part.keep else SomeBlocks
    return made(each[0], each[1], where, part.block, memory.key.shape[2])


def index_scores(q_BTJE: Tensor, k_BnE: Tensor) -> Tensor:
    """E^-0.5 sum_j relu(q_j . k), some queries at a time: (B, T, n) in fp32."""
    (B, T, J, E), n = q_BTJE.shape, k_BnE.shape[1]
    found = []
    for rows in some_at_a_time(T, B * J * n, whole=q_BTJE.is_meta):
        raw = (q_BTJE[:, rows].flatten(1, 2) @ k_BnE.mT).float()
        found.append(torch.unflatten(raw, 1, (-1, J)).relu().sum(2))
    scale: float = E**-0.5
    return torch.cat(found, 1) * scale


def choose(scores_BTn: Tensor, where: Places, at_query: Tensor, size: int, keep: int) -> tuple[Tensor, Tensor]:
    """The scores and numbers of the best `keep` whole blocks of each query, and of its own of score infinity if that is not
    whole, (B, T, min(keep + 1, n)); -inf for none."""
    B, _, n = scores_BTn.shape
    own, at = (x.expand(B, -1)[..., None] for x in (where.of_query, at_query))
    back = own - torch.arange(n, device=scores_BTn.device)
    # Blocks of a document have numbers one after the other.
    seen = (back >= 0) & (back <= at.clamp(min=0) // size) & (at != EMPTY)
    unfinished = (at + 1) % size != 0
    ranked = scores_BTn.masked_fill(~seen, float("-inf")).masked_fill(seen & (back == 0) & unfinished, float("inf"))
    # Of equal scores, as of blocks that no head of a query likes, the later block, however many there are.
    ordered = ranked.flip(-1).sort(dim=-1, descending=True, stable=True)
    best, numbers = ordered.values[..., : keep + 1], n - 1 - ordered.indices[..., : keep + 1]
    if n > keep:
        # A query whose own block is whole has no more than `keep`.
        last = torch.arange(keep + 1, device=scores_BTn.device) == keep
        best = best.masked_fill(last & ~unfinished, float("-inf"))
    return best, numbers


def loss(chosen: ChosenBlocks, share_BTKn: Tensor) -> Tensor:
    """KL(p || softmax(I)) over the chosen whole blocks, (B, T), the mean over heads of keys; 0 where there are none."""
    whole = chosen.allowed & (chosen.scores < float("inf"))
    scores = chosen.scores.masked_fill(~whole, torch.finfo(torch.float32).min)
    share = share_BTKn.masked_fill(~whole, 0)
    share = share / share.sum(-1, keepdim=True).clamp(min=torch.finfo(share.dtype).tiny)
    return index_loss(scores, whole, share).mean(-1)
