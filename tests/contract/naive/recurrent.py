"""The naive twins of linear attentions and short convolutions: every pair of positions, or one token after the other."""

from __future__ import annotations

import math

import torch

from anyformer.parts import LayerNorm
from naive.basics import layer, linear, norm, norm_of_each_head, softplus
from naive.networks import ACTIVATIONS, activate, gate
from naive.positions import rotate


def draws(part, width):
    """The directions of random features (count, width)."""
    generator = torch.Generator().manual_seed(part.seed)
    rows, lengths = (torch.randn(part.count, width, generator=generator, dtype=torch.float64) for _ in range(2))
    if not part.orthogonal:
        return rows
    out = []
    for i in range(part.count):
        row = rows[i]
        for other in out[i - i % width :]:
            row = row - (row @ other) * other / (other @ other)
        out.append(row / torch.sqrt(row @ row) * torch.sqrt(lengths[i] @ lengths[i]))
    return torch.stack(out)


def features(part, h):
    match part.kind:
        case "identity":
            return h
        case "unit_length":
            return h / torch.sqrt(h @ h + part.eps)
        case "elu_plus_one":
            return torch.where(h > 0, h + 1, torch.exp(h))
        case "rectified":
            return (h * (h > 0)) ** part.power
        case "exponential":
            return torch.exp(h / len(h) if part.scale is None else h * part.scale)
        case "exponential_normalised":
            loud = torch.exp(h * part.scale)
            return loud / loud.sum()
    h = h * math.sqrt(len(h) ** -0.5 if part.scale is None else part.scale)
    along = [w @ h for w in draws(part, len(h))]
    if part.kind == "positive_random":
        return torch.stack([torch.exp(a - (h @ h) / 2) for a in along]) / math.sqrt(part.count)
    waves = torch.stack([torch.cos(a) for a in along] + [torch.sin(a) for a in along]) / math.sqrt(part.count)
    return waves * (torch.exp((h @ h) / 2) if part.kernel == "softmax" else 1)


def linear_attention(part, name, weights, x, run):
    H, K = part.heads, part.kv_heads or part.heads
    split = lambda kind, v, n: linear(f"{name}.{kind}", weights, v).view(n, -1)  # noqa: E731

    def mapped(h, t):
        h = features(part.feature_map, h)
        return h if part.rotary is None else rotate(part.rotary, h, t, len(x))

    out = []
    for t, v in enumerate(x):
        mixed = []
        for h in range(H):
            q, g = mapped(split("query", v, H)[h], t), h // (H // K)
            seen = range(t + 1) if part.causal else range(len(x))
            shares = [q @ mapped(split("key", x[s], K)[g], s) for s in seen]
            top = sum(a * split("value", x[s], K)[g] for a, s in zip(shares, seen, strict=True))
            mixed.append(top if part.eps is None else top / (sum(shares) + part.eps))
        out.append(linear(f"{name}.output", weights, torch.cat(mixed)))
    return out


def lightning_attention(part, name, weights, x, run):
    H = part.heads
    act = lambda y: activate(part, name, weights, y)  # noqa: E731
    split = lambda kind, v: act(linear(f"{name}.{kind}", weights, v)).view(H, -1)  # noqa: E731
    decay = 1 - run.layer / (run.stack.depth - 1 + 1e-5) + 1e-5 if part.decay == "by_layer" else part.decay
    out = []
    for t, v in enumerate(x):
        mixed = []
        for h in range(H):
            slope = decay * 2 ** (-8 * (h + 1) / H)
            q = split("query", v)[h]
            mixed.append(
                sum(math.exp(-slope * (t - s)) * (q @ split("key", x[s])[h]) * split("value", x[s])[h] for s in range(t + 1))
            )
        y = norm(part.norm, f"{name}.norm", weights, torch.cat(mixed))
        if part.gate is not None:
            y = (y.view(H, -1) * gate(part.gate, f"{name}.gate", weights, v).view(H, -1)).flatten()
        out.append(linear(f"{name}.output", weights, y))
    return out


