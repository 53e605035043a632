"""Heads of a span-based convolution, position by position, head by head and weight by weight."""

from __future__ import annotations

import torch

from naive.basics import linear, softmax


def beside(part, name, weights, x, queries):
    """For each position the outputs of the heads; `queries`: those of each position, head by head."""
    n, H, half = part.kernel, len(queries[0]), part.kernel // 2
    values = [linear(f"{name}.value", weights, v).view(H, -1) for v in x]
    out = []
    for t, heads in enumerate(queries):
        span = [(j, t + j - half) for j in range(n) if 0 <= t + j - half < len(x)]
        around = sum(weights[f"{name}.depthwise"][:, j] * x[s] for j, s in span)
        scores = linear(f"{name}.kernel", weights, torch.cat(heads) * linear(f"{name}.key", weights, around)).view(H, n)
        kernels = [softmax(list(own)) for own in scores]
        out.append([sum(kernels[h][j] * values[s][h] for j, s in span) for h in range(H)])
    return out
