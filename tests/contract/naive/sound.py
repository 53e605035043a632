"""A text with sounds among its tokens, on one row."""

from __future__ import annotations

import torch

from naive.basics import linear, norm
from naive.entrances import frames_enter, tokens_enter
from naive.images import PROJECTORS
from naive.networks import ACTIVATIONS
from naive.stack import run_stack
from naive.twin import logits


def forward(architecture, weights, tokens, sounds):
    """Logits (T, V) of a row of tokens and the sounds, lists of frames, for which some of them stand."""
    tower = architecture.audio
    features = iter([each for sound in sounds for each in features_of(tower, weights, sound)])
    plain = [0 if token == tower.token else token for token in tokens]
    embedded = tokens_enter(architecture.embedding, "embedding", weights, plain)
    x = [next(features) if token == tower.token else row for token, row in zip(tokens, embedded, strict=True)]
    x = run_stack(architecture.decoder, "decoder", weights, x, None, 0, tokens)
    return logits(architecture.head, weights, x, "embedding.weight")


def features_of(tower, weights, sound):
    """The embeddings of one sound."""
    x = frames_enter(tower.embedding, "audio.embedding", weights, sound)
    x = run_stack(tower.stack, "audio.stack", weights, x, None, 0, None)
    return OF_SOUND[tower.projector.kind](tower.projector, "audio.projector", weights, x)


def averaged(part, name, weights, x):
    out = []
    for k in range(0, len(x) // part.count * part.count, part.count):
        y = linear(f"{name}.first", weights, norm(part.norm, f"{name}.norm", weights, sum(x[k : k + part.count]) / part.count))
        out.append(y if part.activation is None else linear(f"{name}.second", weights, ACTIVATIONS[part.activation](y)))
    return out


def joined(part, name, weights, x):
    wide = [torch.cat(x[k : k + part.count]) for k in range(0, len(x), part.count)]
    act = ACTIVATIONS[part.activation]
    return [linear(f"{name}.second", weights, act(linear(f"{name}.first", weights, v))) for v in wide]


OF_SOUND = {**PROJECTORS, "averaged": averaged, "side_by_side": joined}
