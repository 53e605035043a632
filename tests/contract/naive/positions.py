"""Rotary positions, masks, and what is added to scores."""

from __future__ import annotations

import math

import torch

from naive.basics import linear, norm


def frequency(rotary, i, dims, length):
    """Of pair i of dims / 2, in a text of so many positions."""
    base, scaling = rotary.theta ** (-2 * i / dims), rotary.scaling
    if scaling is None:
        return base
    match scaling.kind:
        case "linear":
            return base / scaling.factor
        case "dynamic":
            grown = scaling.factor * max(length, scaling.trained) / scaling.trained - (scaling.factor - 1)
            return (rotary.theta * grown ** (dims / (dims - 2))) ** (-2 * i / dims)
        case "longrope":
            return base / (scaling.long if length > scaling.trained else scaling.short)[i]
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
            low, high = turns(scaling.beta_fast), turns(scaling.beta_slow)
            low, high = (math.floor(low), math.ceil(high)) if scaling.truncate else (low, high)
            low, high = max(low, 0), min(high, dims - 1)
            ramp = min(max((i - low) / max(high - low, 1e-3), 0), 1)
            return ramp * base / scaling.factor + (1 - ramp) * base
    raise AssertionError(scaling.kind)


def along(rotary, i, pairs, t, axes):
    """What turns pair i: its position on its axis, and the number of the pair in a head of that axis alone."""
    if rotary.axes is None:
        return t, i, pairs
    match rotary.axes.kind:
        case "sections":
            axis = [axis for axis, size in enumerate(rotary.axes.sizes) for _ in range(size)][i]
        case "interleaved":
            axis = i % len(rotary.axes.sizes)
            axis = axis if axis and i < len(rotary.axes.sizes) * rotary.axes.sizes[axis] else 0
        case "axial":
            share = pairs // rotary.axes.axes
            at = t if axes is None else axes[i // share]
            if rotary.axes.frequencies == "dealt":
                return at, i % share * rotary.axes.axes + i // share, pairs
            return at, i % share, share
    return (t if axes is None else axes[axis]), i, pairs


def rotate(rotary, v, t, length, axes=None):
    dims = int(len(v) * rotary.fraction)
    start = 0 if rotary.place == "first" else len(v) - dims
    loud = 1.0
    if rotary.scaling is not None and rotary.scaling.kind == "yarn":
        loud = rotary.scaling.attention_factor or 0.1 * math.log(rotary.scaling.factor) + 1
    if rotary.scaling is not None and rotary.scaling.kind == "longrope":
        loud = rotary.scaling.attention_factor
    out = list(v)
    for i in range(dims // 2):
        a, b = (i, i + dims // 2) if rotary.pairing == "halves" else (2 * i, 2 * i + 1)
        a, b = a + start, b + start
        turned, number, pairs = along(rotary, i, dims // 2, t, axes)
        angle = turned * frequency(rotary, number, 2 * pairs, length)
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


def score_bias(part, attention, name, weights, stack, q, k, h, t, s, x):
    """What is added to the score of head h, query position t, key position s; x: what the attention reads at t."""
    E, g = len(q), h // (attention.heads // (attention.kv_heads or attention.heads))
    scale = E**-0.5 if attention.score.scale is None else attention.score.scale
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
        case "relative_logits" | "clipped_relative_logits":
            if not 0 <= t - s < part.extent:
                return 0.0
            r = (weights[f"{name}.score_bias.states.weight"] @ x)[h * part.features : (h + 1) * part.features]
            if part.kind == "clipped_relative_logits":
                r = temperature(part.temperature, t) * clipped(weights[f"{name}.score_bias.scale"][h] * r, part.bound)
            return r @ weights[f"{name}.score_bias.profiles.weight"][t - s]
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


def clipped(v, bound):
    """A vector, or one of its direction and of length `bound` where it is longer."""
    return v * (bound / (torch.sqrt(v @ v) + 1e-6)).clamp(max=1.0)


def temperature(part, t):
    if part is None:
        return 1.0
    if part.kind == "log_temperature":
        return 1 + part.strength * math.log(1 + (t + part.shift) // part.span)
    if part.kind == "late_temperature":
        return 1 + part.strength * math.log(max((t + 1) / part.floor, 1.0))
    if part.kind == "power_temperature":
        return (1 + (t + part.shift) / part.span) ** part.power
    return max(1.0, math.log(t + 1) / math.log(part.trained))
