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
    architecture: Architecture, weights: dict[str, Tensor], tokens: list, target: list[int] | None = None, prefix: int = 0
):
    """Logits (T, V) or (V), or features, of one row: `tokens` (or features, or an image), and of two inputs the `target`."""
    second = "embedding" if architecture.decoder_embedding is None else "decoder_embedding"
    entrance = architecture.decoder_embedding or architecture.embedding
    x = ENTRANCES[architecture.embedding.kind](architecture.embedding, "embedding", weights, tokens)
    own = [] if target is None else ENTRANCES[entrance.kind](entrance, second, weights, target)
    if architecture.encoder is not None:
        x = run_stack(architecture.encoder, "encoder", weights, x, None, prefix, tokens)
    if architecture.latents is not None:
        if architecture.latents.position is not None:
            table = weights.get("latents.position.weight")
            x = [v + position(architecture.latents.position, t, table, len(v)) for t, v in enumerate(x)]
        x = run_stack(architecture.decoder, "decoder", weights, list(weights["latents.weight"]), x, prefix, None)
    elif architecture.source == "prefix":
        x = run_stack(architecture.decoder, "decoder", weights, x + own, None, len(x), None)[len(x) :]
    elif target is not None:
        x = run_stack(architecture.decoder, "decoder", weights, own, x, prefix, target)
    elif architecture.encoder is None:
        x = run_stack(architecture.decoder, "decoder", weights, x, None, prefix, tokens)
    if architecture.head is None:
        return torch.stack(x)
    return logits(architecture.head, weights, x, f"{second}.weight")


def logits(head, weights, x, table):
    if head.pool is not None:
        x = [x[0] if head.pool == "first" else sum(x) / len(x)]
    rows = []
    for features in x:
        if head.transform is not None:
            features = linear("head.transform.dense", weights, features)
            if head.transform.activation is not None:
                features = activate(head.transform, "head.transform", weights, features)
            features = norm(head.transform.norm, "head.transform.norm", weights, features)
        if head.outputs == "features":
            rows.append(features)
            continue
        z = weights[table if head.tied else "head.weight"] @ features + (weights["head.bias"] if head.bias else 0)
        z = z * head.scale
        rows.append(z if head.softcap is None else head.softcap * torch.tanh(z / head.softcap))
    return rows[0] if head.pool is not None else torch.stack(rows)


def tokens_enter(part, name, weights, tokens):
    rows = [part.scale * weights[f"{name}.weight"][token] for token in tokens]
    if part.masked is not None:
        seen = 1 - tokens.count(part.masked.token) / len(tokens)
        rows = [
            row * (0 if token == part.masked.token else (1 - part.masked.share) / seen)
            for row, token in zip(rows, tokens, strict=True)
        ]
    return [row + weights[f"{name}.types"][0] for row in rows] if part.types else rows


def features_enter(part, name, weights, vectors):
    return [norm(part.norm, f"{name}.norm", weights, linear(f"{name}.projection", weights, numbers(v))) for v in vectors]


