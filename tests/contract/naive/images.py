"""A text with images among its tokens, on one row."""

from __future__ import annotations

import torch

from naive.basics import linear, norm
from naive.entrances import patches_enter, places_of_patches, tokens_enter
from naive.networks import ACTIVATIONS
from naive.stack import run_stack
from naive.twin import logits


def forward(architecture, weights, tokens, images):
    """Logits (T, V) of a row of tokens and the images, nested lists, for which some of them stand."""
    tower = architecture.images
    seen = [features_of(tower, weights, image) for image in images]
    features = iter([each for image in seen for each in image[0]])
    plain = [0 if token == tower.token else token for token in tokens]
    embedded = tokens_enter(architecture.embedding, "embedding", weights, plain)
    x = [next(features) if token == tower.token else row for token, row in zip(tokens, embedded, strict=True)]
    whole = tower.kind == "tower" and tower.seen == "whole"
    until = [end_of_image(tower, tokens, t) for t in range(len(tokens))] if whole else None
    axes = places_in_text(tower, tokens, images) if tower.kind == "grid" and tower.counted == "axes" else None
    added = []
    for k in range(0 if tower.deep is None else len(tower.deep.layers)):
        deep = iter([each for image in seen for each in image[1 + k]])
        added.append([next(deep) if token == tower.token else None for token in tokens])
    x = run_stack(architecture.decoder, "decoder", weights, x, None, 0, tokens, until, axes, added=added)
    return logits(architecture.head, weights, x, "embedding.weight")


def projected(tower, weights, y, behind, order=None):
    """The embeddings of an image, then what its deep-stack adds to each layer; `order`: of positions, where not as they are."""
    out = []
    if tower.joined:
        y = [torch.cat(features) for features in zip(*(behind[layer] for layer in tower.joined), strict=True)]
    for k, h in enumerate((y, *(behind[layer] for layer in (tower.deep.layers if tower.deep else ())))):
        part, name = (tower.deep.projector, f"images.deep.{k - 1}") if k else (tower.projector, "images.projector")
        h = h if order is None else [h[place] for place in order]
        out.append(PROJECTORS[part.kind](part, name, weights, h))
    return out


def features_of_tiles(tower, weights, image):
    """The embeddings of an image and its tiles, and those for each layer of the text, at whose row ends nothing is added."""
    newline = weights["images.newline"]
    of_tiles = [features_of_square(tower, weights, tile) for tile in image.pixels.tolist()]
    return [
        laid_out(tower, [tile[k] for tile in of_tiles], image, newline if k == 0 else 0 * newline)
        for k in range(len(of_tiles[0]))
    ]


