"""What mixture of block attention computes: mean keys of blocks, and the choice by them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.attention.chosen_blocks import ChosenBlocks, Places
from anyformer.parts.attention.chosen_keys import blocks as some_at_a_time
from anyformer.parts.attention.mean_keys import MeanKeys
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.call.block_state import BlockState
from anyformer.parts.call.context import Memory
from anyformer.parts.call.state import EMPTY


@torch.no_grad()
def chosen(part: MeanKeys, q_BHTE: Tensor, memory: Memory, where: Places, call: AttentionCall) -> ChosenBlocks:
    """The blocks of each query and head, by the means that the state holds or that are made of all keys."""
    state, positions, S = call.state, call.context.positions, memory.key.shape[2]
    if state is None or where.slots is None:
        means = mean_keys(memory.key, where, part.block)
    if state is not None:
        assert isinstance(state, BlockState), "as the choice made it"
        if where.slots is None:
            numbers = torch.arange(where.count, device=q_BHTE.device).expand(len(q_BHTE), -1)
            state.write(means, numbers, (numbers + 1) * part.block <= S)
        else:
            state.write(*touched(memory.key, where.slots, positions, part.block))
            means = state.means[:, :, : where.count]
    scores, numbers = choose(q_BHTE, means.to(q_BHTE.dtype), where, positions, part.block, part.keep)
    return ChosenBlocks(numbers, scores, where, part.block, S)


def mean_keys(k_BKSE: Tensor, where: Places, size: int) -> Tensor:
    """The mean key of each whole block, (B, K, count, E); of others something smaller, which is no query's earlier block."""
    B, K, S, E = k_BKSE.shape
    if where.of_key is None:
        blocks = torch.unflatten(F.pad(k_BKSE, (0, 0, 0, where.count * size - S)), 2, (-1, size))
        return blocks.float().mean(3).to(k_BKSE.dtype)
    sums = k_BKSE.new_zeros((B, K, where.count + 1, E), dtype=torch.float32)
    sums.scatter_add_(2, where.of_key[:, None, :, None].expand(B, K, S, E), k_BKSE.float())
    return (sums[:, :, :-1] / size).to(k_BKSE.dtype)


def touched(k_BKSE: Tensor, slots: Tensor, at_query: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """The mean keys (B, K, n, E), the numbers and which are whole, (B, n), of the blocks that hold this call's positions."""
    (B, K, S, E), T = k_BKSE.shape, at_query.shape[1]
    table = torch.unflatten(F.pad(slots, (0, size), value=S), 1, (-1, size))
    first = at_query.masked_fill(at_query == EMPTY, torch.iinfo(at_query.dtype).max).amin(1, keepdim=True) // size
    steps = torch.arange((T + size - 2) // size + 1, device=slots.device)
    # What no block has any more is the last of the table, which has no slots.
    numbers = (first.clamp(max=table.shape[1] - 1) + steps).clamp(max=table.shape[1] - 1).expand(B, -1)
    at = table.expand(B, -1, -1).gather(1, numbers[..., None].expand(-1, -1, size))
    whole = (at < S).all(-1)
    each = at.clamp(max=S - 1).flatten(1)[:, None, :, None].expand(B, K, -1, E)
    means = torch.unflatten(k_BKSE.gather(2, each), 2, (-1, size)).float().mean(3)
    return means, numbers, whole


def choose(q_BHTE: Tensor, means_BKnE: Tensor, where: Places, at_query: Tensor, size: int, keep: int) -> tuple[Tensor, Tensor]:
    """The scores and numbers of at most `keep` blocks of each query and head, (B, T, H, keep): its own, of score infinity, and
    the best before it in its document; -inf for none."""
    (B, H, T, _), (K, n) = q_BHTE.shape, means_BKnE.shape[1:3]
    own, at_query, block = where.of_query.expand(B, -1), at_query.expand(B, -1), torch.arange(n, device=q_BHTE.device)
    scores, numbers = [], []
    for rows in some_at_a_time(T, B * H * n, whole=q_BHTE.is_meta):
        some = torch.unflatten(q_BHTE[:, :, rows], 1, (K, -1)).flatten(2, 3)
        raw = (some @ means_BKnE.mT).float().view(B, H, -1, n).transpose(1, 2)
        at = at_query[:, rows, None]
        back = own[:, rows, None] - block
        # Blocks of a document have numbers one after the other.
        seen = (back >= 0) & (back <= at // size) & (at != EMPTY)
        raw = raw.masked_fill(~seen[:, :, None], float("-inf")).masked_fill((seen & (back == 0))[:, :, None], float("inf"))
        best = raw.topk(min(keep, n), sorted=False)
        scores.append(best.values)
        numbers.append(best.indices)
    return torch.cat(scores, 1), torch.cat(numbers, 1)