def patches_enter(part, name, weights, image):
    p, rows = part.size, len(image[0]) // part.size
    patches = []
    for row in range(rows):
        for column in range(len(image[0][0]) // p):
            pixels = [image[c][row * p + i][column * p + j] for c in range(part.channels) for i in range(p) for j in range(p)]
            patches.append(linear(f"{name}.projection", weights, numbers(pixels)))
    return [weights[f"{name}.class_tokens"][i] for i in range(part.class_tokens)] + patches


def frames_enter(part, name, weights, frames):
    first = convolve(weights, f"{name}.first", [numbers(v) for v in frames])
    return convolve(weights, f"{name}.second", first)[::2]


def gated_frames_enter(part, name, weights, frames):
    rows = [numbers(v) for v in frames]
    for i, kernel in enumerate(part.kernels):
        halved = []
        for t in range(0, len(rows), 2):
            y = weights[f"{name}.layers.{i}.bias"]
            for offset in range(kernel):
                if 0 <= t + offset - kernel // 2 < len(rows):
                    y = y + weights[f"{name}.layers.{i}.weight"][:, :, offset] @ rows[t + offset - kernel // 2]
            half = len(y) // 2
            halved.append(y[:half] / (1 + torch.exp(-y[half:])))
        rows = halved
    return [part.scale * row for row in rows]


def convolve(weights, name, rows):
    """A kernel of three over time, and GELU."""
    outputs = []
    for t in range(len(rows)):
        y = weights[f"{name}.bias"]
        for offset in (-1, 0, 1):
            if 0 <= t + offset < len(rows):
                y = y + weights[f"{name}.weight"][:, :, offset + 1] @ rows[t + offset]
        outputs.append(torch.nn.functional.gelu(y))
    return outputs


def numbers(values):
    return torch.tensor(values, dtype=torch.float64)


ENTRANCES = {
    "tokens": tokens_enter,
    "features": features_enter,
    "patches": patches_enter,
    "audio_frames": frames_enter,
    "gated_frames": gated_frames_enter,
}


class Running:
    """What the layers of one stack share in one call."""

    def __init__(self, stack, name, source, prefix, tokens):
        self.stack, self.name, self.source, self.prefix, self.tokens = stack, name, source, prefix, tokens
        self.memories, self.variant = {}, ""


def run_stack(stack, name, weights, x, source, prefix, tokens):
    run = Running(stack, name, source, prefix, tokens)
    if stack.input_projection is not None and stack.input_projection.place == "first":
        x = [linear(f"{name}.input_projection", weights, v) for v in x]
    if stack.input_norm_at == "before_position":
        x = [norm(stack.input_norm, f"{name}.input_norm", weights, v) for v in x]
    if stack.position is not None:
        x = [v + position(stack.position, t, weights.get(f"{name}.position.weight"), len(v)) for t, v in enumerate(x)]
    if stack.input_norm_at == "after_position":
        x = [norm(stack.input_norm, f"{name}.input_norm", weights, v) for v in x]
    if stack.input_projection is not None and stack.input_projection.place == "last":
        x = [linear(f"{name}.input_projection", weights, v) for v in x]
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
            given = [norm(step.norm_branches, f"{path}.step_{number}_norm_branches", weights, v) for v in given]
            if streams is not None:
                streams = [
                    [m + w * g for m, w in zip(mixed, write, strict=True)]
                    for (_, mixed, write), g in zip(weighed, given, strict=True)
                ]
            x = [
                norm(step.norm_after, f"{path}.step_{number}_norm_after", weights, a + b) for a, b in zip(x, given, strict=True)
            ]
            x = [weights[f"{path}.step_{number}_gain"] * v for v in x] if step.gain else x
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


def alibi_slopes(heads):
    """As MPT has it: those of the next power of two, every second one first."""
    power = 1
    while power < heads:
        power *= 2
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    return slopes if power == heads else (slopes[1::2] + slopes[0::2])[:heads]


def bfloat16(x):
    """Eight significant bits, halves to even."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(round(mantissa * 256), exponent - 8)


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
            slope, factor = alibi_slopes(attention.heads)[h], scale if part.before_scale else 1
            if part.rounded_to == "bfloat16":
                return -factor * abs(bfloat16(bfloat16(slope) * bfloat16(t)) - bfloat16(bfloat16(slope) * bfloat16(s)))
            return -factor * slope * abs(t - s)
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
            [
                norm(part.value_norm, f"{name}.value_norm", weights, h) * part.value_scale
                for h in project(kind, w, groups).view(groups, -1)
            ]
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


def softplus(x):
    return torch.log(1 + torch.exp(x))


ACTIVATIONS = {
    "relu": lambda x: x * (x > 0),
    "relu_squared": lambda x: (x * (x > 0)) ** 2,
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "quick_gelu": lambda x: x / (1 + torch.exp(-1.702 * x)),
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
    "tanh": lambda x: (torch.exp(x) - torch.exp(-x)) / (torch.exp(x) + torch.exp(-x)),
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


def between(part, act, gate, up):
    """What stands between a network's projections."""
    bound = math.inf if part.clamp is None else part.clamp
    early = part.clamp_at == "before_activation"
    bounded = lambda v: act(v.clamp(max=bound)) if early else act(v).clamp(max=bound)  # noqa: E731
    return bounded(up) if gate is None else bounded(gate) * (up.clamp(-bound, bound) + part.up_offset)


def feedforward(part, name, weights, x, run):
    out = []
    for v in x:
        gate = linear(f"{name}.gate", weights, v) if part.gated else None
        h = between(part, lambda z: activate(part, name, weights, z), gate, linear(f"{name}.up", weights, v))
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


def preferences(part, name, weights, logits, scores, token):
    """How much one token wants each expert, before a capacity."""
    choice, experts = part.router.choice, range(part.experts + part.identity_experts)
    if choice.kind == "hashed":
        key = scramble(token ^ choice.seed * 0x9E3779B1 % 2**32)
        return [scramble(key ^ scramble(e)) for e in experts]
    by_logits = choice.kind == "sparse_mixer" or (choice.kind == "top_k" and choice.by == "logits")
    wanted = [z.item() for z in (logits if by_logits else scores)]
    if choice.kind == "top_k" and choice.correction is not None:
        wanted = [w + weights[f"{name}.router.correction"][e].item() for e, w in enumerate(wanted)]
    if choice.kind == "top_k" and choice.groups is not None:
        groups, size = choice.groups, len(experts) // choice.groups.count
        best = lambda g: sorted(wanted[g * size : (g + 1) * size])[-1 if groups.score == "max" else -2 :]  # noqa: E731
        kept = sorted(range(groups.count), key=lambda g: -sum(best(g)))[: groups.keep]
        outside = -math.inf if groups.others == "never" else 0.0
        wanted = [w if e // size in kept else outside for e, w in enumerate(wanted)]
    return wanted


def near_shares(choice, logits, chosen):
    """Each choice's share of a softmax over the experts near the best one left."""
    shares, left = [], list(range(len(logits)))
    for e in chosen:
        most = max(logits[o].item() for o in left)
        near = [o for o in left if most - logits[o].item() <= choice.margin * max(abs(logits[o].item()), most)]
        shares.append(logits[e].exp() / sum(logits[o].exp() for o in near))
        left.remove(e)
    return shares


def routed(part, name, weights, v, token):
    """(expert, weight) of the experts that one token passes."""
    router, logits = part.router, []
    if router.score != "equal":
        read = norm(router.norm, f"{name}.router.norm", weights, v) * router.multiplier
        logits = list(linear(f"{name}.router", weights, read))
        if router.softcap is not None:
            logits = [router.softcap * torch.tanh(z / router.softcap) for z in logits]
    scores = SCORES[router.score](logits)
    wanted = preferences(part, name, weights, logits, scores, token)
    chosen = sorted(range(len(wanted)), key=lambda e: -wanted[e])[: part.chosen]
    if scores is None:
        shares = [1 / part.chosen] * part.chosen
    elif router.over == "chosen":
        shares = softmax([logits[e] for e in chosen])
    elif router.choice.kind == "sparse_mixer":
        shares = near_shares(router.choice, logits, chosen)
    else:
        shares = [scores[e] for e in chosen]
        if router.renormalise is not None:
            among = (sum(shares) + router.renormalise.eps).clamp(min=router.renormalise.least)
            shares = [share / among for share in shares]
    scales = weights[f"{name}.router.expert_scale"] if router.expert_scale else torch.ones(len(wanted))
    return [(e, router.scale * share * scales[e]) for e, share in zip(chosen, shares, strict=True)]


def expert(part, name, weights, e, v):
    """One expert's network on one token."""
    if e >= part.experts:
        return v

    def project(kind, z):
        y = weights[f"{name}.{kind}"][e] @ z
        return y + weights[f"{name}.{kind}_bias"][e] if kind in part.bias else y

    gate = project("gate", v) if part.gated else None
    return project("down", between(part, ACTIVATIONS[part.activation], gate, project("up", v)))


def experts(part, name, weights, x, run):
    """Token by token and expert by expert; without a capacity over rows."""
    out, asked = [], {}
    for t, v in enumerate(x):
        read = norm(part.norm, f"{name}.norm", weights, v)
        y = torch.zeros_like(v)
        for e, share in routed(part, name, weights, v, run.tokens[t]):
            asked[e] = asked.get(e, 0) + 1
            if part.capacity is not None and part.capacity.kind == "row" and asked[e] > part.capacity.tokens:
                continue
            if part.weigh == "input":
                y = y + expert(part, name, weights, e, share * read)
            else:
                y = y + share * expert(part, name, weights, e, read)
        if part.shared is not None:
            shared = feedforward(part.shared.feedforward, f"{name}.shared", weights, [read], run)[0]
            if part.shared.gate is not None:
                shared = shared / (1 + torch.exp(-linear(f"{name}.shared_gate", weights, read)))
            y = y + shared if part.shared.join == "sum" else (y + shared) / 2
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


SUBLAYERS = naive_recurrent.SUBLAYERS | {
    "induced_attention": induced_attention,
    "channel_cross_attention": channel_cross_attention,
    "spatial_cross_attention": spatial_cross_attention,
    "layer_embedding": layer_embedding,
    "attention": attention,
    "differential_attention": differential_attention,
    "latent_attention": latent_attention,
    "cross_attention": attention,
    "feedforward": feedforward,
    "experts": experts,
}