def convolution(part, name, weights, x):
    if part is None:
        return x
    kernel, out = weights[f"{name}.weight"], []
    for t in range(len(x)):
        places = [t - part.dilation * (part.kernel - 1 - j) for j in range(part.kernel)]
        y = sum(kernel[:, j] * x[place] for j, place in enumerate(places) if place >= 0)
        y = y + weights[f"{name}.bias"] if part.bias else y
        out.append(activate(part, name, weights, y))
    return out


def log_decay(part, name, weights, v, heads):
    """Of each head, a number or a vector over its features."""
    if part is None:
        return [torch.zeros(1, dtype=v.dtype)] * heads
    ranked = part.kind == "channel_decay" and part.rank
    down = linear(f"{name}.down", weights, v) if ranked else v
    step = (linear(f"{name}.projection", weights, down) + weights[f"{name}.dt_bias"]).view(heads, -1)
    rate = torch.exp(weights[f"{name}.A_log"])
    if part.kind == "channel_decay" and part.bound is not None:
        return [-part.bound / (1 + torch.exp(-rate[h] * step[h])) for h in range(heads)]
    return [-rate[h] * torch.log(1 + torch.exp(step[h])) for h in range(heads)]


def delta_attention(part, name, weights, x, run):
    H, K, M, n = part.heads, part.value_heads or part.heads, part.key_width, part.steps
    streams = {}
    for kind in ("query", "key", "value"):
        projected = [linear(f"{name}.{kind}", weights, v) for v in x]
        streams[kind] = convolution(part.convolution, f"{name}.{kind}_convolution", weights, projected)
    unit = lambda h: h / torch.sqrt(h @ h + part.length_eps)  # noqa: E731
    E = len(weights[f"{name}.value.weight"]) // (K * n)
    states, out = [torch.zeros(M, E, dtype=torch.float64) for _ in range(K)], []
    for t, v in enumerate(x):
        beta = (part.beta_scale / (1 + torch.exp(-linear(f"{name}.beta", weights, v)))).view(n, K)
        fades, mixed = log_decay(part.decay, f"{name}.decay", weights, v, K), []
        opened = None if part.gate is None else gate(part.gate, f"{name}.gate", weights, v).view(K, -1)
        for h in range(K):
            g = h // (K // H)
            q = unit(streams["query"][t].view(H, M)[g])
            states[h] = torch.exp(fades[h])[:, None] * states[h]
            for j in range(n):
                k, value = unit(streams["key"][t].view(n, H, M)[j, g]), streams["value"][t].view(n, K, E)[j, h]
                states[h] = states[h] + beta[j, h] * torch.outer(k, value - k @ states[h])
            y = q @ states[h] * (M**-0.5 if part.scale is None else part.scale)
            y = norm(part.norm, f"{name}.norm", weights, y)
            mixed.append(y if opened is None else y * opened[h])
        out.append(linear(f"{name}.output", weights, torch.cat(mixed)))
    return out


def gated_convolution(part, name, weights, x, run):
    project = lambda kind, v: linear(f"{name}.{kind}", weights, v)  # noqa: E731
    mixed = convolution(
        part.convolution, f"{name}.convolution", weights, [project("gate_before", v) * project("value", v) for v in x]
    )
    return [project("output", project("gate_after", v) * y) for v, y in zip(x, mixed, strict=True)]


def mamba(part, name, weights, x, run):
    """Token after token; the state of all channels at once, entry by entry."""
    values = convolution(part.convolution, f"{name}.convolution", weights, [linear(f"{name}.value", weights, v) for v in x])
    rate, skip = torch.exp(weights[f"{name}.A_log"]), weights[f"{name}.skip"]
    state, out = torch.zeros(part.channels, part.state_width, dtype=torch.float64), []
    for v, value in zip(x, values, strict=True):
        projected = {"step": "step_down", "key": "key", "query": "query"}
        narrow = {
            kind: norm(part.inner_norm, f"{name}.{kind}_norm", weights, linear(f"{name}.{theirs}", weights, value))
            for kind, theirs in projected.items()
        }
        dt = softplus(linear(f"{name}.step", weights, narrow["step"]) + weights[f"{name}.dt_bias"])
        state = torch.exp(-dt[:, None] * rate) * state + torch.outer(dt * value, narrow["key"])
        y = state @ narrow["query"] + skip * value
        out.append(linear(f"{name}.output", weights, y * ACTIVATIONS["silu"](linear(f"{name}.gate", weights, v))))
    return out


