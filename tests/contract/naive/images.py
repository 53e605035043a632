"""A text with images among its tokens, on one row."""

from __future__ import annotations

from naive.basics import linear, norm
from naive.entrances import patches_enter, tokens_enter
from naive.networks import ACTIVATIONS
from naive.stack import run_stack
from naive.twin import logits


def forward(architecture, weights, tokens, images):
    """Logits (T, V) of a row of tokens and the images, nested lists, for which some of them stand."""
    tower = architecture.images
    features = iter([each for image in images for each in features_of(tower, weights, image)])
    plain = [0 if token == tower.token else token for token in tokens]
    embedded = tokens_enter(architecture.embedding, "embedding", weights, plain)
    x = [next(features) if token == tower.token else row for token, row in zip(tokens, embedded, strict=True)]
    until = [end_of_image(tower, tokens, t) for t in range(len(tokens))] if tower.seen == "whole" else None
    x = run_stack(architecture.decoder, "decoder", weights, x, None, 0, tokens, until)
    return logits(architecture.head, weights, x, "embedding.weight")


def features_of(tower, weights, image):
    """The embeddings of one image."""
    x = patches_enter(tower.patches, "images.patches", weights, image)
    x = run_stack(tower.stack, "images.stack", weights, x, None, 0, None)[tower.skipped :]
    return PROJECTORS[tower.projector.kind](tower.projector, "images.projector", weights, x)


def end_of_image(tower, tokens, t):
    """The last position of the run of an image's tokens around t; of another token, t."""
    while tokens[t] == tower.token and t + 1 < len(tokens) and tokens[t + 1] == tower.token:
        t += 1
    return t


def two_layer(part, name, weights, x):
    act = ACTIVATIONS[part.activation]
    return [linear(f"{name}.second", weights, act(linear(f"{name}.first", weights, v))) for v in x]


def pooled(part, name, weights, x):
    across = round(len(x) ** 0.5)
    size, out = across // part.side, []
    for row in range(part.side):
        for column in range(part.side):
            square = [x[(row * size + i) * across + column * size + j] for i in range(size) for j in range(size)]
            out.append(
                linear(f"{name}.projection", weights, norm(part.norm, f"{name}.norm", weights, sum(square) / len(square)))
            )
    return out


PROJECTORS = {"two_layer": two_layer, "pooled": pooled}
