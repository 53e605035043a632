"""Attention over heads in plain loops, with the formula of a part in one of its slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from anyformer.describe import Value
from anyformer.parts import Attention

Slot = Literal["adjust", "place", "term", "weigh", "combine"]


@dataclass(frozen=True)
class ByHand:
    """What a formula reads: `a[name]`, a weight of the attention, and `a.x`, its input (T, D)."""

    weights: Mapping[str, Tensor]
    x: Tensor

    def __getitem__(self, name: str) -> Tensor:
        return self.weights[name]


def attention_by_hand(
    part: Attention, weights: Mapping[str, Tensor], x_TD: Tensor, *, slot: Slot, in_slot: Value, formula: Callable[..., Any]
) -> Tensor:
    """Causal attention of one row (T, D) to (T, D), plain but for the part in the slot."""
    a, H, K = ByHand(weights, x_TD), part.heads, part.groups
    scale = part.scale_of(x_TD.shape[1])

    def heads(side: str, count: int, v: Tensor, t: int) -> list[Tensor]:
        split = list((weights[f"{side}.weight"] @ v).view(count, -1))
        if slot == "adjust":
            split = [formula(in_slot, a, h, side, g, t) for g, h in enumerate(split)]
        if slot == "place" and side != "value":
            split = [formula(in_slot, a, h, t, side) for h in split]
        return split

    keys, values = ([heads(side, K, v, t) for t, v in enumerate(x_TD)] for side in ("key", "value"))
    out = []
    for t, v in enumerate(x_TD):
        mixed = []
        for h, q in enumerate(heads("query", H, v, t)):
            g = h // (H // K)
            scores = torch.stack([q @ keys[s][g] * scale for s in range(t + 1)])
            if slot == "term":
                scores = scores + torch.stack([torch.as_tensor(formula(in_slot, a, q, h, t, s)) for s in range(t + 1)])
            shares = formula(in_slot, a, scores, h) if slot == "weigh" else scores.softmax(0)
            mixed.append(shares @ torch.stack([values[s][g] for s in range(t + 1)]))
        if slot == "combine":
            mixed = formula(in_slot, a, mixed, t)
        out.append(weights["output.weight"] @ torch.cat(mixed))
    return torch.stack(out)
