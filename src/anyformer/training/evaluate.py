"""Held-out loss: mean over tokens, perplexity, and bits per byte, which compares across tokenizers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import torch

from anyformer.data import Batch, Split, windows
from anyformer.model import Transformer
from anyformer.objectives import CausalObjective, Examples
from anyformer.plan import Plan
from anyformer.training.precision import autocast


@dataclass(frozen=True)
class Evaluated:
    """`loss` in nats per token over `tokens` tokens; `bits_per_byte` of the split's text, None where its size is unknown."""

    loss: float
    tokens: int
    bits_per_byte: float | None

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700))


def evaluate(
    model: Transformer,
    objective: CausalObjective,
    split: Split,
    plan: Plan,
    *,
    length: int,
    batch: int,
    isolate: bool = False,
    batches: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Evaluated:
    """The loss over a split, or over its first `batches` batches. The objective's penalties are left out."""
    device = model.embedding.weight.device
    plain = objective.but(z_loss=0.0)
    total, tokens = 0.0, 0
    was_training = model.training
    model.eval()
    with torch.no_grad(), autocast(plan, device):
        for done, part in enumerate(islice(windows(split, length, batch, isolate), batches)):
            total += plain.loss(model, to_device(part, device), None).item()
            tokens += part.valid
            progress(done)
    model.train(was_training)
    loss = total / tokens
    bytes_per_token = split.bytes / len(split)
    return Evaluated(loss, tokens, loss / math.log(2) / bytes_per_token if split.bytes else None)


def to_device(batch: Batch, device: torch.device) -> Examples:
    """A batch of the data room as the tensors an objective reads."""
    documents = None if batch.documents is None else torch.from_numpy(batch.documents).to(device)
    return Examples(
        torch.from_numpy(batch.tokens).to(device),
        torch.from_numpy(batch.targets).to(device),
        documents,
        torch.from_numpy(batch.rows).to(device),
    )
