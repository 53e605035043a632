"""Predictions of the tokens after the next one, on one row."""

from __future__ import annotations

import torch

from anyformer.describe import Named
from anyformer.parts.layers.order import write_order
from anyformer.parts.layers.stack import Stack
from naive.basics import linear, norm
from naive.entrances import ENTRANCES
from naive.stack import run_stack


def ahead(architecture, weights, tokens):
    """What the head reads for each later token: T - k vectors for k = 1 ... depth."""
    stack, part = architecture.decoder, architecture.mtp
    embedded = ENTRANCES[architecture.embedding.kind](architecture.embedding, "embedding", weights, tokens)
    if part.kind == "sequential":
        features = run_stack(stack, "decoder", weights, embedded, None, 0, tokens)
        return sequential(part, stack, weights, tokens, embedded, features)
    assert part.kind == "parallel", f"write {part.kind!r} in plain loops in {__file__}"
    *trunk, _ = stack.layers
    shorter = stack.but(
        variants=Named({name: stack.variants[name] for name in trunk}), order=write_order(trunk), final_norm=None
    )
    stream = run_stack(shorter, "decoder", weights, embedded, None, 0, tokens)
    made = []
    for k in range(part.depth):
        read = [z for i, z in enumerate(stream) if i + k + 1 < len(tokens)]
        y = layer(part, stack, weights, k, read, tokens[: len(read)])
        made.append([norm(stack.final_norm, "decoder.final_norm", weights, v) for v in y])
    return made


def sequential(part, stack, weights, tokens, embedded, h):
    made = []
    for k in range(part.depth):
        entrance, x = f"mtp.entrances.{k}", []
        for i in range(len(tokens) - k - 1):
            late = norm(part.norm, f"{entrance}.embedding_norm", weights, embedded[i + k + 1])
            early = norm(part.norm, f"{entrance}.hidden_norm", weights, h[i])
            x.append(linear(f"{entrance}.projection", weights, torch.cat([late, early])))
        h = layer(part, stack, weights, k, x, tokens[k + 1 :])
        last = (stack.final_norm, "decoder.final_norm") if part.shared_norm else (part.norm, f"mtp.exits.{k}.final_norm")
        made.append([norm(*last, weights, v) for v in h])
    return made


def layer(part, stack, weights, k, x, tokens):
    """One layer as a stack of its own."""
    block = part.block or stack.variants[stack.layers[-1]]
    prefix = f"mtp.layers.{k}."
    own = {f"mtp.layers.0.{name.removeprefix(prefix)}": w for name, w in weights.items() if name.startswith(prefix)}
    return run_stack(Stack(variants=Named(layer=block), order="layer"), "mtp", own, x, None, 0, tokens)
