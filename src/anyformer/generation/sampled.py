"""log p of the distribution that tokens are sampled from: one function, for what the sampler tells and a loss computes."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.generation.processors.base import NEVER
from anyformer.model.loss import token_losses

EIGHT = 8


def sampled_scores(logits_BTV: Tensor, temperature: float = 1.0, kept_BTV: Tensor | None = None) -> Tensor:
    """The scores whose softmax is sampled from, (B, T, V) in fp32: logits / temperature, of the tokens that are `kept` alone.

    `kept` bool: what top-k, top-p and min-p left to be drawn; None: every token.
    """
    scores = logits_BTV.float()
    if temperature != 1:
        scores = scores / temperature
    return scores if kept_BTV is None else scores.masked_fill(~kept_BTV, NEVER)


def sampled_log_p(scores_BTV: Tensor, tokens_BT: Tensor) -> Tensor:
    """log p of the tokens under softmax(scores), (B, T) in fp32; 0 where a token is negative, which stands for none."""
    return -token_losses(scores_BTV, tokens_BT)[0]


def as_bits(kept_BTV: Tensor) -> Tensor:
    """(..., V) bool as (..., V / 8 rounded up) uint8: token 8 i + j is bit j of byte i."""
    size = kept_BTV.shape[-1]
    whole = torch.nn.functional.pad(kept_BTV, (0, -size % EIGHT)).view(*kept_BTV.shape[:-1], -1, EIGHT)
    bits = whole.to(torch.uint8) << _places(kept_BTV.device)
    return bits.sum(-1, dtype=torch.uint8)


def from_bits(bits: Tensor, size: int) -> Tensor:
    """What `as_bits` was given, (..., `size`) bool."""
    found: Tensor = ((bits[..., None] >> _places(bits.device)) & 1).flatten(-2)[..., :size].bool()
    return found


def _places(device: torch.device) -> Tensor:
    return torch.arange(EIGHT, dtype=torch.uint8, device=device)
