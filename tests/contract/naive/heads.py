"""Attention over heads from one function for each part of a slot, each from its paper's formula, on loops over positions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from naive.basics import linear, low_rank, norm, norm_of_each_head, scaled
from naive.networks import gate
from naive.positions import allowed, bucket, clipped, rotate, score_bias, temperature
from naive.span import beside


@dataclass
class Seen:
    """One attention in one run: what its parts read. Queries, keys and values are lists by position of lists by head."""

    part: Any
    name: str
    weights: Any
    run: Any
    alone: list
    """The layer's input."""
    x: list
    """What its projections read."""
    queries: list = field(default_factory=list)
    """Before they are placed."""
    values: list = field(default_factory=list)
    keys: list = field(default_factory=list)
    reads: dict = field(default_factory=dict)
    """What keys and values are projected from, by side."""
    gates: list = field(default_factory=list)
    scored: list = field(default_factory=list)
    """The scores of each query so far, by head: a dict from the keys that it sees."""

    def __getitem__(self, name):
        return self.weights[f"{self.name}.{name}"]

    def __post_init__(self):
        self.H = self.part.heads
        self.K = self.part.kv_heads or self.part.heads
        self.E = len(self["query.weight"]) // self.H

    def group(self, h):
        return h // (self.H // self.K)


def joined(part, a):
    """x of every position beside an earlier stream."""
    both = zip(a.alone, a.run.streams[part.variant], strict=True)
    return [norm(part.norm, f"{a.name}.joined.norm", a.weights, torch.cat(pair)) for pair in both]


# Project, while heads stand side by side: y of side `side`, made of v by the projection `of`.
FLAT = {
    "lora": lambda part, a, y, side, of, v: y + low_rank(f"{a.name}.{of}_lora", "up", a.weights, v, a.run.turn),
    "clip": lambda part, a, y, side, of, v: y.clamp(-part.bound, part.bound),
    "qk_norm": lambda part, a, y, side, of, v: norm_of_all_heads(part, a, y, side),
}
# Project, one head of position s.
HEAD = {
    "qk_norm": lambda part, a, h, side, g, s: norm_of_head(part, a, h, side, "before_rotary"),
    "length_clip": lambda part, a, h, side, g, s: (
        h if side == "value" else clipped(h * a["query_scale"][g] if side == "query" else h, part.bound)
    ),
    "value_norm": lambda part, a, h, side, g, s: (
        norm(part.norm, f"{a.name}.value_norm", a.weights, h) if side == "value" else h
    ),
    "value_scale": lambda part, a, h, side, g, s: h * part.factor if side == "value" else h,
    "value_embedding": lambda part, a, h, side, g, s: with_row(part, a, h, g, s) if side == "value" else h,
    "value_residual": lambda part, a, h, side, g, s: (
        part.own * h + part.other * a.run.values[part.variant][s][g] if side == "value" else h
    ),
}
# Place: one head of position t, and a factor of queries.
TURNED = {
    "rotary": lambda part, a, h, t: rotate(part, h, t, len(a.x), a.run.axes and a.run.axes[t]),
    "temperature": lambda part, a, h, t: h,
}
FACTOR = {
    "rotary": lambda part, t: 1.0,
    "temperature": temperature,
}
# Score: what is added to q k^T * scale of query t and key s of head h.
TERM = {
    "score_bias": lambda part, a, q, h, t, s: score_bias(
        part, a.part, a.name, a.weights, a.run.stack, q, a.keys[s][a.group(h)], h, t, s, a.x[t]
    ),
    "forget": lambda part, a, q, h, t, s: forgotten(a, h, t, s),
    "value_bias": lambda part, a, q, h, t, s: by_value(a, a.group(h), s),
}
# Combine: the mixed heads of position t.
COMBINE = {
    "exclusive": lambda part, a, heads, t: [without_own(part, a, m, h, t) for h, m in enumerate(heads)],
    "value_convolution": lambda part, a, heads, t: [m + near(part, a, a.group(h), t) for h, m in enumerate(heads)],
    "mixed_norm": lambda part, a, heads, t: [
        part.factor * norm(part.norm, f"{a.name}.mixed_norm", a.weights, m) for m in heads
    ],
    "gate": lambda part, a, heads, t: gated(part, a, heads, t),
    "gained_gate": lambda part, a, heads, t: gated(part, a, heads, t, scaled(part.gain, a["gained_gate.gain"]) ** 2),
    "sub_norm": lambda part, a, heads, t: split(norm(part.norm, f"{a.name}.sub_norm", a.weights, torch.cat(heads)), heads),
    "convolution": lambda part, a, heads, t: [
        *heads,
        *beside(part, f"{a.name}.convolution", a.weights, a.alone, a.queries)[t],
    ],
}


