"""The condition of a stack, and what modulations make of it."""

from __future__ import annotations

import math

import torch

from naive.basics import linear


def silu(v):
    return v / (1 + torch.exp(-v))


def condition(part, name, weights, time, kind):
    """c of one row; `kind`: the number of its class, None for the null class."""
    half = part.frequencies // 2
    angles = [part.time_scale * time * part.theta ** (-i / half) for i in range(half)]
    waves = torch.tensor([math.cos(a) for a in angles] + [math.sin(a) for a in angles], dtype=torch.float64)
    c = linear(f"{name}.output", weights, silu(linear(f"{name}.input", weights, waves)))
    if part.classes is None:
        return c
    return c + weights[f"{name}.classes"][part.classes if kind is None else kind]


def modulation(part, name, weights, c):
    """Shift, scale and gate; no gate is a gate of 1."""
    if part is None:
        return 0.0, 0.0, 1.0
    made = linear(f"{name}.projection", weights, silu(c))
    D = len(c)
    return made[:D], made[D : 2 * D], made[2 * D :] if part.gate else 1.0