def mamba2(part, name, weights, x, run):
    """Token after token, head after head."""
    H, E, M = part.heads, part.head_width, part.state_width
    factor = lambda kind: 1.0 if part.multipliers is None else getattr(part.multipliers, kind)  # noqa: E731
    streams = {}
    for kind in ("value", "key", "query"):
        projected = [linear(f"{name}.{kind}", weights, v) * factor(kind) for v in x]
        streams[kind] = convolution(part.convolution, f"{name}.{kind}_convolution", weights, projected)
    rate, skip = torch.exp(weights[f"{name}.A_log"]), weights[f"{name}.skip"]
    states, out = [torch.zeros(M, E, dtype=torch.float64) for _ in range(H)], []
    for t, v in enumerate(x):
        dt = softplus(linear(f"{name}.step", weights, v) * factor("step") + weights[f"{name}.dt_bias"])
        dt = dt.clamp(part.step_floor, math.inf if part.step_ceiling is None else part.step_ceiling)
        mixed = []
        for h in range(H):
            value, group = streams["value"][t].view(H, E)[h], h // (H // part.groups)
            key, query = (streams[kind][t].view(part.groups, M)[group] for kind in ("key", "query"))
            states[h] = torch.exp(-dt[h] * rate[h]) * states[h] + dt[h] * torch.outer(key, value)
            mixed.append(query @ states[h] + skip[h] * value)
        y, opened = torch.cat(mixed), ACTIVATIONS["silu"](linear(f"{name}.gate", weights, v) * factor("gate"))
        normed = lambda y: norm(part.norm, f"{name}.norm", weights, y)  # noqa: E731
        y = normed(y * opened) if part.gate_at == "before_norm" else normed(y) * opened
        out.append(linear(f"{name}.output", weights, y))
    return out


def mamba3(part, name, weights, x, run):
    """Token after token, head after head, the state of complex numbers where keys turn."""
    H, E, M, K, R = part.heads, part.head_width, part.state_width, part.groups, part.angles or 0
    own = lambda kind: weights[f"{name}.{kind}"]  # noqa: E731
    read = lambda kind, v: linear(f"{name}.{kind}", weights, v)  # noqa: E731
    split = lambda y: (torch.complex(y[: 2 * R : 2], y[1 : 2 * R : 2]), y[2 * R :])  # noqa: E731
    rooms = (R, M - 2 * R)
    states = [[torch.zeros(n, E, dtype=torch.complex128 if i == 0 else torch.float64) for i, n in enumerate(rooms)]] * H
    last, out = [None] * H, []
    for v in x:
        dt, rate = softplus(read("step", v) + own("dt_bias")), softplus(read("decay", v)).clamp(min=part.decay_floor)
        share, mixed = 1 / (1 + torch.exp(-read("trapezoid", v))), []
        turn = math.pi * torch.tanh(read("angle", v)) if R else torch.zeros(0, dtype=torch.float64)
        for h in range(H):
            group = h // (H // K)
            key, query = (
                norm(part.qk_norm, f"{name}.{kind}_norm", weights, read(kind, v).view(K, M)[group]) + own(f"{kind}_bias")[h]
                for kind in ("key", "query")
            )
            value, keys, queries = read("value", v).view(H, E)[h], split(key), split(query)
            spins = (torch.exp(-1j * dt[h] * turn), torch.ones(M - 2 * R, dtype=torch.float64))
            keep, now, seen = torch.exp(-dt[h] * rate[h]), [], torch.zeros(E, dtype=torch.float64)
            for i, (k, q, spin) in enumerate(zip(keys, queries, spins, strict=True)):
                old = states[h][i]
                if last[h] is not None:
                    old = old + (1 - share[h]) * dt[h] * last[h][0][i][:, None] * last[h][1]
                new = keep * spin[:, None] * old + share[h] * dt[h] * k[:, None] * value
                now.append(new)
                seen = seen + torch.real((torch.conj(q)[:, None] * new).sum(0))
            states[h], last[h] = now, (keys, value)
            mixed.append(seen + own("skip")[h] * value)
        y = norm(part.norm, f"{name}.norm", weights, torch.cat(mixed))
        out.append(read("output", y * ACTIVATIONS["silu"](read("gate", v))))
    return out


