"""The naive twin: every architecture again, position by position and head by head in plain loops, from its weights by name.

It shares nothing with the package but the description. Run it in float64.
"""

from __future__ import annotations

import math

import naive_recurrent
import torch
from torch import Tensor

from anyformer.model import Architecture


def forward(
    architecture: Architecture, weights: dict[str, Tensor], tokens: list[int], target: list[int] | None = None, prefix: int = 0
):
    """Logits (T, V), or features, of one row: `tokens`, and in an encoder-decoder `target`."""
    tables = {
        "tokens": weights["embedding.weight"],
        "target": weights.get("decoder_embedding.weight", weights["embedding.weight"]),
    }
    embed = lambda name, part, ids: [part.scale * tables[name][i] for i in ids]  # noqa: E731
    second = architecture.decoder_embedding or architecture.embedding
    x = embed("tokens", architecture.embedding, tokens)
    if architecture.encoder is not None:
        x = run_stack(architecture.encoder, "encoder", weights, x, None, prefix, tokens)
    if architecture.latents is not None:
        if architecture.latents.position is not None:
            table = weights.get("latents.position.weight")
            x = [v + position(architecture.latents.position, t, table, len(v)) for t, v in enumerate(x)]
        x = run_stack(architecture.decoder, "decoder", weights, list(weights["latents.weight"]), x, prefix, None)
    elif architecture.encoder is None:
        x = run_stack(architecture.decoder, "decoder", weights, x, None, prefix, tokens)
    elif architecture.decoder is not None:
        x = run_stack(architecture.decoder, "decoder", weights, embed("target", second, target), x, prefix, target)
    if architecture.head is None:
        return torch.stack(x)
    head, rows = architecture.head, []
    table = tables["target"] if head.tied else weights["head.weight"]
    for features in x:
        z = table @ features + (weights["head.bias"] if head.bias else 0)
        z = z * head.scale
        rows.append(z if head.softcap is None else head.softcap * torch.tanh(z / head.softcap))
    return torch.stack(rows)


class Running:
    """What the layers of one stack share in one call."""

    def __init__(self, stack, name, source, prefix, tokens):
        self.stack, self.name, self.source, self.prefix, self.tokens = stack, name, source, prefix, tokens
        self.memories, self.variant = {}, ""


def run_stack(stack, name, weights, x, source, prefix, tokens):
    run = Running(stack, name, source, prefix, tokens)
    if stack.position is not None:
        x = [v + position(stack.position, t, weights.get(f"{name}.position.weight"), len(v)) for t, v in enumerate(x)]
    x = [norm(stack.input_norm, f"{name}.input_norm", weights, v) for v in x]
    streams = None if stack.streams is None else [[v] * stack.streams.count for v in x]
    for layer, variant in enumerate(stack.layers):
        # A shared variant's weights are those of its first layer.
        owner = stack.layers.index(variant) if variant in stack.shared_weights else layer
        path = f"{name}.layers.{owner}"
        run.variant = variant
        for number, step in enumerate(stack.variants[variant].steps):
            if streams is not None:
                place = owner * len(stack.variants[variant].steps) + number
                weighed = [weigh(stack.streams, f"{path}.step_{number}_streams", weights, v, place) for v in streams]
                x = [read for read, _, _ in weighed]
            read = [norm(step.norm_before, f"{path}.step_{number}_norm_before", weights, v) for v in x]
            x = [step.residual_scale * v for v in (read if step.residual == "normed" else x)]
            given = [torch.zeros_like(v) for v in x]
            for branch_name, branch in step.branches.items():
                inner = f"{path}.{branch_name}"
                y = [norm(branch.norm_before, f"{inner}.norm_before", weights, v) for v in read]
                y = SUBLAYERS[branch.sublayer.kind](branch.sublayer, f"{inner}.sublayer", weights, y, run)
                y = [norm(branch.norm_after, f"{inner}.norm_after", weights, v) for v in y]
                gain = weights[f"{inner}.gain"] if branch.gain else 1.0
                given = [a + branch.multiplier * gain * b for a, b in zip(given, y, strict=True)]
            if streams is not None:
                streams = [
                    [m + w * g for m, w in zip(mixed, write, strict=True)]
                    for (_, mixed, write), g in zip(weighed, given, strict=True)
                ]
            x = [
                norm(step.norm_after, f"{path}.step_{number}_norm_after", weights, a + b) for a, b in zip(x, given, strict=True)
            ]
    if streams is not None:
        x = [sum(v) for v in streams]
    return [norm(stack.final_norm, f"{name}.final_norm", weights, v) for v in x]


