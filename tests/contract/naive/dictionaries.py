"""Sparse dictionaries, feature by feature."""

from __future__ import annotations

import torch

from naive.basics import linear


def dictionary(part, name, weights, x, run):
    """Each vector as a sum of few learnt ones."""
    vectors = list(weights[f"{name}.decoder.weight"].mT)
    vectors = [d / d.norm() for d in vectors] if part.unit else vectors
    made = []
    for v in x:
        scale = mean_length(part, name, weights, v)
        read = v * scale - weights[f"{name}.decoder.bias"] if part.centred else v * scale
        active = CODES[part.code.kind](part.code, f"{name}.code", weights, linear(f"{name}.encoder", weights, read))
        said = sum(f * d for f, d in zip(active, vectors, strict=True)) + weights[f"{name}.decoder.bias"]
        made.append(said / scale)
    return made


def mean_length(part, name, weights, v):
    """The factor of each block: sqrt(its size) over its mean length, 1 where none was seen."""
    if part.length is None:
        return torch.ones_like(v)
    size = len(v) // part.blocks
    lengths = weights[f"{name}.length.length"]
    return torch.cat([torch.full((size,), float(size**0.5 / n.detach()) if n > 0 else 1.0, dtype=v.dtype) for n in lengths])


def top_k(code, name, weights, z):
    kept = sorted(range(len(z)), key=lambda i: -float(z[i].detach()))[: code.k]
    return [z[i].clamp(min=0) if i in kept else 0 * z[i] for i in range(len(z))]


def jump_relu(code, name, weights, z):
    """theta gets the gradient -theta / bandwidth within half a bandwidth of it."""
    out = []
    for u, stored in zip(z, weights[f"{name}.threshold"], strict=True):
        theta = max(float(stored), 0.0)
        near = abs(float(u) - theta) < code.bandwidth / 2
        out.append((u if float(u) > theta else 0 * u) + (theta / code.bandwidth * near) * (stored.detach() - stored))
    return out


def gated(code, name, weights, z):
    bias = weights[name.removesuffix("code") + "encoder.bias"]
    size = torch.relu((z - bias) * weights[f"{name}.log_scale"].exp() + weights[f"{name}.bias"])
    return [s if float(u) > 0 else 0 * s for s, u in zip(size, z, strict=True)]


def batch_top_k(code, name, weights, z):
    """As it is evaluated: those above the running threshold."""
    return [u if float(u) > max(float(weights[f"{name}.threshold"]), 0.0) else 0 * u for u in z]


CODES = {
    "relu": lambda code, name, weights, z: list(z.relu()),
    "top_k": top_k,
    "jump_relu": jump_relu,
    "gated": gated,
    "batch_top_k": batch_top_k,
}
