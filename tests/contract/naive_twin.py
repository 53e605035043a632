"""The naive twin: every architecture again, position by position and head by head in plain loops, from its weights by name.

It shares nothing with the package but the description. Run it in float64.
"""

from __future__ import annotations

import math

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
    if architecture.encoder is None:
        x = run_stack(architecture.decoder, "decoder", weights, embed("tokens", architecture.embedding, tokens), None, prefix)
    else:
        x = run_stack(architecture.encoder, "encoder", weights, embed("tokens", architecture.embedding, tokens), None, prefix)
        if architecture.decoder is not None:
            x = run_stack(architecture.decoder, "decoder", weights, embed("target", second, target), x, prefix)
    if architecture.head is None:
        return torch.stack(x)
    head, rows = architecture.head, []
    table = tables["target"] if head.tied else weights["head.weight"]
    for features in x:
        z = table @ features + (weights["head.bias"] if head.bias else 0)
        z = z * head.scale
        rows.append(z if head.softcap is None else head.softcap * torch.tanh(z / head.softcap))
    return torch.stack(rows)


def run_stack(stack, name, weights, x, source, prefix):
    if stack.position is not None:
        x = [v + position(stack.position, t, weights.get(f"{name}.position.weight"), len(v)) for t, v in enumerate(x)]
    x = [norm(stack.input_norm, f"{name}.input_norm", weights, v) for v in x]
    for layer, variant in enumerate(stack.layers):
        path = f"{name}.layers.{layer}"
        for number, step in enumerate(stack.variants[variant].steps):
            read = [norm(step.norm_before, f"{path}.step_{number}_norm_before", weights, v) for v in x]
            for branch_name, branch in step.branches.items():
                inner = f"{path}.{branch_name}"
                y = [norm(branch.norm_before, f"{inner}.norm_before", weights, v) for v in read]
                y = SUBLAYERS[branch.sublayer.kind](branch.sublayer, f"{inner}.sublayer", weights, y, source, prefix)
                y = [norm(branch.norm_after, f"{inner}.norm_after", weights, v) for v in y]
                x = [a + branch.multiplier * b for a, b in zip(x, y, strict=True)]
            x = [norm(step.norm_after, f"{path}.step_{number}_norm_after", weights, v) for v in x]
    return [norm(stack.final_norm, f"{name}.final_norm", weights, v) for v in x]


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
    if part.kind == "layer_norm":
        v = v - v.sum() / len(v)
    v = v / torch.sqrt((v * v).sum() / len(v) + part.eps)
    if part.gain != "none":
        v = v * (weights[f"{name}.weight"] + (1 if part.gain == "one_plus_weight" else 0))
    return v + weights[f"{name}.bias"] if part.bias else v


def linear(name, weights, v):
    y = weights[f"{name}.weight"] @ v
    return y + weights[f"{name}.bias"] if f"{name}.bias" in weights else y


def rotate(rotary, v, t):
    dims = int(len(v) * rotary.fraction)
    out = list(v)
    for i in range(dims // 2):
        a, b = (i, i + dims // 2) if rotary.pairing == "halves" else (2 * i, 2 * i + 1)
        angle = t * rotary.theta ** (-2 * i / dims)
        out[a], out[b] = v[a] * math.cos(angle) - v[b] * math.sin(angle), v[a] * math.sin(angle) + v[b] * math.cos(angle)
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
        case "all_of":
            return all(allowed(m, q, k, prefix) for m in mask.masks)
        case "any_of":
            return any(allowed(m, q, k, prefix) for m in mask.masks)
    raise AssertionError(mask.kind)


def attention(part, name, weights, x, source, prefix):
    cross = part.kind == "cross_attention"
    reads = source if cross else x
    width = len(weights[f"{name}.query.weight"]) // part.heads
    groups = part.kv_heads or part.heads
    head = lambda kind, v, h: linear(f"{name}.{kind}", weights, v)[h * width : (h + 1) * width]  # noqa: E731
    out = []
    for t, v in enumerate(x):
        mixed = []
        for h in range(part.heads):
            g = h // (part.heads // groups)
            q = norm(part.qk_norm, f"{name}.query_norm", weights, head("query", v, h))
            q = q if cross or part.rotary is None else rotate(part.rotary, q, t)
            scores, values = [], []
            for s, w in enumerate(reads):
                if not cross and not allowed(part.mask, t, s, prefix):
                    continue
                k = norm(part.qk_norm, f"{name}.key_norm", weights, head("key", w, g))
                k = k if cross or part.rotary is None else rotate(part.rotary, k, s)
                score = (q * k).sum() * (width**-0.5 if part.scale is None else part.scale)
                scores.append(score if part.softcap is None else part.softcap * torch.tanh(score / part.softcap))
                values.append(head("value", w, g))
            share = torch.stack(scores).exp()
            share = share / share.sum()
            mixed.append(sum(a * b for a, b in zip(share, values, strict=True)))
        out.append(linear(f"{name}.output", weights, torch.cat(mixed)))
    return out


ACTIVATIONS = {
    "relu": lambda x: x * (x > 0),
    "relu_squared": lambda x: (x * (x > 0)) ** 2,
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + torch.exp(-x)),
}


def feedforward(part, name, weights, x, source, prefix):
    act = ACTIVATIONS[part.activation]
    out = []
    for v in x:
        up = linear(f"{name}.up", weights, v)
        out.append(linear(f"{name}.down", weights, act(linear(f"{name}.gate", weights, v)) * up if part.gated else act(up)))
    return out


SUBLAYERS = {"attention": attention, "cross_attention": attention, "feedforward": feedforward}
