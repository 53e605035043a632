"""A tiny vocabulary, its parts, and how a tiny model is fitted: what tests share that learn a task."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from anyformer.generation import Sampling
from anyformer.model.transformer import Transformer
from anyformer.parts import Attention, Bidirectional, Causal, FanIn, FeedForward, Initialisation, Normal, RMSNorm, Rotary

V, N = 12, 5
GREEDY = Sampling(temperature=0)
NORM, FEED = RMSNorm(), FeedForward(width=64)
SELF, BOTH = (Attention(heads=4, mask=mask, place=Rotary()) for mask in (Causal(), Bidirectional()))
INIT = Initialisation(matrix=FanIn(), embedding=Normal(std=0.5))


def fit(model: Transformer, loss, steps: int, enough: float = 0.05) -> float:
    """At most `steps` updates, fewer once the loss is below `enough`; gives the last loss."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
    for step in range(steps):
        value = loss(torch.Generator().manual_seed(step))
        value.backward()
        optimiser.step()
        optimiser.zero_grad()
        if value.item() < enough:
            break
    model.eval()
    return value.item()


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
