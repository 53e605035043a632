"""Norms, products and positions of single vectors."""

from __future__ import annotations

import math

import torch


def norm(part, name, weights, v):
    if part is None:
        return v
    if part.kind == "gated_norm":
        return gated(part, name, weights, norm(part.norm, f"{name}.norm", weights, v))
    if part.kind == "adapted_norm":
        return adapted(part, name, weights, v)
    if part.kind == "delay_norm":
        return by_delay(part, name, weights, v)
    assert part.kind in NORMS, f"write the formula of {part.kind!r} into NORMS of {__file__}"
    v = NORMS[part.kind](part, lambda own: weights[f"{name}.{own}"], v)
    if part.gain != "none":
        v = v * (weights[f"{name}.weight"] + (1 if part.gain == "one_plus_weight" else 0))
    return v + weights[f"{name}.bias"] if part.bias else v


def gated(part, name, weights, v):
    """The vector times the sigmoid of a network of it with few features in the middle."""
    narrow = weights[f"{name}.down.weight"] @ v
    assert part.activation in ("silu", "tanh"), f"write the formula of {part.activation!r} here"
    narrow = narrow / (1 + torch.exp(-narrow)) if part.activation == "silu" else torch.tanh(narrow)
    return v / (1 + torch.exp(-(weights[f"{name}.up.weight"] @ narrow)))


def adapted(part, name, weights, v):
    """A norm, and the norm again of what it gives with a network of the one language that is spoken."""
    n = norm(part.norm, f"{name}.norm", weights, v) if part.before is None else norm(part.before, f"{name}.before", weights, v)
    i = part.languages.index(part.language)
    inner = ACTIVATIONS[part.activation](weights[f"{name}.down"][i] @ n + weights[f"{name}.down_bias"][i])
    return norm(part.norm, f"{name}.norm", weights, n + weights[f"{name}.up"][i] @ inner + weights[f"{name}.up_bias"][i])


def by_delay(part, name, weights, v):
    """A norm times 1 and a network of the waves of the delay."""
    half = len(v) // 2
    angles = [part.delay * part.theta ** (-i / half) for i in range(half)]
    s = torch.tensor([wave(a) for wave in (math.cos, math.sin) for a in angles], dtype=torch.float64)
    gains = linear(f"{name}.up", weights, ACTIVATIONS[part.activation](linear(f"{name}.down", weights, s)))
    return norm(part.norm, f"{name}.norm", weights, v) * (1 + gains)


def norm_of_each_head(part, name, weights, v, heads):
    """Each head normalised without a gain, then the gains of all of them."""
    bare = part.but(gain="none", bias=False)
    v = torch.cat([norm(bare, name, weights, head) for head in v.chunk(heads)])
    v = v * (weights[f"{name}.weight"] + (1 if part.gain == "one_plus_weight" else 0)) if part.gain != "none" else v
    return v + weights[f"{name}.bias"] if part.bias else v


def layer(v, eps):
    v = v - v.sum() / len(v)
    return v / torch.sqrt((v * v).sum() / len(v) + eps)


def root_mean_square(v, eps):
    return v / torch.sqrt((v * v).sum() / len(v) + eps)


def linear(name, weights, v):
    """Where a row of the weight is shorter than v, the rows are of groups, and each group reads its own share of v."""
    weight = weights[f"{name}.weight"]
    groups = len(v) // weight.shape[1]
    y = torch.cat([rows @ share for rows, share in zip(weight.chunk(groups), v.chunk(groups), strict=True)])
    return y + weights[f"{name}.bias"] if f"{name}.bias" in weights else y


def low_rank(name, up, weights, v, turn):
    """What the layer that is the `turn`-th to have these weights adds to a product."""
    return weights[f"{name}.{up}.{turn}.weight"] @ (weights[f"{name}.down.{turn}.weight"] @ v)


def numbers(values):
    return torch.tensor(values, dtype=torch.float64)