def rg_lru(part, name, weights, x, run):
    """Token after token, channel after channel."""
    values = convolution(part.convolution, f"{name}.convolution", weights, [linear(f"{name}.value", weights, v) for v in x])
    size, state, out = part.channels // part.heads, [0.0] * part.channels, []
    act = lambda y: activate(part, name, weights, y)  # noqa: E731

    def opened(gate, c, value):
        block = c // size
        own = weights[f"{name}.{gate}.weight"][c] @ value[block * size : (block + 1) * size]
        return 1 / (1 + torch.exp(-own - weights[f"{name}.{gate}.bias"][c]))

    for t, (v, value) in enumerate(zip(x, values, strict=True)):
        for c in range(part.channels):
            decay = torch.exp(-part.strength * opened("decay_gate", c, value) * softplus(weights[f"{name}.decay"][c]))
            entering = opened("input_gate", c, value) * value[c]
            state[c] = decay * state[c] + torch.sqrt(1 - decay**2) * entering if t else entering
        out.append(linear(f"{name}.output", weights, torch.stack(state) * act(linear(f"{name}.gate", weights, v))))
    return out


def mixed_with_previous(name, side, weights, x):
    """Each token's projection of a mix of it and the one before."""
    mix = weights[f"{name}.{side}_mix"]
    shares = [v * mix + (x[t - 1] * (1 - mix) if t else 0) for t, v in enumerate(x)]
    return [linear(f"{name}.{side}", weights, v) for v in shares]


def rwkv(part, name, weights, x, run):
    """Every pair of tokens."""
    key, value, receptance = (mixed_with_previous(name, side, weights, x) for side in ("key", "value", "receptance"))
    rate, bonus, out = torch.exp(weights[f"{name}.decay"]), weights[f"{name}.bonus"], []
    for t in range(len(x)):
        shares = [torch.exp(key[s] - (t - 1 - s) * rate) for s in range(t)] + [torch.exp(key[t] + bonus)]
        average = sum(a * v for a, v in zip(shares, value[: t + 1], strict=True)) / sum(shares)
        out.append(linear(f"{name}.output", weights, average / (1 + torch.exp(-receptance[t]))))
    return out


def rwkv_channel_mix(part, name, weights, x, run):
    key, receptance = (mixed_with_previous(name, side, weights, x) for side in ("key", "receptance"))
    values = [linear(f"{name}.value", weights, (k * (k > 0)) ** 2) for k in key]
    return [v / (1 + torch.exp(-r)) for v, r in zip(values, receptance, strict=True)]


def shifted(name, side, weights, x):
    """Each token, with a share of what the token before differs by."""
    mix = weights[f"{name}.{side}_mix"]
    return [v + mix * ((x[t - 1] if t else 0 * v) - v) for t, v in enumerate(x)]