def weigh(part, name, weights, streams, place):
    """What a step reads of a position's streams, the mixed streams, and the weights it writes with."""
    N, read, mixed, write = part.count, 0, [0] * part.count, []
    for n, x in enumerate(streams):
        shift = torch.zeros(N + 2, dtype=torch.float64)
        if part.dynamic:
            shift = torch.tanh(weights[f"{name}.dynamic.weight"] @ (x / torch.sqrt((x * x).mean() + 1e-6)))
        strength = weights[f"{name}.strength"] if part.dynamic else torch.zeros(3)
        read = read + (weights[f"{name}.read_weight"][n] + (n == place % N) + strength[0] * shift[0]) * x
        write.append(weights[f"{name}.write_weight"][n] + 1 + strength[2] * shift[1])
        for to in range(N):
            mixed[to] = mixed[to] + (weights[f"{name}.mix_weight"][n, to] + (n == to) + strength[1] * shift[2 + to]) * x
    return read, mixed, write


def position(part, t, table, width):
    if part.kind == "learned_position":
        return table[t + part.offset]
    span = width if part.spacing == "paper" else width - 2
    angles = [(t + part.offset) * part.theta ** (-2 * i / span) for i in range(width // 2)]
    if part.layout == "halves":
        values = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
    else:
        values = [wave(a) for a in angles for wave in (math.sin, math.cos)]
    return torch.tensor(values, dtype=torch.float64)


def norm(part, name, weights, v):
    if part is None:
        return v
    if part.kind == "batch_norm":
        v = (v - weights[f"{name}.running_mean"]) / torch.sqrt(weights[f"{name}.running_variance"] + part.eps)
    elif part.kind == "group_norm":
        v = torch.cat([layer(group, part.eps) for group in v.chunk(part.groups)])
    elif part.kind == "layer_norm":
        v = layer(v, part.eps)
    else:
        v = v / torch.sqrt((v * v).sum() / len(v) + part.eps)
    if part.gain != "none":
        v = v * (weights[f"{name}.weight"] + (1 if part.gain == "one_plus_weight" else 0))
    return v + weights[f"{name}.bias"] if part.bias else v


def norm_of_each_head(part, name, weights, v, heads):
    """Each head normalised without a gain, then the gains of all of them."""
    bare = part.but(gain="none", bias=False)
    v = torch.cat([norm(bare, name, weights, head) for head in v.chunk(heads)])
    v = v * (weights[f"{name}.weight"] + (1 if part.gain == "one_plus_weight" else 0)) if part.gain != "none" else v
    return v + weights[f"{name}.bias"] if part.bias else v


def layer(v, eps):
    v = v - v.sum() / len(v)
    return v / torch.sqrt((v * v).sum() / len(v) + eps)


def linear(name, weights, v):
    y = weights[f"{name}.weight"] @ v
    return y + weights[f"{name}.bias"] if f"{name}.bias" in weights else y


def frequency(rotary, i, dims):
    """Of pair i of dims / 2."""
    base, scaling = rotary.theta ** (-2 * i / dims), rotary.scaling
    if scaling is None:
        return base
    match scaling.kind:
        case "linear":
            return base / scaling.factor
        case "proportional":
            return base / scaling.factor if i < int(scaling.fraction * dims / 2) else 0.0
        case "llama3":
            wave = 2 * math.pi / base
            if wave > scaling.trained / scaling.low:
                return base / scaling.factor
            if wave < scaling.trained / scaling.high:
                return base
            smooth = (scaling.trained / wave - scaling.low) / (scaling.high - scaling.low)
            return (1 - smooth) * base / scaling.factor + smooth * base
        case "yarn":
            turns = lambda beta: dims * math.log(scaling.trained / beta / 2 / math.pi) / 2 / math.log(rotary.theta)  # noqa: E731
            low, high = max(math.floor(turns(scaling.beta_fast)), 0), min(math.ceil(turns(scaling.beta_slow)), dims - 1)
            ramp = min(max((i - low) / max(high - low, 1e-3), 0), 1)
            return ramp * base / scaling.factor + (1 - ramp) * base
    raise AssertionError(scaling.kind)


def rotate(rotary, v, t):
    dims = int(len(v) * rotary.fraction)
    start = 0 if rotary.place == "first" else len(v) - dims
    loud = 1.0
    if rotary.scaling is not None and rotary.scaling.kind == "yarn":
        loud = rotary.scaling.attention_factor or 0.1 * math.log(rotary.scaling.factor) + 1
    out = list(v)
    for i in range(dims // 2):
        a, b = (i, i + dims // 2) if rotary.pairing == "halves" else (2 * i, 2 * i + 1)
        a, b = a + start, b + start
        angle = t * frequency(rotary, i, dims)
        cos, sin = loud * math.cos(angle), loud * math.sin(angle)
        out[a], out[b] = v[a] * cos - v[b] * sin, v[a] * sin + v[b] * cos
    return torch.stack(out)


def allowed(mask, q, k, prefix) -> bool:
    match mask.kind:
        case "causal":
            return k <= q
        case "bidirectional":
            return True
        case "window":
            return q - mask.size < k <= q + mask.after
        case "prefix":
            return k < prefix
        case "chunk":
            return q // mask.size == k // mask.size
        case "strided":
            return (q - k) % mask.stride == 0
        case "fixed":
            return k % mask.size in range(mask.size - mask.summary, mask.size)
        case "global_tokens":
            return k < mask.count or q < mask.count
        case "block_window":
            return q // mask.block - k // mask.block in range(mask.count)
        case "vertical_stride":
            return k // mask.block % mask.stride == mask.stride - 1
        case "all_of":
            return all(allowed(m, q, k, prefix) for m in mask.masks)
        case "any_of":
            return any(allowed(m, q, k, prefix) for m in mask.masks)
    raise AssertionError(mask.kind)


def alibi_slopes(kind, heads):
    """As the paper's code has it: exact powers, and for other numbers of heads those of the next power of two."""
    power = lambda n: [2 ** (-8 * (i + 1) / n) for i in range(n)]  # noqa: E731
    near = 1
    while near * 2 <= heads:
        near *= 2
    if near == heads:
        return power(heads)
    wide = power(2 * near)
    if kind == "ceiling":
        return (wide[1::2] + wide[0::2])[:heads]
    return power(near) + wide[0::2][: heads - near]


def bucket(part, relative):
    """T5's bucket of key - query, by counting up."""
    count, base = part.buckets, 0
    if part.two_sided:
        count //= 2
        base = count if relative > 0 else 0
        distance = abs(relative)
    else:
        distance = max(0, -relative)
    exact = count // 2
    if distance < exact:
        return base + distance
    steps = math.log(distance / exact) / math.log(part.max_distance / exact) * (count - exact)
    return base + min(exact + int(steps + 1e-6), count - 1)


def log_bucket(part, relative):
    """DeBERTa's row of query - key."""
    if part.max_distance is not None and abs(relative) > part.span // 2:
        middle = part.span // 2
        far = math.log(abs(relative) / middle) / math.log((part.max_distance - 1) / middle) * (middle - 1)
        relative = math.copysign(math.ceil(far - 1e-6) + middle, relative)
    return min(max(int(relative) + part.span, 0), 2 * part.span - 1)


def score_bias(part, attention, name, weights, stack, q, k, h, t, s):
    """What is added to the score of head h, query position t, key position s."""
    E, g = len(q), h // (attention.heads // (attention.kv_heads or attention.heads))
    scale = E**-0.5 if attention.scale is None else attention.scale
    match part.kind:
        case "alibi":
            return -alibi_slopes(part.slopes, attention.heads)[h] * abs(t - s) * (scale if part.before_scale else 1)
        case "relative_buckets":
            return weights[f"{name}.score_bias.weight"][bucket(part, s - t), h]
        case "transformer_xl":
            width = weights[f"{name}.query.weight"].shape[1]
            angles = [(t - s) * 10_000 ** (-2 * i / width) for i in range(width // 2)]
            waves = torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)
            r = (weights[f"{name}.score_bias.relative.weight"] @ waves)[h * E : (h + 1) * E]
            u, v = weights[f"{name}.score_bias.content_bias"][h], weights[f"{name}.score_bias.position_bias"][h]
            return ((q + v) @ r + u @ k) * scale
        case "disentangled":
            row = norm(
                stack.relative.norm,
                "decoder.relative.norm" if "decoder.relative.weight" in weights else "encoder.relative.norm",
                weights,
                weights.get("decoder.relative.weight", weights.get("encoder.relative.weight"))[log_bucket(part, t - s)],
            )
            own = "score_bias.position_" if not part.shared else ""
            total = 0.0
            if "content_to_position" in part.terms:
                total += q @ linear(f"{name}.{own}key", weights, row)[g * E : (g + 1) * E]
            if "position_to_content" in part.terms:
                total += k @ linear(f"{name}.{own}query", weights, row)[h * E : (h + 1) * E]
            return total * scale
    raise AssertionError(part.kind)


def temperature(part, t):
    if part is None:
        return 1.0
    if part.kind == "log_temperature":
        return 1 + part.strength * math.log(1 + (t + part.shift) // part.span)
    return max(1.0, math.log(t + 1) / math.log(part.trained))


def attention(part, name, weights, x, run):
    cross = part.kind == "cross_attention"
    reads = run.source if cross else x
    H, groups = part.heads, part.kv_heads or part.heads
    width = len(weights[f"{name}.query.weight"]) // H
    rotary = None if cross else part.rotary
    late = not cross and part.qk_norm_at == "after_rotary"

    def project(kind, v, count):
        y = linear(f"{name}.{kind}", weights, v)
        return y if part.clip is None else y.clamp(-part.clip, part.clip)

    def heads_of(kind, v, t, count):
        y = project(kind, v, count)
        if part.qk_norm is not None and part.qk_norm_over == "projection":
            y = norm(part.qk_norm, f"{name}.{kind}_norm", weights, y)
        if part.qk_norm is not None and part.qk_norm_over == "each_head":
            y = norm_of_each_head(part.qk_norm, f"{name}.{kind}_norm", weights, y, count)
        split = list(y.view(count, width))
        early = part.qk_norm is not None and part.qk_norm_over == "head" and not late
        if early:
            split = [norm(part.qk_norm, f"{name}.{kind}_norm", weights, h) for h in split]
        if rotary is not None:
            split = [rotate(rotary, h, t) for h in split]
        return [norm(part.qk_norm, f"{name}.{kind}_norm", weights, h) for h in split] if late else split

    if not cross and part.keys_from is not None:
        keys, values = run.memories[part.keys_from]
    else:
        keys = [heads_of("key", w, s, groups) for s, w in enumerate(reads)]
        kind = "key" if part.values == "keys" else "value"
        values = [
            [norm(part.value_norm, f"{name}.value_norm", weights, h) for h in project(kind, w, groups).view(groups, width)]
            for w in reads
        ]
        if not cross:
            run.memories[run.variant] = keys, values
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


def gate(part, name, weights, v):
    y = linear(f"{name}.projection", weights, v if part.rank is None else linear(f"{name}.down", weights, v))
    match part.activation:
        case "sigmoid":
            return 1 / (1 + torch.exp(-y))
        case "softplus":
            return torch.log(1 + torch.exp(y))
        case "silu":
            return y / (1 + torch.exp(-y))
    raise AssertionError(part.activation)


def softmax(scores):
    share = torch.stack(scores).exp()
    return share / share.sum()


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
            values = [torch.cat([split("value", x[s])[g], split("value", x[s])[g + groups]]) for s in seen]
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


def softplus(x):
    return torch.log(1 + torch.exp(x))


ACTIVATIONS = {
    "relu": lambda x: x * (x > 0),
    "relu_squared": lambda x: (x * (x > 0)) ** 2,
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "quick_gelu": lambda x: x / (1 + torch.exp(-1.702 * x)),
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
    "silu": lambda x: x / (1 + torch.exp(-x)),
}


def activate(part, name, weights, x):
    scalar = lambda key: weights[f"{name}.activation.{key}"]  # noqa: E731
    if part.activation == "swish":
        return x / (1 + torch.exp(-scalar("beta") * x))
    if part.activation == "xielu":
        a, b = softplus(scalar("positive")), 0.5 + softplus(scalar("negative"))
        return torch.where(x > 0, a * x**2 + 0.5 * x, b * (torch.exp(x.clamp(max=0)) - 1 - x) + 0.5 * x)
    return ACTIVATIONS[part.activation](x)


def feedforward(part, name, weights, x, run):
    bound = math.inf if part.clamp is None else part.clamp
    out = []
    for v in x:
        up = linear(f"{name}.up", weights, v)
        if part.gated:
            gate = linear(f"{name}.gate", weights, v).clamp(max=bound)
            h = activate(part, name, weights, gate) * (up.clamp(-bound, bound) + part.up_offset)
        else:
            h = activate(part, name, weights, up.clamp(max=bound))
        out.append(linear(f"{name}.down", weights, norm(part.sub_norm, f"{name}.sub_norm", weights, h)))
    return out


def scramble(n):
    """The 32-bit mixer, in Python's own integers."""
    n ^= n >> 16
    n = n * 0x21F0AAAD % 2**32
    n ^= n >> 15
    n = n * 0x735A2D97 % 2**32
    return n ^ (n >> 15)


SCORES = {
    "softmax": lambda logits: list(softmax(logits)),
    "sigmoid": lambda logits: [1 / (1 + torch.exp(-z)) for z in logits],
    "sqrt_softplus": lambda logits: [torch.sqrt(torch.log(1 + torch.exp(z))) for z in logits],
    "equal": lambda logits: None,
}


def preferences(part, name, weights, scores, token):
    """How much one token wants each expert, before a capacity."""
    choice, experts = part.router.choice, range(part.experts)
    if choice.kind == "hashed":
        key = scramble(token ^ choice.seed * 0x9E3779B1 % 2**32)
        return [scramble(key ^ scramble(e)) for e in experts]
    wanted = [score.item() for score in scores]
    if choice.kind == "top_k" and choice.correction is not None:
        wanted = [w + weights[f"{name}.router.correction"][e].item() for e, w in enumerate(wanted)]
    if choice.kind == "top_k" and choice.groups is not None:
        groups, size = choice.groups, part.experts // choice.groups.count
        best = lambda g: sorted(wanted[g * size : (g + 1) * size])[-1 if groups.score == "max" else -2 :]  # noqa: E731
        kept = sorted(range(groups.count), key=lambda g: -sum(best(g)))[: groups.keep]
        wanted = [w if e // size in kept else -math.inf for e, w in enumerate(wanted)]
    return wanted


def routed(part, name, weights, v, token):
    """(expert, weight) of the experts that one token passes."""
    router = part.router
    logits = [] if router.score == "equal" else list(linear(f"{name}.router", weights, v))
    scores = SCORES[router.score](logits)
    wanted = preferences(part, name, weights, scores, token)
    chosen = sorted(range(part.experts), key=lambda e: -wanted[e])[: part.chosen]
    if scores is None:
        shares = [1 / part.chosen] * part.chosen
    elif router.over == "chosen":
        shares = softmax([logits[e] for e in chosen])
    else:
        shares = [scores[e] for e in chosen]
        if router.renormalise is not None:
            shares = [share / (sum(shares) + router.renormalise.eps) for share in shares]
    return [(e, router.scale * share) for e, share in zip(chosen, shares, strict=True)]


def expert(part, name, weights, e, v):
    """One expert's network on one token."""
    act = ACTIVATIONS[part.activation]

    def project(kind, z):
        y = weights[f"{name}.{kind}"][e] @ z
        return y + weights[f"{name}.{kind}_bias"][e] if kind in part.bias else y

    up = project("up", v)
    return project("down", act(project("gate", v)) * up if part.gated else act(up))


def experts(part, name, weights, x, run):
    """Token by token and expert by expert; without a capacity."""
    out = []
    for t, v in enumerate(x):
        y = torch.zeros_like(v)
        for e, share in routed(part, name, weights, v, run.tokens[t]):
            if part.weigh == "input":
                y = y + expert(part, name, weights, e, share * v)
            else:
                y = y + share * expert(part, name, weights, e, v)
        if part.shared is not None:
            shared = feedforward(part.shared.feedforward, f"{name}.shared", weights, [v], run)[0]
            if part.shared.gate is not None:
                shared = shared / (1 + torch.exp(-linear(f"{name}.shared_gate", weights, v)))
            y = y + shared
        out.append(y)
    return out


def layer_embedding(part, name, weights, x, run):
    rows = [weights[f"{name}.table.weight"][token] * part.scale for token in run.tokens]
    gates = [activate(part, name, weights, linear(f"{name}.input", weights, v)) for v in x]
    return [linear(f"{name}.output", weights, gate * row) for gate, row in zip(gates, rows, strict=True)]


def induced_attention(part, name, weights, x, run):
    gather, scatter = Running(run.stack, run.name, x, 0, None), Running(run.stack, run.name, None, 0, None)
    scatter.source = attention(part.attention, f"{name}.gather", weights, list(weights[f"{name}.points"]), gather)
    return attention(part.attention, f"{name}.scatter", weights, x, scatter)


SUBLAYERS = naive_recurrent.SUBLAYERS | {
    "induced_attention": induced_attention,
    "layer_embedding": layer_embedding,
    "attention": attention,
    "differential_attention": differential_attention,
    "latent_attention": latent_attention,
    "cross_attention": attention,
    "feedforward": feedforward,
    "experts": experts,
}
