"""Attention over the keys of the blocks that a choice picks per query and head, or head of keys."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.parts.attention.attend_chosen import attend_chosen
from anyformer.parts.attention.attend_chosen_blocks import attend_chosen_blocks
from anyformer.parts.attention.block_choice import BlockChoice
from anyformer.parts.attention.chosen_blocks import ChosenBlocks, places
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.attention.slots_module import AttentionInputs
from anyformer.parts.call.context import Context, Memory, Visible


def attend_choice(choice: BlockChoice, q_BHTE: Tensor, memory: Memory, visible: Visible, call: AttentionCall) -> Tensor:
    """softmax(q k^T * scale over the chosen keys up to t) v, (B, H, T, U).

    Beyond n * b keys, time and memory grow with the chosen ones alone. The others are masked instead where rows have several
    documents, where weights are dropped, and where attention is written out.
    """
    context, own = call.context, call.attention
    where = context.once(
        ("blocks of keys", choice.block, memory.keys.label), lambda: places(context, memory.keys, choice.block)
    )
    chosen = choice.chosen(q_BHTE, memory, visible, where, call)
    sparse = choice.leaves_out(chosen.keys, own.plan) and not where.documents and not own.drops and call.shown is None
    reports = choice.learns and context.auxiliary is not None
    if not sparse and not reports:
        return _masked(q_BHTE, memory, visible, chosen, call)
    of = _of_blocks if sparse else _of_all
    mixed, share = of(q_BHTE, memory, visible, chosen, call)
    if reports:
        choice.report(chosen, share, call)
    return _masked(q_BHTE, memory, visible, chosen, call) if own.drops or call.shown is not None else mixed


def _masked(q_BHTE: Tensor, memory: Memory, visible: Visible, chosen: ChosenBlocks, call: AttentionCall) -> Tensor:
    """By the kernel of all keys, of which those of other blocks are masked."""
    if not chosen.everything:
        kept_BKTS = chosen.dense()
        visible = visible.narrowed(kept_BKTS.repeat_interleave(q_BHTE.shape[1] // kept_BKTS.shape[1], 1))
    k, v = (x.to(q_BHTE.dtype) for x in (memory.key, memory.value))
    mixed: Tensor = call.attention.heads.weigh.attended(AttentionInputs(q_BHTE, k, v, visible), call)
    return mixed


def _of_all(
    q_BHTE: Tensor, memory: Memory, visible: Visible, chosen: ChosenBlocks, call: AttentionCall
) -> tuple[Tensor, Tensor]:
    """As `_of_blocks`, by attention to all keys, of which those of other blocks are masked."""
    chosen, grouped, _ = _by_groups(q_BHTE, memory, chosen, call.context)
    some = visible if chosen.everything else visible.narrowed(chosen.dense())
    mixed, share = _of_groups(grouped, memory, None, some.dense(grouped.shape[2], q_BHTE.device), call)
    return _by_heads(mixed, q_BHTE.shape[2]), chosen.summed_of_all(share)


def _of_blocks(
    q_BHTE: Tensor, memory: Memory, visible: Visible, chosen: ChosenBlocks, call: AttentionCall
) -> tuple[Tensor, Tensor]:
    """Attention to the chosen blocks, (B, H, T, U), and the share of each, (B, T, K, n): by blocks on a processor, where there
    are many queries; else of keys that are gathered."""
    T, at_key = q_BHTE.shape[2], memory.keys.positions.expand(len(q_BHTE), -1)
    chosen, grouped, at_query = _by_groups(q_BHTE, memory, chosen, call.context)
    if q_BHTE.device.type != "cpu" or T == 1:
        mixed, share = _of_groups(grouped, memory, *chosen.indices(at_query, at_key), call)
        return _by_heads(mixed, T), chosen.summed(share)
    k, v = (x.to(q_BHTE.dtype) for x in (memory.key, memory.value))
    mixed, share = attend_chosen_blocks(
        grouped, k, v, torch.where(chosen.allowed, chosen.numbers, -1), chosen.places.slots, at_query, at_key,
        size=chosen.size, scale=call.attention.sizes.scale,
    )  # fmt: skip
    return _by_heads(mixed, T), share


def _by_groups(q_BHTE: Tensor, memory: Memory, chosen: ChosenBlocks, context: Context) -> tuple[ChosenBlocks, Tensor, Tensor]:
    """The choice, queries and their positions by heads of keys: R heads of one that choose by themselves are R * T queries of
    it, (B, R * T, K, n), (B, K, R * T, H / (K * R), E) and (B, R * T)."""
    K = memory.key.shape[1]
    R = chosen.numbers.shape[2] // K
    grouped = torch.unflatten(q_BHTE, 1, (K, R, -1)).transpose(3, 4).flatten(2, 3)
    return chosen.by_groups(K), grouped, context.positions.expand(len(q_BHTE), -1).repeat(1, R)


def _by_heads(mixed_BKTGU: Tensor, queries: int) -> Tensor:
    """(B, K, R * T, H / (K * R), U) -> (B, H, T, U)."""
    return torch.unflatten(mixed_BKTGU, 2, (-1, queries)).transpose(3, 4).flatten(1, 3)


def _of_groups(
    grouped: Tensor, memory: Memory, at_BKTm: Tensor | None, seen_BKTm: Tensor | None, call: AttentionCall
) -> tuple[Tensor, Tensor]:
    """Attention of each head of keys and its queries by themselves, (B, K, T, G, U), and the mean over these queries of the
    weights of the keys at `at`, or of all S, (B, K, T, m)."""
    B, K, T = grouped.shape[:3]
    each = [None if x is None else x.expand(B, K, T, -1).flatten(0, 1) for x in (at_BKTm, seen_BKTm)]
    q = grouped.flatten(0, 1)
    k, v = (x.flatten(0, 1)[:, :, None] for x in (memory.key, memory.value))
    mixed, share = attend_chosen(
        q, k, v, *each, scale=call.attention.sizes.scale, plain=call.attention.plan.attention == "plain"
    )
    mixed, share = (torch.unflatten(x, 0, (B, K)) for x in (mixed, share))
    return mixed, share