def norm_of_all_heads(part, a, y, side):
    if side == "value" or part.over == "head":
        return y
    if part.over == "projection":
        return norm(part.norm, f"{a.name}.{side}_norm", a.weights, y)
    return norm_of_each_head(part.norm, f"{a.name}.{side}_norm", a.weights, y, a.H if side == "query" else a.K)


def norm_of_head(part, a, h, side, at):
    if side == "value" or part.over != "head" or part.at != at:
        return h
    return norm(part.norm, f"{a.name}.{side}_norm", a.weights, h)


def with_row(part, a, h, g, s):
    row = part.scale * a["value_embedding.table"][a.run.tokens[s]].view(a.K, -1)[g]
    if part.gate is None:
        return h + row
    return h + row * gate(part.gate, f"{a.name}.value_embedding.gate", a.weights, a.x[s]).view(a.K, -1)[g]


def forgotten(a, h, t, s):
    """The logarithms of the gates between two positions."""
    if not a.gates:
        a.gates = [torch.sigmoid(linear(f"{a.name}.forget.gates", a.weights, v)).log() for v in a.x]
    return sum(a.gates[between][h] for between in range(min(s, t) + 1, max(s, t) + 1))


def by_value(a, g, s):
    """What the values of key s make of it for head g of keys."""
    made = linear(f"{a.name}.value_bias.values", a.weights, torch.cat(list(a.values[s])))[g]
    return torch.exp(a["value_bias.rate"][g] * torch.log(1 + torch.exp(made)))


def without_own(part, a, m, h, t):
    own = a.values[t][a.group(h)]
    strength = 1.0 if part.strength == "whole" else torch.tanh(a["exclusive.weight"][h])
    return m - strength * (m @ own) / (own @ own) * own


