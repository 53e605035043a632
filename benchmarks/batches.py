"""One fixed batch of random tokens for a shape of training: the same numbers for every contender."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from benchmarks.cases import IGNORED, MASK, MASKED, Training
from torch import Tensor


@dataclass(frozen=True)
class FixedBatch:
    """`tokens`: the input, or of two inputs the source; `decoder`: what the decoder reads then; `targets`; all (B, T)."""

    tokens: Tensor
    targets: Tensor
    decoder: Tensor | None = None


def fixed_batch(sizes: Training, seed: int) -> FixedBatch:
    """The batch of a shape: next tokens, tokens that are hidden, or a target behind its start."""
    drawn = torch.Generator().manual_seed(seed)
    first, more = MASK + 1, int(sizes.kind in ("llama", "gpt2"))
    tokens = torch.randint(first, sizes.vocab, (sizes.batch, sizes.length + more), generator=drawn)
    match sizes.kind:
        case "llama" | "gpt2":
            return FixedBatch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        case "bert":
            hidden = torch.rand(tokens.shape, generator=drawn) < MASKED
            return FixedBatch(torch.where(hidden, MASK, tokens), torch.where(hidden, tokens, IGNORED))
        case "t5":
            targets = torch.randint(first, sizes.vocab, tokens.shape, generator=drawn)
            start = torch.zeros(sizes.batch, 1, dtype=torch.int64)
            return FixedBatch(tokens, targets, torch.cat([start, targets[:, :-1]], 1))