def convolved_positions(part, name, weights, x):
    """Every vector with what convolutions make of its neighbours."""
    y = x
    for i in range(part.layers):
        own, n = f"{name}.layers.{i}", part.kernel
        taps = [tap(own, weights, j) for j in range(n)]
        rows = []
        for t in range(len(y)):
            row = weights[f"{own}.bias"]
            for j in range(n):
                if 0 <= t + j - n // 2 < len(y):
                    shares = y[t + j - n // 2].chunk(part.groups)
                    row = row + torch.cat([w @ v for w, v in zip(taps[j].chunk(part.groups), shares, strict=True)])
            rows.append(ACTIVATIONS[part.activation](norm(part.norm, f"{own}.norm", weights, row)))
        y = rows
    return [a + b for a, b in zip(x, y, strict=True)]


def tap(name, weights, j):
    """The matrix of one tap of a convolution; of a normed one its direction times its length."""
    if f"{name}.weight" in weights:
        return weights[f"{name}.weight"][:, :, j]
    direction = weights[f"{name}.direction"][:, :, j]
    return weights[f"{name}.scale"][j] * direction / (direction * direction).sum().sqrt()


def position(part, t, table, width):
    if part.kind == "learned_position":
        return table[t + part.offset]
    if part.kind == "gapped_position":
        inside = part.start <= t < part.start + part.gap
        return torch.zeros(width, dtype=torch.float64) if inside else table[t if t < part.start else t - part.gap]
    if part.kind == "sinusoidal_grid":
        angles = [
            [p * part.theta ** (-4 * i / width) for i in range(width // 4)] for p in (t % part.columns, t // part.columns)
        ]
        values = [wave(a) for own in angles for wave in (math.sin, math.cos) for a in own]
        return torch.tensor(values, dtype=torch.float64)
    span = width if part.spacing == "paper" else width - 2
    angles = [(t + part.offset) * part.theta ** (-2 * i / span) for i in range(width // 2)]
    sines, cosines = [math.sin(a) for a in angles], [math.cos(a) for a in angles]
    if part.layout == "interleaved":
        values = [v for both in zip(sines, cosines, strict=True) for v in both]
    else:
        values = sines + cosines if part.layout == "halves" else cosines + sines
    return part.scale * torch.tensor(values, dtype=torch.float64)


def softmax(scores):
    share = torch.stack(scores).exp()
    return share / share.sum()


def softplus(x):
    return torch.log(1 + torch.exp(x))


def scaled(part, stored):
    """What a learned vector that is stored at another size acts as."""
    return part.initial / part.stored * stored


def factor(given, width):
    """A number, or what follows from the width."""
    return {"sqrt_width": width**0.5, "inverse_sqrt_width": 1 / width**0.5}.get(given, given)


ACTIVATIONS = {
    "gelu": torch.nn.functional.gelu,
    "tanh": torch.tanh,
    "silu": lambda v: v / (1 + torch.exp(-v)),
}

NORMS = {
    "rms_norm": lambda part, own, v: v / torch.sqrt((v * v).sum() / len(v) + part.eps),
    "layer_norm": lambda part, own, v: layer(v, part.eps),
    "unit_norm": lambda part, own, v: v / torch.sqrt((v * v).sum() + part.eps),
    "affine": lambda part, own, v: v,
    "gained_first": lambda part, own, v: root_mean_square(v * (own("weight") + (part.first == "one_plus_weight")), part.eps),
    "dynamic_tanh": lambda part, own, v: torch.tanh(own("alpha") * v),
    "grouped_layer_norm": lambda part, own, v: torch.cat([layer(group, part.eps) for group in v.chunk(part.groups)]),
    "grouped_rms_norm": lambda part, own, v: torch.cat(
        [g / torch.sqrt((g * g).sum() / len(g) + part.eps) for g in v.chunk(part.groups)]
    ),
    "batch_norm": lambda part, own, v: (v - own("running_mean")) / torch.sqrt(own("running_variance") + part.eps),
}
"""Formulas before gain and bias, by kind; `own`: a weight of the norm by its name."""
