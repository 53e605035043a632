"""Made-up inputs of an architecture, and the loss of its outputs."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from anyformer.model import Architecture
from anyformer.tally import Shape


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """log Z - z_y in fp32, 0 where y is negative: (..., V), (...) -> (...); in the steps of the causal objective."""
    wide = logits.float()
    log_z = torch.logsumexp(wide, -1)
    chosen = wide.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    return torch.where(targets < 0, 0.0, log_z - chosen)


def examples(architecture: Architecture, shape: Shape) -> Iterator[Tensor]:
    """Inputs of that shape: of the one sequence, or of the source and of the target."""
    if not architecture.two_inputs:
        yield architecture.embedding.example(shape.batch, shape.length)
        return
    yield architecture.embedding.example(shape.batch, shape.source, seed=1)
    yield architecture.output_embedding.example(shape.batch, shape.length)