def rwkv7(part, name, weights, x, run):
    """Token after token, head after head, the state as in the paper: values by keys."""
    H, E = part.heads, part.head_width
    sigmoid = lambda z: 1 / (1 + torch.exp(-z))  # noqa: E731
    own = lambda kind: weights[f"{name}.{kind}"]  # noqa: E731

    def through(gate, v, inner=lambda z: z):
        return linear(f"{name}.{gate}.up", weights, inner(linear(f"{name}.{gate}.down", weights, v)))

    sides = ("receptance", "key", "value", "decay", "rate", "gate")
    read = {side: shifted(name, side, weights, x) for side in sides}
    receptance, key, values = ([linear(f"{name}.{side}", weights, v) for v in read[side]] for side in sides[:3])
    if part.value_gate is not None:
        others = [torch.cat(heads) for heads in run.values[part.value_gate.variant]]
        opened = [sigmoid(own("value_gate.bias") + through("value_gate", v)) for v in read["value"]]
        values = [v + g * (other - v) for v, g, other in zip(values, opened, others, strict=True)]
    run.values[run.variant] = [list(v.view(H, E)) for v in values]
    states, out = [torch.zeros(E, E, dtype=torch.float64) for _ in range(H)], []
    bare = LayerNorm(eps=part.eps)
    for t in range(len(x)):
        decay = own("decay.bias") + through("decay", read["decay"][t], torch.tanh)
        keep = torch.exp(-sigmoid(decay) / math.exp(0.5)).view(H, E)
        rate = sigmoid(own("rate.bias") + through("rate", read["rate"][t]))
        removal = (key[t] * own("removal")).view(H, E)
        k = (key[t] * (1 + (rate - 1) * own("replacement"))).view(H, E)
        r, v, a, bonus = receptance[t].view(H, E), values[t].view(H, E), rate.view(H, E), own("bonus").view(H, E)
        mixed = []
        for h in range(H):
            kappa = removal[h] / torch.sqrt(removal[h] @ removal[h])
            states[h] = states[h] @ (torch.diag(keep[h]) - torch.outer(kappa, a[h] * kappa)) + torch.outer(v[h], k[h])
            mixed.append(states[h] @ r[h])
        y = norm_of_each_head(bare, f"{name}.norm", weights, torch.cat(mixed), H)
        y = y + torch.cat([(r[h] * bonus[h] * k[h]).sum() * v[h] for h in range(H)])
        out.append(linear(f"{name}.output", weights, y * through("gate", read["gate"][t], sigmoid)))
    return out


def rwkv7_channel_mix(part, name, weights, x, run):
    keys = [linear(f"{name}.key", weights, v) for v in shifted(name, "key", weights, x)]
    return [linear(f"{name}.value", weights, (k * (k > 0)) ** 2) for k in keys]


def ttt_linear(part, name, weights, x, run):
    """Token after token, head after head; the gradient of each loss by autograd."""
    H, n = part.heads, part.minibatch
    own = lambda kind: weights[f"{name}.{kind}"]  # noqa: E731
    gain, bias = own("inner_norm.weight").view(H, -1), own("inner_norm.bias").view(H, -1)
    maps = [(own("initial_weight")[h], own("initial_bias")[h]) for h in range(H)]
    steps, out = [(0.0, 0.0)] * H, []
    for t, given in enumerate(x):
        q, k, v = (linear(f"{name}.{kind}", weights, given).view(H, -1) for kind in ("query", "key", "value"))
        rate = part.base_rate / q.shape[1] / (1 + torch.exp(-linear(f"{name}.rate", weights, given)))
        i, mixed = t % n, []
        share = torch.clamp(1 / (i + 1) + own("place")[i], min=0)
        for h in range(H):
            q_h, k_h = (y if part.rotary is None else rotate(part.rotary, y, i, n) for y in (q[h], k[h]))
            guess = lambda y, matrix, offset, h=h: y + gain[h] * layer(y @ matrix + offset, part.eps) + bias[h]  # noqa: E731
            loss = ((guess(k_h, *maps[h]) - v[h]) ** 2).sum() / 2
            slopes = torch.autograd.grad(loss, maps[h], create_graph=True)
            steps[h] = tuple(step + rate[h] * slope for step, slope in zip(steps[h], slopes, strict=True))
            now = tuple(old - share * step for old, step in zip(maps[h], steps[h], strict=True))
            mixed.append(guess(q_h, *now))
            if i == n - 1:
                maps[h], steps[h] = now, (0.0, 0.0)
        y = norm(part.norm, f"{name}.norm", weights, torch.cat(mixed))
        y = y if part.gate is None else y * gate(part.gate, f"{name}.gate", weights, given)
        out.append(linear(f"{name}.output", weights, y))
    return out


