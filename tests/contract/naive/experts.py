"""Routing and experts, token by token."""

from __future__ import annotations

import math

import torch

from naive.basics import factor, linear, norm, softmax
from naive.networks import activate, between, feedforward
from naive.positions import allowed, rotate


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


# What a token wants of each expert, by a choice that its scores alone decide.
PREFERENCES = {
    "sampled": lambda choice, scores: scores,
}


def preferences(part, name, weights, logits, scores, token):
    """How much one token wants each expert, before a capacity."""
    choice, experts = part.router.choice, range(part.experts + getattr(part, "identity_experts", 0))
    if choice.kind in ("hashed", "token_table"):
        key = scramble(token ^ choice.seed * 0x9E3779B1 % 2**32)
        wanted = [scramble(key ^ scramble(e)) for e in experts]
        named = weights[f"{name}.router.table"][token].tolist() if choice.kind == "token_table" else []
        for place, e in enumerate(named):
            if e >= 0:  # -1: without an entry
                wanted[e] += 2**32 * (len(named) - place)
        return wanted
    if choice.kind in PREFERENCES:
        return PREFERENCES[choice.kind](choice, [s.item() for s in scores])
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
        read = norm(router.norm, f"{name}.router.norm", weights, v) * factor(router.multiplier, len(v))
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
        return norm(part.output_norm, f"{name}.output_norm", weights, v) if part.kind == "latent_experts" else v

    def project(kind, z):
        y = weights[f"{name}.{kind}"][e] @ z
        return y + weights[f"{name}.{kind}_bias"][e] if kind in part.bias else y

    gate = project("gate", v) if part.gated else None
    y = project("down", between(part, lambda z: activate(part, name, weights, z), gate, project("up", v)))
    return norm(part.output_norm, f"{name}.output_norm", weights, y) if part.kind == "latent_experts" else y


def placed(part, choices):
    """(token, rank) of the choices that find a place: token by token, or in a call all first choices before second ones."""
    capacity, tokens, ranks = part.capacity, range(len(choices)), range(part.chosen)
    if capacity is None or (capacity.kind == "call" and capacity.when == "training"):
        return {(t, r) for t in tokens for r in ranks}
    if capacity.kind == "row":
        order, places = [(t, r) for t in tokens for r in ranks], capacity.tokens
    else:
        assert capacity.overflow == "drop"
        order = [(t, r) for r in ranks for t in tokens]
        places = math.ceil(capacity.factor * part.chosen * len(choices) / part.experts)
    found, used = set(), {}
    for t, r in order:
        e = choices[t][r][0]
        if used.get(e, 0) < places:
            used[e] = used.get(e, 0) + 1
            found.add((t, r))
    return found


def experts(part, name, weights, x, run):
    """Token by token and expert by expert."""
    seen = [norm(part.norm, f"{name}.norm", weights, v) for v in x]
    return mixture(part, name, weights, x, run, seen, seen, lambda y: y)


def latent_experts(part, name, weights, x, run):
    """The same in a latent, beside a shared expert of the stream."""
    seen = [norm(part.norm, f"{name}.latent_norm", weights, linear(f"{name}.latent_in", weights, v)) for v in x]
    return mixture(part, name, weights, x, run, seen, x, lambda z: linear(f"{name}.latent_out", weights, z))


def mixture(part, name, weights, x, run, seen, beside, written):
    """The experts of what is `seen`, `written` to the stream, and the shared expert of what is `beside`."""
    out, choices = [], [routed(part, name, weights, v, run.tokens[t]) for t, v in enumerate(x)]
    taken = placed(part, choices)
    for t, read in enumerate(seen):
        y = torch.zeros_like(read)
        for r, (e, share) in enumerate(choices[t]):
            if (t, r) not in taken:
                continue
            if part.weigh == "input":
                y = y + expert(part, name, weights, e, share * read)
            else:
                y = y + share * expert(part, name, weights, e, read)
        y = written(y)
        if part.shared is not None:
            shared = feedforward(part.shared.feedforward, f"{name}.shared", weights, [beside[t]], run)[0]
            if part.shared.gate is not None:
                shared = shared / (1 + torch.exp(-linear(f"{name}.shared_gate", weights, beside[t])))
            y = y + shared if part.shared.join == "sum" else (y + shared) / 2
        out.append(y)
    return out


def attention_experts(part, name, weights, x, run):
    """Token by token, expert by expert and head by head."""
    E, scale = part.head_width, part.head_width**-0.5 if part.scale is None else part.scale
    turn = lambda h, t: h if part.rotary is None else rotate(part.rotary, h, t, len(x))  # noqa: E731
    keys = [[turn(h, s) for h in linear(f"{name}.key", weights, v).view(-1, E)] for s, v in enumerate(x)]
    values, out = [linear(f"{name}.value", weights, v).view(-1, E) for v in x], []
    for t, v in enumerate(x):
        seen, y = [s for s in range(len(x)) if allowed(part.mask, t, s, run.prefix)], torch.zeros_like(v)
        for e, weight in routed(part, name, weights, v, run.tokens[t]):
            mixed = []
            for h, q in enumerate((weights[f"{name}.experts.query"][e] @ v).view(-1, E)):
                share = softmax([turn(q, t) @ keys[s][h] * scale for s in seen])
                mixed.append(sum(a * values[s][h] for a, s in zip(share, seen, strict=True)))
            y = y + weight * (weights[f"{name}.experts.output"][e] @ torch.cat(mixed))
        out.append(y)
    return out