def laid_out(tower, of_tiles, image, end):
    """The features of an image, then those of its tiles row by row, without borders, a vector behind each row."""
    side = tower.image // tower.patches.size
    high, wide = image.rows * side, image.columns * side
    whole = [
        [of_tiles[1 + r // side * image.columns + c // side][r % side * side + c % side] for c in range(wide)]
        for r in range(high)
    ]
    if image.width / image.height > wide / high:
        empty = (high - int(round(image.height * wide / image.width, 7))) // 2
        whole = whole[empty : high - empty]
    else:
        empty = (wide - int(round(image.width * high / image.height, 7))) // 2
        whole = [row[empty : wide - empty] for row in whole]
    ratio = (len(whole) * len(whole[0]) / (tower.most * side**2)) ** 0.5 if tower.most else 1.0
    if ratio > 1.1:
        rows, columns = int(len(whole) // ratio), int(len(whole[0]) // ratio)
        whole = [[between(whole, r, rows, c, columns) for c in range(columns)] for r in range(rows)]
    return [*of_tiles[0], *(v for row in whole for v in (*row, end))]


def between(whole, row, rows, column, columns):
    """The mean of the four vectors around a row of so many and a column of so many, by how near they are."""
    total = 0
    for r, high in two_around(row, rows, len(whole)):
        for c, wide in two_around(column, columns, len(whole[0])):
            total = total + high * wide * whole[r][c]
    return total


def two_around(place, of, there):
    at = max((place + 0.5) * there / of - 0.5, 0.0)
    first = int(at)
    return (first, 1 - (at - first)), (min(first + 1, there - 1), at - first)


def features_of(tower, weights, image):
    """The embeddings of one image, and those for each layer of the text."""
    return features_of_tiles(tower, weights, image) if tower.kind == "tiles" else features_of_square(tower, weights, image)


def features_of_square(tower, weights, image):
    """The same of an image that is no tiles."""
    x = patches_enter(tower.patches, "images.patches", weights, image)
    if tower.kind == "grid":
        return features_of_grid(tower, weights, image, x)
    behind = []
    places = places_of_patches(tower.patches, image)
    x = run_stack(tower.stack, "images.stack", weights, x, None, 0, None, None, places, behind=behind)
    side, m = len(image[0]) // tower.patches.size, side_of(tower.projector)
    by_squares = [
        tower.skipped + (row + i) * side + column + j
        for row in range(0, side, m)
        for column in range(0, side, m)
        for i in range(m)
        for j in range(m)
    ]
    return projected(tower, weights, x, behind, by_squares if m > 1 else range(tower.skipped, len(x)))


def side_of(projector):
    """Patches along the side of the squares that a projector reads."""
    if projector.kind == "chained":
        return side_of(projector.first)
    return projector.side if projector.kind in ("merged", "squares", "condensed", "downsampled") else 1


def features_of_grid(tower, weights, image, x):
    """The same, of an image of any size: its patches window by window, and in each square by square."""
    p, m = tower.patches.size, side_of(tower.projector)
    rows, columns = len(image[0]) // p, len(image[0][0]) // p
    x = [norm(tower.patch_norm, "images.patch_norm", weights, v) for v in x]
    if tower.position is not None:
        table = weights["images.position.weight"]
        x = [v + resampled(tower.position, table, n // columns, rows, n % columns, columns) for n, v in enumerate(x)]
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
    x, behind = [x[row * columns + column] for row, column in order], []
    x = run_stack(tower.stack, "images.stack", weights, x, None, 0, None, None, order, places, behind=behind)
    found = projected(tower, weights, x, behind)
    squares = {(row // m, column // m): k for k, (row, column) in enumerate(order[:: m * m])}
    return [[y[squares[row, column]] for row in range(rows // m) for column in range(columns // m)] for y in found]


def resampled(position, table, row, rows, column, columns):
    """The table's vector at a row of so many and a column of so many."""
    vector = 0
    for i, high in taps(position, row, rows):
        for j, wide in taps(position, column, columns):
            vector = vector + high * wide * table[i * position.side + j]
    return vector


def taps(position, place, of):
    """The rows of the table around a place of so many, and their shares: hat functions, or Keys' cubic with a = -0.75."""
    side = position.side
    if position.antialias and side > of:
        at = (place + 0.5) * side / of
        shares = [(i, max(1 - abs(i + 0.5 - at) * of / side, 0.0)) for i in range(side)]
        return [(i, share / sum(each for _, each in shares)) for i, share in shares]
    if position.corners == "centres":
        at = place * (side - 1) / (of - 1) if of > 1 else 0.0
    else:
        at = (place + 0.5) * side / of - 0.5
    if position.by == "bilinear":
        at = min(max(at, 0.0), side - 1.0)
    first, found = int(at // 1), []
    for i in range(first - 1, first + 3):
        d = abs(at - i)
        share = max(1 - d, 0.0)
        if position.by == "bicubic":
            share = 1.25 * d**3 - 2.25 * d**2 + 1 if d <= 1 else (-0.75 * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0.0)
        found.append((min(max(i, 0), side - 1), share))
    return found


def places_in_text(tower, tokens, images):
    """(time, row, column) of every token: text counts on, an image's rows and columns count from where it begins."""
    unit = tower.patches.size * side_of(tower.projector)
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
    x = [norm(part.norm, f"{name}.norm", weights, v) for v in x]
    return [linear(f"{name}.second", weights, act(linear(f"{name}.first", weights, v))) for v in x]


def plain(part, name, weights, x):
    return [linear(f"{name}.projection", weights, v) for v in x]


def gated(part, name, weights, x):
    act, out = ACTIVATIONS[part.activation], []
    for v in x:
        v = norm(part.norm, f"{name}.norm", weights, v)
        out.append(linear(f"{name}.down", weights, act(linear(f"{name}.gate", weights, v)) * linear(f"{name}.up", weights, v)))
    return out


def downsampled(part, name, weights, x):
    act, n, out = ACTIVATIONS[part.activation], part.side**2, []
    for k in range(0, len(x), n):
        h = linear(f"{name}.projection", weights, linear(f"{name}.squares", weights, torch.cat(list(x[k : k + n]))))
        h = ACTIVATIONS["gelu"](norm(part.norm, f"{name}.norm", weights, h))
        out.append(linear(f"{name}.down", weights, act(linear(f"{name}.gate", weights, h)) * linear(f"{name}.up", weights, h)))
    return out


def squares(part, name, weights, x):
    n = part.side**2
    wide = [torch.cat(list(x[k : k + n])) for k in range(0, len(x), n)]
    return PROJECTORS[part.inner.kind](part.inner, f"{name}.inner", weights, wide)


def chained(part, name, weights, x):
    x = PROJECTORS[part.first.kind](part.first, f"{name}.first", weights, x)
    x = x if part.activation is None else [ACTIVATIONS[part.activation](v) for v in x]
    return PROJECTORS[part.then.kind](part.then, f"{name}.then", weights, x)


def condensed(part, name, weights, x):
    n = part.side**2
    x = [norm(part.norm, f"{name}.norm", weights, v) for v in x]
    one = [linear(f"{name}.merge", weights, torch.cat(x[k : k + n])) for k in range(0, len(x), n)]
    return PROJECTORS[part.inner.kind](part.inner, f"{name}.inner", weights, one)


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
        if part.norm_of == "square":
            square = norm(part.norm, f"{name}.norm", weights, torch.cat(list(x[k : k + n])))
        else:
            square = torch.cat([norm(part.norm, f"{name}.norm", weights, v) for v in x[k : k + n]])
        out.append(linear(f"{name}.second", weights, act(linear(f"{name}.first", weights, square))))
    return out


PROJECTORS = {
    "two_layer": two_layer, "pooled": pooled, "merged": merged, "linear": plain, "gated": gated, "squares": squares,
    "condensed": condensed,
    "chained": chained,
    "downsampled": downsampled,
}  # fmt: skip
