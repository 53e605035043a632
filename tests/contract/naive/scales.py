"""Dual cross-attention, channel by channel and position by position."""

from __future__ import annotations

import math

import torch

from naive.basics import norm, softmax


def depthwise(name, weights, v):
    return weights[f"{name}.weight"] * v + weights[f"{name}.bias"]


def across_scales(part, name, weights, x, mix):
    """Every scale normalised at every position, then `mix(scale's name, own, all)` for each, side by side again."""
    own, start = [], 0
    for i, width in enumerate(part.scales):
        own.append([norm(part.norm, f"{name}.scales.{i}.norm", weights, v[start : start + width]) for v in x])
        start += width
    everything = [torch.cat(pieces) for pieces in zip(*own, strict=True)]
    mixed = []
    for i in range(len(part.scales)):
        at = f"{name}.scales.{i}"
        mixed.append([depthwise(f"{at}.output", weights, y) for y in mix(at, own[i], everything)])
    return [torch.cat(pieces) for pieces in zip(*mixed, strict=True)]


def channel_cross_attention(part, name, weights, x, run):
    H, D = part.heads, sum(part.scales)

    def mix(at, own, everything):
        q = [depthwise(f"{at}.query", weights, v) for v in own]
        keys, values = ([depthwise(f"{at}.{kind}", weights, v) for v in everything] for kind in ("key", "value"))
        columns = []
        for c in range(len(own[0])):
            h = c // (len(own[0]) // H)
            read = range(h * D // H, (h + 1) * D // H)
            share = softmax([sum(q[t][c] * keys[t][j] for t in range(len(x))) / math.sqrt(D) for j in read])
            columns.append(torch.stack([sum(a * v[j] for a, j in zip(share, read, strict=True)) for v in values]))
        return [torch.stack([column[t] for column in columns]) for t in range(len(x))]

    return across_scales(part, name, weights, x, mix)


def spatial_cross_attention(part, name, weights, x, run):
    H, D = part.heads, sum(part.scales)

    def mix(at, own, everything):
        queries, keys = ([depthwise(f"{at}.{kind}", weights, v).view(H, -1) for v in everything] for kind in ("query", "key"))
        values, out = [depthwise(f"{at}.value", weights, v).view(H, -1) for v in own], []
        for q in queries:
            heads = []
            for h in range(H):
                share = softmax([q[h] @ k[h] / math.sqrt(D / H) for k in keys])
                heads.append(sum(a * v[h] for a, v in zip(share, values, strict=True)))
            out.append(torch.cat(heads))
        return out

    return across_scales(part, name, weights, x, mix)
