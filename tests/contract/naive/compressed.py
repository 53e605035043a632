"""Attention to a window and to entries of blocks, position by position and entry by entry."""

from __future__ import annotations

import torch

from naive.basics import linear, norm
from naive.positions import rotate


def compressed_attention(part, name, weights, x, run):
    H, E, out = part.heads, part.head_width, []
    turn = lambda h, t: h if part.rotary is None else rotate(part.rotary, h, t, len(x))  # noqa: E731
    keys = [turn(norm(part.norm, f"{name}.key_norm", weights, linear(f"{name}.key", weights, v)), s) for s, v in enumerate(x)]
    made = [] if part.compressor is None else entries(part.compressor, f"{name}.compressor", weights, x, part.rotary)
    for t, v in enumerate(x):
        c = v
        if part.q_rank is not None:
            c = norm(part.norm, f"{name}.query_norm", weights, linear(f"{name}.query_down", weights, v))
        passed = [i for i in range(len(made)) if (i + 1) * part.compressor.block <= t + 1]
        if part.choice is not None:
            passed = best(part, f"{name}.choice", weights, x, c, t, passed)
        seen = torch.stack([*keys[max(0, t - part.window + 1) : t + 1], *(made[i] for i in passed)])
        mixed = []
        for h in range(H):
            q = weights[f"{name}.query_up.weight"][h * E : (h + 1) * E] @ c
            q = turn(norm(part.head_norm, f"{name}.head_norm", weights, q), t)
            share = torch.exp(seen @ q * (E**-0.5 if part.scale is None else part.scale))
            share = share / (share.sum() + (weights[f"{name}.sink"][h].exp() if part.sink else 0))
            mixed.append(turned_back(part.rotary, share @ seen, t, len(x)))
        mixed = torch.cat(mixed)
        if part.output is None:
            out.append(linear(f"{name}.output", weights, mixed))
            continue
        A = weights[f"{name}.output.down.weight"].chunk(part.output.groups)
        narrow = [a @ m for a, m in zip(A, mixed.chunk(part.output.groups), strict=True)]
        out.append(weights[f"{name}.output.up.weight"] @ torch.cat(narrow))
    return out


def turned_back(rotary, v, t, length):
    """The vector that turned to position t is v: a rotation preserves lengths, so its matrix transposed."""
    if rotary is None:
        return v
    columns = [rotate(rotary, unit, t, length) for unit in torch.eye(len(v), dtype=v.dtype)]
    return torch.stack([column @ v for column in columns])


def entries(part, name, weights, x, rotary):
    """One of each whole block: of its tokens and of those of the blocks before it."""
    m, n, made = part.block, part.span, []
    for i in range(len(x) // m):
        values, gates = [], []
        for j in range(n):
            block = i - (n - 1) + j
            for place in range(m if block >= 0 else 0):
                v = x[block * m + place]
                bias = weights[f"{name}.position_bias"][place].chunk(n)[j]
                values.append(weights[f"{name}.value.weight"].chunk(n)[j] @ v)
                gates.append(torch.exp(weights[f"{name}.gate.weight"].chunk(n)[j] @ v + bias))
        entry = sum(g * v for g, v in zip(gates, values, strict=True)) / sum(gates)
        entry = norm(part.norm, f"{name}.norm", weights, entry)
        made.append(entry if rotary is None else rotate(rotary, entry, i * m, len(x)))
    return made


def best(part, name, weights, x, c, t, passed):
    """The entries of the greatest index scores."""
    own, J = part.choice, part.choice.heads
    small = entries(part.compressor, f"{name}.compressor", weights, x, own.rotary)
    queries, strengths = (weights[f"{name}.query.weight"] @ c).view(J, -1), weights[f"{name}.weights.weight"] @ x[t]
    turn = lambda h: h if own.rotary is None else rotate(own.rotary, h, t, len(x))  # noqa: E731
    score = lambda i: sum(w * torch.relu(turn(q) @ small[i]) for w, q in zip(strengths, queries, strict=True)).item()  # noqa: E731
    scores = {i: score(i) for i in passed}
    return sorted(passed, key=lambda i: (scores[i], i))[-own.keep :]
