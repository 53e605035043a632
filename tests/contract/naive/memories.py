"""The naive twins of memories that are read by more than a product, or that every token turns or erases by feature."""

from __future__ import annotations

import torch

from naive.basics import linear, norm, softplus
from naive.networks import ACTIVATIONS, gate
from naive.recurrent import convolution, log_decay

SILU = ACTIVATIONS["silu"]


def sigmoid(z):
    return 1 / (1 + torch.exp(-z))


def streams(part, name, weights, x, convolved):
    """Projections by name, each convolved if it may be."""
    found = {kind: [linear(f"{name}.{kind}", weights, v) for v in x] for kind in ("query", "key", "value")}
    return found | {
        kind: convolution(part.convolution, f"{name}.{kind}_convolution", weights, found[kind]) for kind in convolved
    }


def gated_slot_attention(part, name, weights, x, run):
    """Token after token, slot after slot."""
    H, K, n, M = part.heads, part.kv_heads or part.heads, part.slots, part.key_width
    read, out = streams(part, name, weights, x, ("query", "key", "value")), []
    E = len(weights[f"{name}.value.weight"]) // K
    keys, values = ([[torch.zeros(size, dtype=torch.float64)] * n for _ in range(K)] for size in (M, E))
    for t, v in enumerate(x):
        kept = (sigmoid(linear(f"{name}.forget", weights, v)) ** (1 / part.temperature)).view(K, n)
        q, k, value = (SILU(read[kind][t]).view(heads, -1) for kind, heads in (("query", H), ("key", K), ("value", K)))
        for g in range(K):
            keys[g] = [kept[g, i] * old + (1 - kept[g, i]) * k[g] for i, old in enumerate(keys[g])]
            values[g] = [kept[g, i] * old + (1 - kept[g, i]) * value[g] for i, old in enumerate(values[g])]
        mixed = []
        for h in range(H):
            g = h // (H // K)
            shares = [torch.exp(part.scale * q[h] @ key) for key in keys[g]]
            mixed.append(SILU(sum(a * held for a, held in zip(shares, values[g], strict=True)) / sum(shares)))
        out.append(linear(f"{name}.output", weights, norm(part.norm, f"{name}.norm", weights, torch.cat(mixed))))
    return out


def mesa_layer(part, name, weights, x, run):
    """Token after token, the weighted least squares of all tokens before it, solved directly."""
    H, M = part.heads, part.key_width
    read, out = streams(part, name, weights, x, ("query", "key")), []
    unit = lambda h: h / torch.sqrt(h @ h + part.length_eps)  # noqa: E731
    ridge = (softplus(weights[f"{name}.ridge"]) + part.least).view(H, M)
    counts = [sigmoid(linear(f"{name}.beta", weights, v)) for v in x]
    fades = [torch.log(sigmoid(linear(f"{name}.forget", weights, v))) for v in x]
    for t, v in enumerate(x):
        mixed, opened = [], None if part.gate is None else gate(part.gate, f"{name}.gate", weights, v).view(H, -1)
        for h in range(H):
            matrix, sums = torch.diag(ridge[h]), 0
            for s in range(t + 1):
                weight = counts[s][h] * torch.exp(sum((fades[u][h] for u in range(s + 1, t + 1)), torch.zeros(())))
                k = unit(read["key"][s].view(H, M)[h])
                matrix = matrix + weight * torch.outer(k, k)
                sums = sums + weight * torch.outer(k, read["value"][s].view(H, -1)[h])
            y = torch.linalg.inv(matrix) @ unit(read["query"][t].view(H, M)[h]) @ sums
            y = norm(part.norm, f"{name}.norm", weights, y)
            mixed.append(y if opened is None else y * opened[h])
        out.append(linear(f"{name}.output", weights, torch.cat(mixed)))
    return out


def gated_delta_2(part, name, weights, x, run):
    """Token after token, entry by entry of the state."""
    H, M, out = part.heads, part.key_width, []
    read = streams(part, name, weights, x, ("query", "key", "value"))
    unit = lambda h: h / torch.sqrt(h @ h + part.length_eps)  # noqa: E731
    E = len(weights[f"{name}.value.weight"]) // H
    states = [torch.zeros(M, E, dtype=torch.float64) for _ in range(H)]
    for t, v in enumerate(x):
        erase = part.erase_scale * sigmoid(linear(f"{name}.erase_gate", weights, v)).view(H, M)
        write = sigmoid(linear(f"{name}.write_gate", weights, v)).view(H, E)
        fades = log_decay(part.decay, f"{name}.decay", weights, v, H)
        mixed, opened = [], None if part.gate is None else gate(part.gate, f"{name}.gate", weights, v).view(H, -1)
        for h in range(H):
            q, k = (unit(read[kind][t].view(H, M)[h]) for kind in ("query", "key"))
            faded = torch.exp(fades[h])[:, None] * states[h]
            value = write[h] * read["value"][t].view(H, E)[h]
            states[h] = faded + torch.outer(k, value - (erase[h] * k) @ faded)
            y = norm(part.norm, f"{name}.norm", weights, (M**-0.5 if part.scale is None else part.scale) * q @ states[h])
            mixed.append(y if opened is None else y * opened[h])
        out.append(linear(f"{name}.output", weights, torch.cat(mixed)))
    return out


def path_attention(part, name, weights, x, run):
    """Every pair of tokens, its key reflected by each token since."""
    H, K, out = part.heads, part.kv_heads or part.heads, []
    heads = lambda kind, v, n: list(linear(f"{name}.{kind}", weights, v).view(n, -1))  # noqa: E731
    normed = lambda kind, h: norm(part.qk_norm, f"{name}.{kind}_norm", weights, h)  # noqa: E731
    narrow = x if part.rank is None else [linear(f"{name}.direction_down", weights, v) for v in x]
    ways = [linear(f"{name}.direction", weights, v) for v in narrow]
    ways = convolution(part.convolution, f"{name}.direction_convolution", weights, ways)
    ways = [[w / torch.sqrt(w @ w + part.length_eps) for w in v.view(K, -1)] for v in ways]
    betas, values = [2 * sigmoid(linear(f"{name}.beta", weights, v)) for v in x], [heads("value", v, K) for v in x]
    for t, v in enumerate(x):
        mixed = []
        for h, q in enumerate(heads("query", v, H)):
            q, g, shares = normed("query", q), h // (H // K), []
            for s in range(t + 1):
                k = normed("key", heads("key", x[s], K)[g])
                for u in range(s + 1, t + 1):
                    k = k - betas[u][g] * (ways[u][g] @ k) * ways[u][g]
                shares.append(torch.exp(q @ k * (len(q) ** -0.5 if part.scale is None else part.scale)))
            mixed.append(sum(a * values[s][g] for s, a in enumerate(shares)) / sum(shares))
        out.append(linear(f"{name}.output", weights, torch.cat(mixed)))
    return out


MEMORIES = {
    "gated_delta_2": gated_delta_2,
    "gated_slot_attention": gated_slot_attention,
    "mesa_layer": mesa_layer,
    "path_attention": path_attention,
}
