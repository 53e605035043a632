"""A text with images among its tokens, on one row."""

from __future__ import annotations

import torch

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
    whole = tower.kind == "tower" and tower.seen == "whole"
    until = [end_of_image(tower, tokens, t) for t in range(len(tokens))] if whole else None
    axes = places_in_text(tower, tokens, images) if tower.kind == "grid" else None
    x = run_stack(architecture.decoder, "decoder", weights, x, None, 0, tokens, until, axes)
    return logits(architecture.head, weights, x, "embedding.weight")


def features_of(tower, weights, image):
    """The embeddings of one image."""
    x = patches_enter(tower.patches, "images.patches", weights, image)
    if tower.kind == "grid":
        return features_of_grid(tower, weights, image, x)
    x = run_stack(tower.stack, "images.stack", weights, x, None, 0, None)[tower.skipped :]
    return PROJECTORS[tower.projector.kind](tower.projector, "images.projector", weights, x)


def features_of_grid(tower, weights, image, x):
    """The same, of an image of any size: its patches window by window, and in each square by square."""
    p, m = tower.patches.size, tower.projector.side if tower.projector.kind == "merged" else 1
    rows, columns = len(image[0]) // p, len(image[0][0]) // p
    high, wide = (rows, columns) if tower.window is None else (tower.window, tower.window)
    order, places = [], []
    for top in range(0, rows, high):
        for left in range(0, columns, wide):
            for row in range(top, top + high, m):
                for column in range(left, left + wide, m):
                    for i in range(m):
                        for j in range(m):
                            if row < rows and column < columns:
                                order.append((row + i, column + j))
                                places.append((top // high * -(-columns // wide) + left // wide) * high * wide)
    x = [x[row * columns + column] for row, column in order]
    x = run_stack(tower.stack, "images.stack", weights, x, None, 0, None, None, order, places)
    y = PROJECTORS[tower.projector.kind](tower.projector, "images.projector", weights, x)
    squares = {(row // m, column // m): y[k] for k, (row, column) in enumerate(order[:: m * m])}
    return [squares[row, column] for row in range(rows // m) for column in range(columns // m)]


def places_in_text(tower, tokens, images):
    """(time, row, column) of every token: text counts on, an image's rows and columns count from where it begins."""
    unit = tower.patches.size * (tower.projector.side if tower.projector.kind == "merged" else 1)
    left, at, places, t = list(images), 0, [], 0
    while t < len(tokens):
        if tokens[t] != tower.token:
            places.append((at, at, at))
            at, t = at + 1, t + 1
            continue
        image = left.pop(0)
        rows, columns = len(image[0]) // unit, len(image[0][0]) // unit
        places += [(at, at + row, at + column) for row in range(rows) for column in range(columns)]
        at, t = at + max(rows, columns), t + rows * columns
    return places


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


def merged(part, name, weights, x):
    act, n, out = ACTIVATIONS[part.activation], part.side**2, []
    for k in range(0, len(x), n):
        square = torch.cat([norm(part.norm, f"{name}.norm", weights, v) for v in x[k : k + n]])
        out.append(linear(f"{name}.second", weights, act(linear(f"{name}.first", weights, square))))
    return out


PROJECTORS = {"two_layer": two_layer, "pooled": pooled, "merged": merged}
