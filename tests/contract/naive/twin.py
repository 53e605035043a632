"""A whole architecture on one row."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from anyformer.model import Architecture
from naive.ahead import ahead
from naive.basics import factor, linear, norm, position, scaled
from naive.entrances import ENTRANCES, patches_enter, places_of_patches
from naive.networks import activate
from naive.stack import run_stack

SILU_RMS = 0.5964692111227134
"""The root mean square of x sigmoid(x) over N(0, 1)."""


def encoded_images_enter(part, name, weights, image):
    x = patches_enter(part.patches, f"{name}.patches", weights, image)
    x = run_stack(part.stack, f"{name}.stack", weights, x, None, 0, None, axes=places_of_patches(part.patches, image))
    return [linear(f"{name}.projection", weights, v) for v in x] if part.projected else x


def encoded_waves_enter(part, name, weights, samples):
    x = ENTRANCES["waves"](part.waves, f"{name}.waves", weights, samples)
    x = run_stack(part.stack, f"{name}.stack", weights, x, None, 0, None)
    return [linear(f"{name}.projection", weights, v) for v in x] if part.projected else x


ENTERING = {**ENTRANCES, "encoded_images": encoded_images_enter, "encoded_waves": encoded_waves_enter}


def forward(
    architecture: Architecture, weights: dict[str, Tensor], tokens: list, target: list[int] | None = None, prefix: int = 0,
    time: float = 0.0, kind: int | None = None,
):  # fmt: skip
    """Logits (T, V) or (V), or features, of one row: `tokens` (or features, or an image), and of two inputs the `target`."""
    if architecture.initialisation.mup is not None:
        rules = architecture.initialisation.mup
        architecture = at_unit_scale(architecture, rules) if rules.kind == "unit_scaled" else as_at_base(architecture, rules)
    second = "embedding" if architecture.decoder_embedding is None else "decoder_embedding"
    entrance = architecture.decoder_embedding or architecture.embedding
    x = ENTERING[architecture.embedding.kind](architecture.embedding, "embedding", weights, tokens)
    own = [] if target is None else ENTERING[entrance.kind](entrance, second, weights, target)
    first = architecture.virtual_tokens or 0
    if first:
        x, prefix, tokens = [*weights["virtual_tokens"], *x], prefix + first, None
    if architecture.encoder is not None:
        places = places_of_patches(architecture.embedding, tokens)
        x = run_stack(architecture.encoder, "encoder", weights, x, None, prefix, tokens, axes=places, time=time, kind=kind)
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
    x = x[first:]
    if architecture.head is None:
        return torch.stack(x)
    if architecture.head.passed_over is not None:
        x = [v for v, token in zip(x, tokens, strict=True) if token != architecture.head.passed_over] or x[:1]
    return logits(architecture.head, weights, x, f"{second}.weight")


def predictions(
    architecture: Architecture, weights: dict[str, Tensor], tokens: list, target: list | None = None, prefix: int = 0
):
    """The logits of `forward`, and of the tokens after the next one."""
    first = forward(architecture, weights, tokens, target, prefix)
    if architecture.mtp is None:
        return (first,)
    later = ahead(architecture, weights, tokens)
    return (first, *(logits(architecture.head, weights, x, "embedding.weight") for x in later))


def as_at_base(architecture: Architecture, rules) -> Architecture:
    """muP: factors as at the base, but logits divided by D / D_base, 1 / E in the place of 1 / sqrt(E) in scores, and branches
    divided by (L / L_base)^a."""
    base = rules.base_width
    plain = architecture.plain()
    D, L = plain["width"], architecture.decoder.depth
    plain["initialisation"].pop("mup")
    plain["head"]["scale"] = factor(architecture.head.scale, base) * base / D
    for branch in branches_of(plain):
        if rules.base_depth is not None:
            branch["multiplier"] = branch.get("multiplier", 1.0) * (rules.base_depth / L) ** rules.depth_exponent
        if branch["sublayer"]["kind"] == "attention":
            H = branch["sublayer"]["heads"]
            branch["sublayer"].setdefault("score", {})["scale"] = (base / H) ** 0.5 / (D / H)
    return Architecture.parse(plain)


def at_unit_scale(architecture: Architecture, rules) -> Architecture:
    """u-muP of SwiGLU networks and causal attention, as factors of scores, branches and logits."""
    plain = architecture.plain()
    D, L, T = plain["width"], architecture.decoder.depth, rules.length
    plain["initialisation"].pop("mup")
    plain["head"]["scale"] = factor(architecture.head.scale, 1) * rules.logits / D
    for branch in branches_of(plain):
        times = branch.get("multiplier", 1.0) * rules.residual * (2 / (1 + rules.attention**2) / L) ** 0.5
        if branch["sublayer"]["kind"] == "attention":
            E = D / branch["sublayer"]["heads"]
            branch["sublayer"].setdefault("score", {})["scale"] = rules.scores / E
            branch["multiplier"] = times * rules.attention * (T / math.log(T)) ** (2 * E / (4 * E + rules.scores**2))
        else:
            branch["multiplier"] = times / SILU_RMS
    return Architecture.parse(plain)


def branches_of(plain):
    for variant in plain["decoder"]["variants"].values():
        for step in variant["steps"]:
            yield from step["branches"].values()


def logits(head, weights, x, table):
    if head.pool is not None:
        mean = sum(x[head.front :]) / (len(x) - head.front)
        x = [{"first": x[0], "last": x[-1], "mean": mean, "first_and_mean": torch.cat([x[0], mean])}[head.pool]]
    rows = []
    for features in x:
        if head.transform is not None:
            if head.transform.inner is not None:
                features = linear("head.transform.inner", weights, features)
                features = activate(head.transform, "head.transform", weights, features)
            features = linear("head.transform.dense", weights, features)
            if head.transform.activation is not None:
                features = activate(head.transform, "head.transform", weights, features)
            features = norm(head.transform.norm, "head.transform.norm", weights, features)
        if head.outputs == "features":
            rows.append(features)
            continue
        matrix = weights[table if head.tied else "head.weight"]
        matrix = matrix if head.own is None else torch.cat([matrix, weights["head.own"]], 1)
        z = matrix @ features + (weights["head.bias"] if head.bias else 0)
        z = z if head.gain is None else scaled(head.gain, weights["head.gain"]) * z
        z = z * factor(head.scale, len(x[0]))
        rows.append(z if head.softcap is None else head.softcap * torch.tanh(z / head.softcap))
    return rows[0] if head.pool is not None else torch.stack(rows)
