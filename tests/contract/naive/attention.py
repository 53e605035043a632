"""Softmax attention, position by position and head by head."""

from __future__ import annotations

import torch

from naive.basics import linear, norm, softmax
from naive.heads import over_heads
from naive.networks import gate
from naive.positions import allowed, rotate, temperature


def attention(part, name, weights, x, run, of_values=None):
    """Self-attention, over all keys or those that its choice picks."""
    choice = part.score.choice

    def chosen(t, h, query, a):
        g = a.group(h)
        if choice.kind == "mean_keys":
            blocks = blocks_of_mean_keys(choice, query, [k[g] for k in a.keys], t)
        elif choice.kind == "pooled_indexer":
            blocks = blocks_of_pooled_keys(choice, f"{name}.choice", weights, x, t)
        else:
            blocks = chosen_blocks(choice, f"{name}.choice", weights, x, t, g)
        return [s for s in range(t + 1) if s // choice.block in blocks]

    return over_heads(part, name, weights, x, run, chosen=None if choice is None else chosen, of_values=of_values)


def cross_attention(part, name, weights, x, run):
    """Attention to the source."""
    source = [norm(part.source_norm, f"{name}.source_norm", weights, v) for v in run.source]
    return over_heads(part, name, weights, x, run, source=source)


def blocks_of_mean_keys(choice, query, keys, t):
    """The number of the query's own block, and of the earlier ones whose mean key has the greatest product with it."""
    b, own = choice.block, t // choice.block
    means = [sum(keys[j * b : (j + 1) * b]) / b for j in range(own)]
    best = sorted(range(own), key=lambda j: (query @ means[j]).item())
    return [own, *best[own - min(choice.keep - 1, own) :]]


def blocks_of_pooled_keys(choice, name, weights, x, t):
    """The numbers of the whole blocks of the best mean keys, and of the one that is not whole."""
    E, b, whole = choice.head_width, choice.block, (t + 1) // choice.block
    turn = lambda h, t: h if choice.rotary is None else rotate(choice.rotary, h, t, len(x))  # noqa: E731
    query = (weights[f"{name}.query.weight"] @ x[t]).view(choice.heads, E)
    queries = [turn(norm(choice.norm, f"{name}.query_norm", weights, each), t) for each in query]
    scores = {}
    for j in range(whole):
        mean = sum(weights[f"{name}.key.weight"] @ v for v in x[j * b : (j + 1) * b]) / b
        key = turn(norm(choice.norm, f"{name}.key_norm", weights, mean), j * b)
        scores[j] = sum(max((each @ key).item(), 0.0) for each in queries)
    return [whole, *sorted(scores, key=lambda j: scores[j])[-choice.keep :]]


def chosen_blocks(choice, name, weights, x, t, g):
    """The numbers of the blocks that query t attends to by head of keys g: the latest, then those with the best key."""
    E, b = choice.head_width, choice.block
    turn = lambda h, t: h if choice.rotary is None else rotate(choice.rotary, h, t, len(x))  # noqa: E731
    query = weights[f"{name}.query.weight"][g * E : (g + 1) * E] @ x[t]
    query = turn(norm(choice.norm, f"{name}.query_norm", weights, query), t)
    keys = [norm(choice.norm, f"{name}.key_norm", weights, weights[f"{name}.key.weight"] @ v) for v in x[: t + 1]]
    best = {}
    for s, key in enumerate(keys):
        score = (query @ turn(key, s)).item()
        best[s // b] = max(best.get(s // b, score), score)
    latest = {block: t // b - block < choice.local for block in best}
    return sorted(best, key=lambda block: (latest[block], best[block]))[-choice.keep :]


def keys_of(part, name, weights, x, latents, t, run):
    """The keys that query t sees, or those of them that its choice keeps."""
    seen = [s for s in range(len(x)) if allowed(part.mask, t, s, run.prefix)]
    choice = part.choice
    if choice is None:
        return seen
    if choice.kind == "shared_index":
        return run.chosen[choice.variant][t]
    scores = index_scores(choice, f"{name}.choice", weights, x, latents[t], t, seen)
    return sorted(seen, key=lambda s: (scores[s].item(), s))[-choice.keep :]


def index_scores(choice, name, weights, x, c, t, seen):
    """Of each key that query t sees: a weighted sum over index heads of what is positive."""
    J, E = choice.heads, choice.head_width
    turn = lambda h, t: h if choice.rotary is None else rotate(choice.rotary, h, t, len(x))  # noqa: E731
    queries, strengths = (weights[f"{name}.query.weight"] @ c).view(J, E), weights[f"{name}.weights.weight"] @ x[t]
    scores = {}
    for s in seen:
        key = turn(norm(choice.norm, f"{name}.norm", weights, weights[f"{name}.key.weight"] @ x[s]), s)
        each = [strengths[j] * torch.relu(turn(queries[j], t) @ key) for j in range(J)]
        scores[s] = sum(each) * (J * E) ** -0.5
    return scores


def latent_attention(part, name, weights, x, run):
    """Keys and values of every head written out."""
    N, P, H = part.nope_width, part.rope_width, part.heads
    width = len(x[0]) if part.aligned_to == "width" else part.aligned_to
    aligned = lambda c: c if width is None else (width / len(c)) ** 0.5 * c  # noqa: E731
    turn = lambda h, t: h if part.rotary is None else rotate(part.rotary, h, t, len(x))  # noqa: E731
    keys, values, out, latents, chosen = [], [], [], [], run.chosen.setdefault(run.variant, [])
    chosen.clear()
    for s, v in enumerate(x):
        c = aligned(norm(part.norm, f"{name}.kv_norm", weights, linear(f"{name}.kv_down", weights, v)))
        rope = turn(norm(part.rope_norm, f"{name}.rope_norm", weights, linear(f"{name}.rope_key", weights, v)), s)
        up = (weights[f"{name}.key_up.weight"] @ c).view(H, N)
        keys.append([torch.cat([up[h], rope]) for h in range(H)])
        values.append((weights[f"{name}.value_up.weight"] @ c).view(H, -1))
    for t, v in enumerate(x):
        c = of = v
        if part.q_rank is not None:
            raw = linear(f"{name}.query_down", weights, v)
            c = of = aligned(norm(part.norm, f"{name}.query_norm", weights, raw))
            of = torch.cat([c, raw]) if part.queries_from == "both" else c
        queries, mixed = temperature(part.temperature, t) * (weights[f"{name}.query_up.weight"] @ of).view(H, N + P), []
        latents.append(c)
        chosen.append(keys_of(part, name, weights, x, latents, t, run))
        for h in range(H):
            q = torch.cat([queries[h][:N], turn(queries[h][N:], t)])
            seen = chosen[t]
            scale = (N + P) ** -0.5 if part.scale is None else part.scale
            beside = [weights[f"{name}.sink"][h]] if part.sink else []
            share = softmax([q @ keys[s][h] * scale for s in seen] + beside)
            mixed.append(sum(a * values[s][h] for a, s in zip(share, seen, strict=False)))
        if part.gate is not None:
            factor = gate(part.gate, f"{name}.gate", weights, of if part.gate_from == "queries" else v).view(H, -1)
            mixed = [m * factor[h] for h, m in enumerate(mixed)]
        out.append(linear(f"{name}.output", weights, torch.cat(mixed)))
    return out