def spans(t):
    """The past of t cut as a Fenwick tree does: (level, tokens), the level 0 of t itself; each span as long as fits t's end."""
    yield 0, range(t, t + 1)
    end = t
    for level in range(1, t.bit_length() + 1):
        length = 2 ** (level - 1)
        if end % (2 * length):
            yield level, range(end - length, end)
            end -= length


def log_linear_attention(part, name, weights, x, run):
    """Every pair of tokens, by the span that the earlier one is in."""
    H, L, out = part.heads, part.levels, []
    split = lambda kind, v: linear(f"{name}.{kind}", weights, v).view(H, -1)  # noqa: E731
    fades = [log_decay(part.decay, f"{name}.decay", weights, v, H) for v in x]
    for t, v in enumerate(x):
        scales = softplus(weights[f"{name}.level_scale"].view(H, L) * split("level", v))
        opened = None if part.gate is None else gate(part.gate, f"{name}.gate", weights, v).view(H, -1)
        mixed = []
        for h in range(H):
            q = split("query", v)[h] * (part.key_width**-0.5 if part.scale is None else part.scale)
            y = 0
            for level, tokens in spans(t):
                for s in tokens:
                    kept = torch.exp(sum((fades[u][h] for u in range(s + 1, t + 1)), torch.zeros(1, dtype=torch.float64)))
                    y = y + scales[h, min(level, L - 1)] * kept * (q @ split("key", x[s])[h]) * split("value", x[s])[h]
            y = norm(part.norm, f"{name}.norm", weights, y)
            mixed.append(y if opened is None else y * opened[h])
        out.append(linear(f"{name}.output", weights, torch.cat(mixed)))
    return out


def mlstm(part, name, weights, x, run):
    """Token after token, head after head."""
    H, M, E, cap = part.heads, part.key_width, part.value_width, part.gate_cap
    capped = lambda side, v: cap * torch.tanh(linear(f"{name}.{side}", weights, v) / cap)  # noqa: E731
    memories, sums, out = [torch.zeros(M, E, dtype=torch.float64)] * H, [torch.zeros(M, dtype=torch.float64)] * H, []
    for v in x:
        read = {side: linear(f"{name}.{side}", weights, v).view(H, -1) for side in ("query", "key", "value")}
        entering, kept = torch.exp(capped("input_gate", v)), 1 / (1 + torch.exp(-capped("forget_gate", v)))
        mixed = []
        for h in range(H):
            q, k = read["query"][h] / math.sqrt(M), read["key"][h]
            memories[h] = kept[h] * memories[h] + entering[h] * torch.outer(k, read["value"][h])
            sums[h] = kept[h] * sums[h] + entering[h] * k
            mixed.append(q @ memories[h] / max(abs(q @ sums[h]), 1.0))
        y = norm(part.norm, f"{name}.norm", weights, torch.cat(mixed))
        out.append(linear(f"{name}.output", weights, y / (1 + torch.exp(-linear(f"{name}.gate", weights, v)))))
    return out


