"""What feature maps of linear attention compute with functions of torch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.recurrence.feature_map import RandomFeatures


def elu(x: Tensor) -> Tensor:
    return F.elu(x)


def waves(along: Tensor) -> Tensor:
    """Cosines, and sines behind them."""
    return torch.cat([along.cos(), along.sin()], -1)


def drawn(features: RandomFeatures, head_width: int) -> Tensor:
    """The directions of random features, (count, E) in float64."""
    generator = torch.Generator().manual_seed(features.seed)
    each, lengths = (
        torch.randn(features.count, head_width, generator=generator, dtype=torch.float64, device="cpu") for _ in range(2)
    )
    if not features.orthogonal:
        return each
    starts = range(0, features.count, head_width)
    unit = torch.cat([_orthonormal(each[i : i + head_width]) for i in starts])
    return unit * lengths.square().sum(1, keepdim=True).sqrt()


def _orthonormal(rows: Tensor) -> Tensor:
    """Gram-Schmidt of at most E rows (n, E): a QR with its free signs chosen so that R's diagonal is positive."""
    q, r = torch.linalg.qr(rows.mT)
    return (q * r.diagonal().sign()).mT  # type: ignore[no-any-return]
