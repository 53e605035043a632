"""Alternating updates: the streams of one position at a time."""

from __future__ import annotations

import torch

from naive.basics import linear, norm


def sized(v, like):
    """A vector at the root mean square of another."""
    square = max((v * v).sum() / len(v), torch.tensor(1e-5, dtype=v.dtype))
    return v / torch.sqrt(square) * torch.sqrt((like * like).sum() / len(like))


def entering(part, name, weights, v):
    return [v] + [sized(linear(f"{name}.enter.{n}", weights, v), v) for n in range(part.count - 1)]


def leaving(part, name, weights, streams):
    first = streams[0]
    others = [sized(linear(f"{name}.leave.{n}", weights, v), first) for n, v in enumerate(streams[1:])]
    return sum(others, first) / part.count


def routed(part, name, weights, v):
    return torch.tanh(linear(f"{name}.router", weights, norm(part.norm, f"{name}.norm", weights, v) / len(v)))


def predicted(part, name, weights, streams):
    N, mix = part.count, linear(f"{name}.prediction", weights, routed(part, name, weights, streams[0]))
    return [x + sum(mix[n * N + k] * other for k, other in enumerate(streams)) for n, x in enumerate(streams)]


def corrected(part, name, weights, streams, found):
    share = linear(f"{name}.correction", weights, routed(part, name, weights, found))
    return [x + (1 + share[n]) * (found - streams[0]) for n, x in enumerate(streams)]
