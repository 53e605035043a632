"""Held-out loss: mean over tokens, perplexity, and bits per byte, which compares across tokenizers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from anyformer.data import IGNORED, Batch, Split, windows
from anyformer.model import Transformer
from anyformer.objectives import CausalObjective, Examples
from anyformer.parts.call.reports import Auxiliary, Load, add_loads
from anyformer.plan import Plan
from anyformer.training.precision import autocast


@dataclass(frozen=True)
class Evaluated:
    """`loss` in nats per token over `tokens` of the split's `whole` tokens; `bits_per_byte` of the split's text, None where
    its size is unknown; `loads`: load of the experts, by layer."""

    loss: float
    tokens: int
    whole: int
    bits_per_byte: float | None
    loads: Mapping[str, Load] = field(default_factory=dict)

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
    most: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Evaluated:
    """The loss over a split, or over `most` windows spread evenly over it, without the objective's penalties.

    `progress` is called after each batch, with the tokens evaluated so far.
    """
    device = model.device
    plain = objective.without_penalties
    total, tokens = 0.0, 0
    loads: dict[str, Load] = {}
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), autocast(plan, device):
            for part in windows(split, length, batch, isolate, most=most):
                examples = to_device(part, device)
                auxiliary = Auxiliary(examples.targets != IGNORED)
                total += plain.loss(model, examples, None, auxiliary).item()
                tokens += part.valid
                loads = add_loads(loads, auxiliary.loads)
                progress(tokens)
    finally:
        model.train(was_training)
    loss = total / tokens
    bytes_per_token = split.bytes / len(split)
    bits_per_byte = loss / math.log(2) / bytes_per_token if split.bytes else None
    return Evaluated(loss, tokens, len(split) - 1, bits_per_byte, loads)


def to_device(batch: Batch, device: torch.device) -> Examples:
    """A batch of arrays as tensors of an objective's examples."""
    documents = None if batch.documents is None else torch.from_numpy(batch.documents).to(device)
    return Examples(
        torch.from_numpy(batch.tokens).to(device),
        torch.from_numpy(batch.targets).to(device),
        documents,
        torch.from_numpy(batch.rows).to(device),
    )
