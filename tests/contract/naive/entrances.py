"""How tokens, features, images and audio frames enter."""

from __future__ import annotations

import math

import torch

from naive.basics import ACTIVATIONS, factor, linear, norm, numbers


def tokens_enter(part, name, weights, tokens):
    table = weights[f"{name}.weight"]
    rows = [factor(part.scale, table.shape[1]) * table[token] for token in tokens]
    if part.masked is not None:
        seen = 1 - tokens.count(part.masked.token) / len(tokens)
        rows = [
            row * (0 if token == part.masked.token else (1 - part.masked.share) / seen)
            for row, token in zip(rows, tokens, strict=True)
        ]
    if part.narrow is not None:
        a, beyond = part.narrow.around, [torch.zeros_like(rows[0])] * part.narrow.around
        wide = beyond + rows + beyond
        rows = [
            linear(f"{name}.narrow.projection", weights, torch.cat([wide[t + i] for i in reversed(range(2 * a + 1))]))
            for t in range(len(rows))
        ]
    return [row + weights[f"{name}.types"][0] for row in rows] if part.types else rows


def marked_tokens_enter(part, name, weights, tokens):
    """Without numbers of its tokens every number is 0, and so is every difference of two."""
    rows = tokens_enter(part, name, weights, tokens)
    for i, marks in enumerate(part.marks):
        y = (len(marks.of) + len(marks.spans)) * weights[f"{name}.marks.{i}.table"][0]
        y = y if marks.width is None else weights[f"{name}.marks.{i}.projection.weight"] @ y
        rows = [row + y for row in rows]
    return rows


def tree_placed_tokens_enter(part, name, weights, tokens):
    """Without paths of its tokens every step is one that is not there."""
    places = f"{name}.places"
    e = [
        weights[f"{places}.tags"][j][part.no_tag] + weights[f"{places}.subscripts"][j][part.no_subscript]
        for j in range(part.depth)
    ]
    inner = torch.cat(e)
    inner = linear(f"{places}.up", weights, inner)
    y = linear(f"{places}.down", weights, torch.where(inner > 0, inner, torch.zeros_like(inner)))
    return [row + y for row in tokens_enter(part, name, weights, tokens)]


def features_enter(part, name, weights, vectors):
    return [norm(part.norm, f"{name}.norm", weights, linear(f"{name}.projection", weights, numbers(v))) for v in vectors]


def patches_enter(part, name, weights, image):
    p, rows = part.size, len(image[0]) // part.size
    patches = []
    for row in range(rows):
        for column in range(len(image[0][0]) // p):
            square = [
                [[image[c][row * p + i][column * p + j] for i in range(p) for j in range(p)]] for c in range(part.channels)
            ]
            pixels = [pixel for channel in square for frame in channel * part.frames for pixel in frame]
            patches.append(linear(f"{name}.projection", weights, numbers(pixels)))
    return [weights[f"{name}.class_tokens"][i] for i in range(part.class_tokens)] + patches


def places_of_patches(part, image):
    """The coordinates of every position; None where they are counted."""
    if getattr(part, "coordinates", None) is None:
        return None
    rows, columns = (len(side) // part.size for side in (image[0], image[0][0]))
    if part.coordinates.kind == "numbered":
        numbered = [(column + 1.0, row + 1.0) for row in range(rows) for column in range(columns)]
        return [(0.0, 0.0)] * part.class_tokens + numbered
    turn = 2 * math.pi * part.coordinates.turns
    middle = lambda i, count: turn * (2 * (i + 0.5) / count - 1)  # noqa: E731
    return [(0.0, 0.0)] * part.class_tokens + [
        (middle(row, rows), middle(column, columns)) for row in range(rows) for column in range(columns)
    ]


def frames_enter(part, name, weights, frames):
    first = convolve(weights, f"{name}.first", [numbers(v) for v in frames])
    return convolve(weights, f"{name}.second", first)[::2]


def gated_frames_enter(part, name, weights, frames):
    rows = [numbers(v) for v in frames]
    for i, kernel in enumerate(part.kernels):
        halved = []
        for t in range(0, len(rows), 2):
            y = weights[f"{name}.layers.{i}.bias"]
            for offset in range(kernel):
                if 0 <= t + offset - kernel // 2 < len(rows):
                    y = y + weights[f"{name}.layers.{i}.weight"][:, :, offset] @ rows[t + offset - kernel // 2]
            half = len(y) // 2
            halved.append(y[:half] / (1 + torch.exp(-y[half:])))
        rows = halved
    return [part.scale * row for row in rows]


def waves_enter(part, name, weights, samples):
    rows = [numbers([sample]) for sample in samples]
    for i, layer in enumerate(part.layers):
        own, outputs = f"{name}.layers.{i}", []
        for start in range(0, len(rows) - layer.kernel + 1, layer.stride):
            y = sum(weights[f"{own}.weight"][:, :, j] @ rows[start + j] for j in range(layer.kernel))
            outputs.append(norm(layer.norm, f"{own}.norm", weights, y + weights.get(f"{own}.bias", 0)))
        late = layer.row_norm_at == "after_activation"
        rows = outputs if late else over_rows(layer.row_norm, f"{own}.row_norm", weights, outputs)
        rows = [ACTIVATIONS[layer.activation](row) for row in rows]
        rows = over_rows(layer.row_norm, f"{own}.row_norm", weights, rows) if late else rows
    return [norm(part.norm, f"{name}.norm", weights, row) for row in rows]


def over_rows(part, name, weights, rows):
    """Every channel, or group of them, normalised over all positions."""
    if part is None:
        return rows
    whole, normed = torch.stack(rows), []
    for group in whole.chunk(part.groups or whole.shape[1], dim=1):
        centred = group - group.sum() / group.numel()
        normed.append(centred / ((centred * centred).sum() / group.numel() + part.eps).sqrt())
    return list(torch.cat(normed, 1) * weights[f"{name}.weight"] + weights[f"{name}.bias"])


def convolve(weights, name, rows):
    """A kernel of three over time, and GELU."""
    outputs = []
    for t in range(len(rows)):
        y = weights[f"{name}.bias"]
        for offset in (-1, 0, 1):
            if 0 <= t + offset < len(rows):
                y = y + weights[f"{name}.weight"][:, :, offset + 1] @ rows[t + offset]
        outputs.append(torch.nn.functional.gelu(y))
    return outputs


ENTRANCES = {
    "tokens": tokens_enter,
    "marked_tokens": marked_tokens_enter,
    "tree_placed_tokens": tree_placed_tokens_enter,
    "activations": lambda part, name, weights, vectors: [numbers(v) for v in vectors],
    "features": features_enter,
    "patches": patches_enter,
    "audio_frames": frames_enter,
    "gated_frames": gated_frames_enter,
    "waves": waves_enter,
}