def near(part, a, g, t):
    n = part.kernel
    around = [(j, t + j - n // 2) for j in range(n) if 0 <= t + j - n // 2 < len(a.x)]
    return sum(a["value_convolution.weight"][g, j] * a.values[s][g] for j, s in around)


def gated(part, a, heads, t, gain=1.0):
    factor = gate(part, f"{a.name}.{part.name}", a.weights, a.x[t], gain).view(len(heads), -1)
    return [m * factor[h] for h, m in enumerate(heads)]


def split(y, like):
    return list(y.view(len(like), -1))


# Weigh: the weights of the keys that a query sees, of their scores, in order; `h`: the head.
MAPS = {
    "softmax": lambda part, a, scores, h: softmax_with_sink(part, a, scores, h),
    "token_sink": lambda part, a, scores, h: shares_beside(scores, a["token_sink.weight"][h] @ a.x[len(a.scored) - 1]),
    "sigmoid_weights": lambda part, a, scores, h: 1 / (1 + (part.length or len(scores)) * torch.exp(-scores)),
    "softpick": lambda part, a, scores, h: softpick(part, scores),
    "parallax": lambda part, a, scores, h: along_second_query(a, scores, h),
    "collisions": lambda part, a, scores, h: torch.stack([collided(part, s) for s in scores]),
}


def collided(part, score):
    """The chance that hashes collide; a derivative of n / 2 of it."""
    cosine = min(max(score.item(), -1.0), 1.0)
    chance = (1 - math.acos(cosine) / math.pi) ** part.bits
    return chance + chance * part.bits / 2 * (score - score.item())


def softmax_with_sink(part, a, scores, h):
    shares = scores.exp()
    return shares / (shares.sum() + (a["sink"][h].exp() if part.sink else 0))


def shares_beside(scores, sink):
    """The softmax of scores, and of one more that has no value."""
    return scores.exp() / (scores.exp().sum() + sink.exp())


def along_second_query(a, scores, h):
    """The softmax of scores, each weight with how much its key differs from the mean along a second query."""
    t, share = len(a.scored) - 1, scores.exp() / scores.exp().sum()
    r = linear(f"{a.name}.parallax", a.weights, a.x[t]).view(a.H, -1)[h]
    for place in a.part.place.values():
        r = TURNED[place.name](place, a, r, t)
    keys = [a.keys[s][a.group(h)] for s in a.scored[t][h]]
    mean = sum(p * k for p, k in zip(share, keys, strict=True))
    return torch.stack([p * (1 + r @ (mean - k)) for p, k in zip(share, keys, strict=True)])


def softpick(part, scores):
    beyond = scores.exp() - 1
    return beyond.clamp(min=0) / (beyond.abs().sum() + part.eps)


def each_head(part, a, scores, values):
    """softmax(scores) v of every head."""
    return [MAPS[part.kind](part, a, scores(h), h) @ values(h, a.group(h)) for h in range(a.H)]


def difference(part, a, scores, values):
    """The second half of the heads taken from the first, over the values of both halves."""
    half, groups = a.H // 2, a.K // 2
    first = 0.8 - 0.6 * math.exp(-0.3 * a.run.layer) if part.lambda_init == "by_layer" else part.lambda_init
    strength = (a["lambda_query_1"] @ a["lambda_key_1"]).exp() - (a["lambda_query_2"] @ a["lambda_key_2"]).exp() + first
    share = lambda h: MAPS[part.maps.kind](part.maps, a, scores(h), h)  # noqa: E731
    mixed = []
    for h in range(half):
        both = torch.cat([values(h, a.group(h)), values(h, a.group(h) + groups)], 1)
        out = (share(h) - strength * share(h + half)) @ both
        mixed.append(norm(part.head_norm, f"{a.name}.head_norm", a.weights, out) * (1 - first))
    return mixed


def talking(part, a, scores, values):
    """Each score, and then each weight, as a sum over the heads of the same pair of positions."""
    every = [scores(h) for h in range(a.H)]
    said = [sum(a["talking_before"][g, h] * every[h] for h in range(a.H)) for g in range(a.H)]
    shares = [s.exp() / s.exp().sum() for s in said]
    return [sum(a["talking_after"][g, h] * shares[h] for h in range(a.H)) @ values(g, a.group(g)) for g in range(a.H)]


def around(part, a, scores, values):
    """Each score as a weighted sum of those of the keys around, of this query and the ones before it."""
    mixed, t = [], len(a.scored) - 1
    for h in range(a.H):
        new = []
        for s in a.scored[t][h]:
            near = [
                a["around"][h, i, j] * a.scored[t - i][h].get(s + j - (part.keys - 1) // 2, 0.0)
                for i in range(min(part.queries, t + 1))
                for j in range(part.keys)
            ]
            new.append(sum(near))
        shares = torch.stack(new).exp()
        mixed.append(shares / shares.sum() @ values(h, a.group(h)))
    return mixed


WEIGH = {**dict.fromkeys(MAPS, each_head), "differential": difference, "talking_heads": talking, "multi_token_weights": around}


def projected(a, side, v, s):
    """The heads of one side at one position, before they are placed."""
    of = "key" if side == "value" and a.part.project.values == "keys" else side
    y, parts = linear(f"{a.name}.{of}", a.weights, v), a.part.project.adjust.values()
    if side != "query" and "side_convolution" in a.part.project.adjust:
        y = convolved_side(a.part.project.adjust["side_convolution"], a, side, y, v, s)
    for part in parts:
        y = FLAT[part.name](part, a, y, side, of, v) if part.name in FLAT else y
    heads = list(y.view(a.H if side == "query" else a.K, -1))
    for part in parts:
        if part.name in HEAD:
            heads = [HEAD[part.name](part, a, h, side, g, s) for g, h in enumerate(heads)]
    return heads


def with_inputs(part, a):
    """Norms of what each side reads."""
    called = lambda side: f"{side}_input_norm" if part.norms == "each" else "input_norm"  # noqa: E731
    given = dict(zip(("query", "key", "value"), (a.x, *(a.run.sides or (a.x, a.x))), strict=True))
    made = {side: [norm(part.norm, f"{a.name}.{called(side)}", a.weights, v) for v in x] for side, x in given.items()}
    a.x, a.reads = made.pop("query"), made


def convolved_side(part, a, side, y, v, s):
    """A side of position s with those before it, each head by taps of its own or of the token's."""
    own, n = f"{side}_convolution", part.kernel
    if part.taps == "token":
        taps = linear(f"{a.name}.{own}.taps", a.weights, v).view(a.K, n)
        tap = lambda j: a[f"{own}.static"][j] + taps[:, j].repeat_interleave(len(y) // a.K)  # noqa: E731
    else:
        tap = lambda j: a[f"{own}.weight"][:, n - 1 - j]  # noqa: E731
    before = [linear(f"{a.name}.{side}", a.weights, a.reads[side][s - j]) for j in range(min(n, s + 1))]
    terms = (2 * n if part.taps == "token" else n) + 1
    return (y + sum(tap(j) * u for j, u in enumerate(before))) / (terms**0.5 if part.normalised else 1.0)


def placed(a, place, heads, side, t):
    for part in place:
        heads = [TURNED[part.name](part, a, h, t) for h in heads]
    for part in a.part.project.adjust.values():
        if part.name == "qk_norm":
            heads = [norm_of_head(part, a, h, side, "after_rotary") for h in heads]
        if part.name == "query_gain" and side == "query":
            heads = [g**2 * h for g, h in zip(split(scaled(part, a["query_gain"]), heads), heads, strict=True)]
    return heads


def over_heads(part, name, weights, x, run, *, source=None, chosen=None, of_values=None):
    """Attention of x to itself, or to a `source`: out of its slots.

    `chosen(t, h, query, keys)`: which keys query t may see by head h; `of_values`: what values read in place of x.
    """
    a = Seen(part, name, weights, run, x, x)
    place = () if source is not None else part.place.values()
    memory = {} if source is not None else part.memory
    if "joined" in part.project.adjust:
        a.x = joined(part.project.adjust["joined"], a)
    a.reads = {"key": a.x if source is None else source, "value": of_values or (a.x if source is None else source)}
    if "side_inputs" in part.project.adjust:
        with_inputs(part.project.adjust["side_inputs"], a)
    a.queries = [projected(a, "query", v, t) for t, v in enumerate(a.x)]
    if "keys_from" in memory:
        a.keys, a.values = run.memories[memory["keys_from"].variant]
    else:
        a.keys = [placed(a, place, projected(a, "key", v, s), "key", s) for s, v in enumerate(a.reads["key"])]
        a.values = [projected(a, "value", v, s) for s, v in enumerate(a.reads["value"])]
    read = corrected(a, part) if "delta_values" in memory else a.values
    if source is None and "keys_from" not in memory:
        run.memories[run.variant], run.values[run.variant] = (a.keys, read), a.values
    virtual = range(memory["virtual_tokens"].count if "virtual_tokens" in memory else 0)
    scale = a.E**-0.5 if part.score.scale is None else part.score.scale
    cap = part.score.softcap
    out = []
    for t in range(len(x)):
        queries = [math.prod(FACTOR[p.name](p, t) for p in place) * q for q in placed(a, place, a.queries[t], "query", t)]
        seen = range(len(a.keys)) if source is not None else visible(part, run, t, len(x))
        of = [seen if chosen is None else [s for s in seen if s in chosen(t, h, queries[h], a)] for h in range(a.H)]

        def scores(h, t=t, queries=queries, of=of):
            q = queries[h]
            each = [(q @ a.keys[s][a.group(h)]) * scale + sum(terms(a, q, h, t, s)) for s in of[h]]
            each += [(q @ a["virtual_key"][a.group(h), s]) * scale for s in virtual]
            return torch.stack(each if cap is None else [cap * torch.tanh(score / cap) for score in each])

        a.scored.append([dict(zip(of[h], scores(h), strict=False)) for h in range(a.H)])

        def values(h, g, of=of):
            return torch.stack([read[s][g] for s in of[h]] + [a["virtual_value"][g, s] for s in virtual])

        heads = WEIGH[part.weigh.kind](part.weigh, a, scores, values)
        for each in part.combine.values():
            heads = COMBINE[each.name](each, a, heads, t)
        out.append(linear(f"{name}.output", weights, torch.cat(heads)))
    return out


def corrected(a, attention):
    """Each value without what its key recalls of the corrected ones before it."""
    scale, values = a.E**-0.5 if attention.score.scale is None else attention.score.scale, []
    for t, own in enumerate(a.values):
        before = [s for s in visible(attention, a.run, t, len(a.x)) if s < t]
        beta, new = linear(f"{a.name}.delta_values.rate", a.weights, a.x[t]), list(own)
        for g in range(a.K) if before else ():
            shares = torch.stack([torch.exp(a.keys[t][g] @ a.keys[s][g] * scale) for s in before])
            new[g] = own[g] - beta[g] * sum(
                share * values[s][g] for share, s in zip(shares / shares.sum(), before, strict=True)
            )
        values.append(new)
    return values


def terms(a, q, h, t, s):
    """What is added to one score."""
    for part in a.part.score.terms.values():
        yield TERM[part.name](part, a, q, h, t, s)
    if a.part.kind == "attention" and a.run.stack.score_bias is not None:
        yield a.weights[f"{a.run.name}.score_bias.weight"][bucket(a.run.stack.score_bias.buckets, s - t), h]


def visible(part, run, t, length):
    """The positions that query t may see."""
    until = run.until[t] if run.until else t
    place = (lambda t: t) if run.places is None else run.places.__getitem__
    return [s for s in range(length) if allowed(part.mask, place(t), place(s), run.prefix) or t < s <= until]
