"""Attention over heads in plain loops, with the formula of a part in one of its slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyformer.parts import Attention

Slot = Callable[..., Any]


@dataclass(frozen=True)
class ByHand:
    """What a formula reads: `a[name]`, a weight of the attention, and `a.x`, its input (T, D)."""

    weights: Mapping[str, Tensor]
    x: Tensor

    def __getitem__(self, name: str) -> Tensor:
        return self.weights[name]


@dataclass(frozen=True)
class SlotFormulas:
    """What every slot does to a head, a score, the scores of a query or the heads of a position; by default what is plain."""

    adjusted: Slot = lambda a, h, side, g, t: h
    turned: Slot = lambda a, h, t, side: h
    term: Slot = lambda a, q, h, t, s: torch.zeros((), dtype=q.dtype)
    weighed: Slot = lambda a, scores, h: scores.softmax(0)
    combined: Slot = lambda a, heads, t: heads


def attention_by_hand(part: Attention, weights: Mapping[str, Tensor], x_TD: Tensor, *, slots: SlotFormulas) -> Tensor:
    """Causal attention of one row (T, D) to (T, D)."""
    a, H, K = ByHand(weights, x_TD), part.heads, part.groups
    scale = part.scale_of(x_TD.shape[1])

    def heads(side: str, count: int, t: int) -> list[Tensor]:
        split = (weights[f"{side}.weight"] @ x_TD[t]).view(count, -1)
        return [slots.adjusted(a, h, side, g, t) for g, h in enumerate(split)]

    def turned(side: str, count: int, t: int) -> list[Tensor]:
        return [slots.turned(a, h, t, side) for h in heads(side, count, t)]

    positions = range(len(x_TD))
    keys, values = [turned("key", K, s) for s in positions], [heads("value", K, s) for s in positions]
    out = []
    for t in positions:
        mixed = []
        for h, q in enumerate(turned("query", H, t)):
            g = h // (H // K)
            scores = [q @ keys[s][g] * scale + slots.term(a, q, h, t, s) for s in range(t + 1)]
            mixed.append(slots.weighed(a, torch.stack(scores), h) @ torch.stack([values[s][g] for s in range(t + 1)]))
        out.append(weights["output.weight"] @ torch.cat(slots.combined(a, mixed, t)))
    return torch.stack(out)
