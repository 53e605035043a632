"""Softmax attention, position by position and head by head."""

from __future__ import annotations

import math

import torch

from naive.basics import linear, low_rank, norm, norm_of_each_head, softmax
from naive.networks import gate
from naive.positions import allowed, bucket, rotate, score_bias, temperature
from naive.span import beside


def attention(part, name, weights, x, run, chosen=None, of_values=None):
    """`chosen(t, h, query, keys)`: which keys query t may see by head h; `of_values`: what values read in place of x."""
    cross = part.kind == "cross_attention"
    if not cross and part.joined is not None:
        both = zip(x, run.streams[part.joined.variant], strict=True)
        x = [norm(part.joined.norm, f"{name}.joined.norm", weights, torch.cat(pair)) for pair in both]
    reads = [norm(part.source_norm, f"{name}.source_norm", weights, v) for v in run.source] if cross else x
    H, groups = part.heads, part.kv_heads or part.heads
    width = len(weights[f"{name}.query.weight"]) // H
    rotary = None if cross else part.rotary
    late = not cross and part.qk_norm is not None and part.qk_norm.at == "after_rotary"

    def project(kind, v, count):
        y = linear(f"{name}.{kind}", weights, v)
        y = y if part.lora is None else y + low_rank(f"{name}.{kind}_lora", "up", weights, v, run.turn)
        return y if part.clip is None else y.clamp(-part.clip, part.clip)

    def before_rotation(kind, v, count):
        y = project(kind, v, count)
        if part.qk_norm is not None and part.qk_norm.over == "projection":
            y = norm(part.qk_norm.norm, f"{name}.{kind}_norm", weights, y)
        if part.qk_norm is not None and part.qk_norm.over == "each_head":
            y = norm_of_each_head(part.qk_norm.norm, f"{name}.{kind}_norm", weights, y, count)
        split = list(y.view(count, width))
        early = part.qk_norm is not None and part.qk_norm.over == "head" and not late
        return [norm(part.qk_norm.norm, f"{name}.{kind}_norm", weights, h) for h in split] if early else split

    def heads_of(kind, v, t, count):
        split = before_rotation(kind, v, count)
        if rotary is not None:
            split = [rotate(rotary, h, t, len(x), run.axes and run.axes[t]) for h in split]
        return [norm(part.qk_norm.norm, f"{name}.{kind}_norm", weights, h) for h in split] if late else split

    if not cross and part.keys_from is not None:
        keys, values = run.memories[part.keys_from]
    else:
        keys = [heads_of("key", w, s, groups) for s, w in enumerate(reads)]
        kind = "key" if part.values == "keys" else "value"
        values = [
            [
                norm(part.value_norm, f"{name}.value_norm", weights, h) * part.value_scale
                for h in project(kind, w, groups).view(groups, -1)
            ]
            for w in of_values or reads
        ]
        if not cross and part.value_embedding is not None:
            values = [
                embedded(part.value_embedding, f"{name}.value_embedding", weights, *each)
                for each in zip(values, x, run.tokens, strict=True)
            ]
        if not cross and part.value_residual is not None:
            mix, others = part.value_residual, run.values[part.value_residual.variant]
            values = [
                [mix.own * v + mix.other * o for v, o in zip(*both, strict=True)] for both in zip(values, others, strict=True)
            ]
        if not cross:
            run.memories[run.variant], run.values[run.variant] = (keys, values), values
    forgets = not cross and part.forget is not None
    kept = [torch.sigmoid(linear(f"{name}.forget.gates", weights, v)).log() for v in x] if forgets else []
    out, others = [], [[]] * len(x)
    if not cross and part.convolution is not None:
        unplaced = [before_rotation("query", v, H) for v in x]
        others = beside(part.convolution, f"{name}.convolution", weights, x, unplaced)
    for t, v in enumerate(x):
        queries = heads_of("query", v, t, H)
        until = run.until[t] if run.until else t
        place = (lambda t: t) if run.places is None else run.places.__getitem__
        seen = [s for s in range(len(reads)) if cross or allowed(part.mask, place(t), place(s), run.prefix) or t < s <= until]
        virtual = range(0 if cross else part.virtual_tokens or 0)
        picks = lambda h: chosen(t, h, queries[h], [k[h // (H // groups)] for k in keys])  # noqa: B023, E731
        seen = [[s for s in seen if chosen is None or s in picked] for picked in (chosen and picks(h) for h in range(H))]

        def share(h, t=t, v=v, queries=queries, seen=seen, virtual=virtual):
            """Of each position that one head sees."""
            g, scale = h // (H // groups), width**-0.5 if part.scale is None else part.scale
            q, scores = queries[h] * (1.0 if cross else temperature(part.temperature, t)), []
            for s in seen[h]:
                score = (q * keys[s][g]).sum() * scale
                if not cross and part.score_bias is not None:
                    score = score + score_bias(part.score_bias, part, name, weights, run.stack, q, keys[s][g], h, t, s, v)
                if forgets:
                    score = score + sum(kept[between][h] for between in range(min(s, t) + 1, max(s, t) + 1))
                if not cross and run.stack.score_bias is not None:
                    score = score + weights[f"{run.name}.score_bias.weight"][bucket(run.stack.score_bias.buckets, s - t), h]
                scores.append(score)
            scores += [(q @ weights[f"{name}.virtual_key"][g, s]) * scale for s in virtual]
            if part.softcap is not None:
                scores = [part.softcap * torch.tanh(score / part.softcap) for score in scores]
            if part.weights is not None:
                return weighed(part.weights, torch.stack(scores))
            shares = torch.stack(scores).exp()
            return shares / (shares.sum() + (weights[f"{name}.sink"][h].exp() if part.sink else 0))

        def value(g, h=0, seen=seen, virtual=virtual):
            """What one head of values has at each of those that head h sees."""
            return torch.stack([values[s][g] for s in seen[h]] + [weights[f"{name}.virtual_value"][g, s] for s in virtual])

        if part.kind == "differential_attention":
            mixed = difference(part, name, weights, share, value, groups, run.layer)
        else:
            mixed = [share(h) @ value(h // (H // groups), h) for h in range(H)]
        if not cross and part.exclusive is not None:
            for h, m in enumerate(mixed):
                own = values[t][h // (H // groups)]
                strength = 1.0 if part.exclusive.strength == "whole" else torch.tanh(weights[f"{name}.exclusive.weight"][h])
                mixed[h] = m - strength * (m @ own) / (own @ own) * own
        if not cross and part.value_convolution is not None:
            n = part.value_convolution.kernel
            for h, m in enumerate(mixed):
                g = h // (H // groups)
                near = [(j, t + j - n // 2) for j in range(n) if 0 <= t + j - n // 2 < len(x)]
                filtered = sum(weights[f"{name}.value_convolution.weight"][g, j] * values[s][g] for j, s in near)
                mixed[h] = m + filtered
        if part.gate is not None:
            factor = gate(part.gate, f"{name}.gate", weights, v).view(len(mixed), -1)
            mixed = [m * factor[h] for h, m in enumerate(mixed)]
        read = norm(part.sub_norm, f"{name}.sub_norm", weights, torch.cat(mixed))
        out.append(linear(f"{name}.output", weights, torch.cat([read, *others[t]])))
    return out


def embedded(part, name, weights, heads, v, token):
    """The values of one token, each head plus its share of the token's row."""
    rows = part.scale * weights[f"{name}.table"][token].view(len(heads), -1)
    rows = rows if part.gate is None else rows * gate(part.gate, f"{name}.gate", weights, v).view(len(heads), -1)
    return [head + row for head, row in zip(heads, rows, strict=True)]


def weighed(weights, scores):
    """What stands in the place of the softmax, for the scores of one query."""
    if weights.kind == "sigmoid_weights":
        return 1 / (1 + (weights.length or len(scores)) * torch.exp(-scores))
    assert weights.kind == "softpick", weights.kind
    beyond = scores.exp() - 1
    return beyond.clamp(min=0) / (beyond.abs().sum() + weights.eps)


def difference(part, name, weights, share, value, groups, layer):
    """The second half of the heads taken from the first, over the values of both halves."""
    half = part.heads // 2
    first = 0.8 - 0.6 * math.exp(-0.3 * layer) if part.lambda_init == "by_layer" else part.lambda_init
    vector = lambda v: weights[f"{name}.lambda_{v}"]  # noqa: E731
    strength = (vector("query_1") @ vector("key_1")).exp() - (vector("query_2") @ vector("key_2")).exp() + first
    mixed = []
    for h in range(half):
        g = h // (part.heads // groups)
        both = torch.cat([value(g), value(g + groups // 2)], 1)
        out = (share(h) - strength * share(h + half)) @ both
        mixed.append(norm(part.head_norm, f"{name}.head_norm", weights, out) * (1 - first))
    return mixed


def block_sparse_attention(part, name, weights, x, run):
    """Attention over the chosen blocks, by masks of each head and query."""
    b, each = part.choice.block, part.heads // part.groups

    def chosen(t, h, query, keys):
        if part.choice.kind == "mean_keys":
            blocks = blocks_of_mean_keys(part.choice, query, keys, t)
        else:
            blocks = chosen_blocks(part.choice, f"{name}.choice", weights, x, t, h // each)
        return [s for s in range(t + 1) if s // b in blocks]

    return attention(part, name, weights, x, run, chosen)


def blocks_of_mean_keys(choice, query, keys, t):
    """The number of the query's own block, and of the earlier ones whose mean key has the greatest product with it."""
    b, own = choice.block, t // choice.block
    means = [sum(keys[j * b : (j + 1) * b]) / b for j in range(own)]
    best = sorted(range(own), key=lambda j: (query @ means[j]).item())
    return [own, *best[own - min(choice.keep - 1, own) :]]


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
