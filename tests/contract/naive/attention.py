"""Softmax attention, position by position and head by head."""

from __future__ import annotations

import torch

from naive.basics import gate, linear, norm, norm_of_each_head, softmax
from naive.positions import allowed, bucket, rotate, score_bias, temperature


def attention(part, name, weights, x, run):
    cross = part.kind == "cross_attention"
    reads = run.source if cross else x
    H, groups = part.heads, part.kv_heads or part.heads
    width = len(weights[f"{name}.query.weight"]) // H
    rotary = None if cross else part.rotary
    late = not cross and part.qk_norm is not None and part.qk_norm.at == "after_rotary"

    def project(kind, v, count):
        y = linear(f"{name}.{kind}", weights, v)
        return y if part.clip is None else y.clamp(-part.clip, part.clip)

    def heads_of(kind, v, t, count):
        y = project(kind, v, count)
        if part.qk_norm is not None and part.qk_norm.over == "projection":
            y = norm(part.qk_norm.norm, f"{name}.{kind}_norm", weights, y)
        if part.qk_norm is not None and part.qk_norm.over == "each_head":
            y = norm_of_each_head(part.qk_norm.norm, f"{name}.{kind}_norm", weights, y, count)
        split = list(y.view(count, width))
        early = part.qk_norm is not None and part.qk_norm.over == "head" and not late
        if early:
            split = [norm(part.qk_norm.norm, f"{name}.{kind}_norm", weights, h) for h in split]
        if rotary is not None:
            split = [rotate(rotary, h, t) for h in split]
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
            for w in reads
        ]
        if not cross and part.value_residual is not None:
            mix, others = part.value_residual, run.values[part.value_residual.variant]
            values = [
                [mix.own * v + mix.other * o for v, o in zip(*both, strict=True)] for both in zip(values, others, strict=True)
            ]
        if not cross:
            run.memories[run.variant], run.values[run.variant] = (keys, values), values
    out = []
    for t, v in enumerate(x):
        queries, mixed = heads_of("query", v, t, H), []
        for h in range(H):
            g = h // (H // groups)
            q = queries[h] * (1.0 if cross else temperature(part.temperature, t))
            scores, seen = [], []
            for s in range(len(reads)):
                if not cross and not allowed(part.mask, t, s, run.prefix):
                    continue
                score = (q * keys[s][g]).sum() * (width**-0.5 if part.scale is None else part.scale)
                if not cross and part.score_bias is not None:
                    score = score + score_bias(part.score_bias, part, name, weights, run.stack, q, keys[s][g], h, t, s)
                if not cross and run.stack.score_bias is not None:
                    score = score + weights[f"{run.name}.score_bias.weight"][bucket(run.stack.score_bias.buckets, s - t), h]
                scores.append(score)
                seen.append(values[s][g])
            for s in range(0 if cross else part.virtual_tokens or 0):
                scores.append((q @ weights[f"{name}.virtual_key"][g, s]) * (width**-0.5 if part.scale is None else part.scale))
                seen.append(weights[f"{name}.virtual_value"][g, s])
            if part.softcap is not None:
                scores = [part.softcap * torch.tanh(score / part.softcap) for score in scores]
            share = torch.stack(scores).exp()
            share = share / (share.sum() + (weights[f"{name}.sink"][h].exp() if part.sink else 0))
            mixed.append(sum(a * b for a, b in zip(share, seen, strict=True)))
        if part.gate is not None:
            factor = gate(part.gate, f"{name}.gate", weights, v).view(H, -1)
            mixed = [m * factor[h] for h, m in enumerate(mixed)]
        out.append(linear(f"{name}.output", weights, norm(part.sub_norm, f"{name}.sub_norm", weights, torch.cat(mixed))))
    return out


def differential_attention(part, name, weights, x, run):
    """Both maps over all pairs of heads, in full."""
    half, groups = part.heads // 2, (part.kv_heads or part.heads) // 2
    E = len(weights[f"{name}.query.weight"]) // part.heads
    vector = lambda v: weights[f"{name}.lambda_{v}"]  # noqa: E731
    strength = (vector("query_1") @ vector("key_1")).exp() - (vector("query_2") @ vector("key_2")).exp() + part.lambda_init
    split = lambda kind, v: linear(f"{name}.{kind}", weights, v).view(-1, E)  # noqa: E731
    turn = lambda h, t: h if part.rotary is None else rotate(part.rotary, h, t)  # noqa: E731
    scale = E**-0.5 if part.scale is None else part.scale
    out = []
    for t, v in enumerate(x):
        q, heads = split("query", v), []
        seen = [s for s in range(len(x)) if allowed(part.mask, t, s, run.prefix)]
        for h in range(half):
            g, maps = h // (half // groups), []
            for first, group in ((h, g), (h + half, g + groups)):
                maps.append(softmax([turn(q[first], t) @ turn(split("key", x[s])[group], s) * scale for s in seen]))
            shares = maps[0] - strength * maps[1]
            wide = [linear(f"{name}.value", weights, x[s]).view(2 * groups, -1) * part.value_scale for s in seen]
            values = [torch.cat([w[g], w[g + groups]]) for w in wide]
            mixed = sum(a * b for a, b in zip(shares, values, strict=True))
            heads.append(norm(part.head_norm, f"{name}.head_norm", weights, mixed) * (1 - part.lambda_init))
        out.append(linear(f"{name}.output", weights, torch.cat(heads)))
    return out


def latent_attention(part, name, weights, x, run):
    """Keys and values of every head written out."""
    N, P, H = part.nope_width, part.rope_width, part.heads
    turn = lambda h, t: h if part.rotary is None else rotate(part.rotary, h, t)  # noqa: E731
    keys, values, out = [], [], []
    for s, v in enumerate(x):
        c = norm(part.norm, f"{name}.kv_norm", weights, linear(f"{name}.kv_down", weights, v))
        rope = turn(linear(f"{name}.rope_key", weights, v), s)
        up = (weights[f"{name}.key_up.weight"] @ c).view(H, N)
        keys.append([torch.cat([up[h], rope]) for h in range(H)])
        values.append((weights[f"{name}.value_up.weight"] @ c).view(H, -1))
    for t, v in enumerate(x):
        c = v
        if part.q_rank is not None:
            c = norm(part.norm, f"{name}.query_norm", weights, linear(f"{name}.query_down", weights, v))
        queries, mixed = (weights[f"{name}.query_up.weight"] @ c).view(H, N + P), []
        for h in range(H):
            q = torch.cat([queries[h][:N], turn(queries[h][N:], t)])
            seen = [s for s in range(len(x)) if allowed(part.mask, t, s, run.prefix)]
            scale = (N + P) ** -0.5 if part.scale is None else part.scale
            share = softmax([q @ keys[s][h] * scale for s in seen])
            mixed.append(sum(a * values[s][h] for a, s in zip(share, seen, strict=True)))
        if part.gate is not None:
            factor = gate(part.gate, f"{name}.gate", weights, v).view(H, -1)
            mixed = [m * factor[h] for h, m in enumerate(mixed)]
        out.append(linear(f"{name}.output", weights, torch.cat(mixed)))
    return out