def slstm(part, name, weights, x, run):
    """Token after token, head after head, without a stabiliser."""
    H, sigmoid = part.heads, lambda y: 1 / (1 + torch.exp(-y))
    read = convolution(part.convolution, f"{name}.convolution", weights, x)
    cells = counts = last = [torch.zeros(len(x[0]) // H, dtype=torch.float64)] * H
    out = []
    for v, smooth in zip(x, read, strict=True):
        new = []
        for h in range(H):
            given = []
            for kind, source in (("cell_input", v), ("input_gate", smooth), ("forget_gate", smooth), ("output_gate", v)):
                block, bias = weights[f"{name}.{kind}.weight"].chunk(H)[h], weights[f"{name}.{kind}.bias"].chunk(H)[h]
                back = weights[f"{name}.recurrent"][h].chunk(4, 1)[len(given)]
                given.append(block @ source.chunk(H)[h] + last[h] @ back + bias)
            z, i, f, o = given
            cell = sigmoid(f) * cells[h] + torch.exp(i) * torch.tanh(z)
            count = sigmoid(f) * counts[h] + torch.exp(i)
            new.append((cell, count, sigmoid(o) * cell / count))
        cells, counts, last = zip(*new, strict=True)
        out.append(norm(part.norm, f"{name}.norm", weights, torch.cat(last)))
    return out


def gated_linear_attention(part, name, weights, x, run):
    """Every feature of a key forgets by itself; what it writes with is its own, or what was forgotten."""
    H, states, out = part.heads, [0] * part.heads, []
    for v in x:
        down = v if part.rank is None else linear(f"{name}.forget_down", weights, v)
        kept = (1 + torch.exp(-linear(f"{name}.forget", weights, down))) ** (-1 / part.temperature)
        kept = (part.least + (1 - part.least) * kept).view(H, -1)
        q = activate(part, name, weights, linear(f"{name}.query", weights, v)).view(H, -1)
        k = 1 - kept if part.keys == "complement" else linear(f"{name}.key", weights, v).view(H, -1)
        values, mixed = linear(f"{name}.value", weights, v).view(H, -1), []
        for h in range(H):
            states[h] = kept[h][:, None] * states[h] + torch.outer(k[h], values[h])
            y = (q.shape[1] ** -0.5 if part.scale is None else part.scale) * q[h] @ states[h]
            mixed.append(norm(part.norm, f"{name}.norm", weights, y))
        y = torch.stack(mixed)
        y = y if part.gate is None else y * gate(part.gate, f"{name}.gate", weights, v).view(H, -1)
        out.append(linear(f"{name}.output", weights, y.flatten()))
    return out


def comba(part, name, weights, x, run):
    """What is taken out has a strength of its own, and is of the state before its decay."""
    H, M = part.heads, part.key_width
    streams = {}
    for kind in ("query", "key", "value"):
        projected = [linear(f"{name}.{kind}", weights, v) for v in x]
        streams[kind] = convolution(part.convolution, f"{name}.{kind}_convolution", weights, projected)
    unit = lambda h: h / torch.sqrt(h @ h + part.length_eps)  # noqa: E731
    feedback, correction = 1 / (1 + torch.exp(-weights[f"{name}.feedback"])), weights[f"{name}.correction"]
    states, out = [torch.zeros(M, len(weights[f"{name}.value.weight"]) // H, dtype=torch.float64) for _ in range(H)], []
    for t, v in enumerate(x):
        beta = 1 / (1 + torch.exp(-linear(f"{name}.beta", weights, v)))
        fades, mixed = log_decay(part.decay, f"{name}.decay", weights, v, H), []
        opened = None if part.gate is None else gate(part.gate, f"{name}.gate", weights, v).view(H, -1)
        for h in range(H):
            q, k = (unit(streams[kind][t].view(H, M)[h]) for kind in ("query", "key"))
            taken = feedback[h] * beta[h] * torch.outer(k, k @ states[h])
            states[h] = torch.exp(fades[h]) * states[h] - taken + beta[h] * torch.outer(k, streams["value"][t].view(H, -1)[h])
            y = (M**-0.5 if part.scale is None else part.scale) * (q - correction[h] * k) @ states[h]
            y = norm(part.norm, f"{name}.norm", weights, y)
            mixed.append(y if opened is None else y * opened[h])
        out.append(linear(f"{name}.output", weights, torch.cat(mixed)))
    return out


RECURRENT = {
    "comba": comba,
    "gated_linear_attention": gated_linear_attention,
    "linear_attention": linear_attention,
    "lightning_attention": lightning_attention,
    "delta_attention": delta_attention,
    "gated_convolution": gated_convolution,
    "local_convolution": lambda part, name, weights, x, run: convolution(part.convolution, f"{name}.convolution", weights, x),
    "mamba": mamba,
    "mamba2": mamba2,
    "mamba3": mamba3,
    "mlstm": mlstm,
    "rg_lru": rg_lru,
    "rwkv": rwkv,
    "rwkv_channel_mix": rwkv_channel_mix,
    "log_linear_attention": log_linear_attention,
    "rwkv7": rwkv7,
    "slstm": slstm,
    "ttt_linear": ttt_linear,
    "rwkv7_channel_mix": rwkv7_channel_mix,
}
