"""Hashed n-grams, token by token and table by table."""

from __future__ import annotations

import torch

from naive.basics import linear, norm
from naive.recurrent import convolution

GAMMA = 0x9E3779B97F4A7C15


def is_prime(number):
    return number > 1 and all(number % divisor for divisor in range(2, number))


def factor(part, place):
    """Of the token `place` before the present."""
    word = (part.seed + 10007 * part.index + GAMMA * (place + 2)) % 2**64
    for shift, times in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word = (word ^ (word >> shift)) * times % 2**64
    word ^= word >> 31
    return 2 * (word % ((2**63 - 1) // part.vocab // 2)) + 1


def tables(part):
    """The rows of every table that is before or in this look-up's, and the number of those before."""
    count = (part.longest - part.shortest + 1) * part.heads
    sizes, number = [], part.rows
    while len(sizes) < count * (part.index + 1):
        sizes += [number] if is_prime(number) else []
        number += 1
    return sizes[-count:]


def numbers(part, tokens, t):
    """The row of each table, of the n-grams that end at position t."""
    near = []
    for k in range(part.longest):
        over = t - k < 0 or any(token == part.ends for token in tokens[t - k : t])
        near.append(part.before if over else tokens[t - k])
    found, start, sizes = [], 0, tables(part)
    for n in range(part.shortest, part.longest + 1):
        mixed = 0
        for k in range(n):
            mixed ^= int(near[k]) * factor(part, k)
        for _ in range(part.heads):
            size = sizes[len(found)]
            found.append(start + mixed % size)
            start += size
    return found


def hashed_ngrams(part, name, weights, x, run):
    table = weights[f"{name}.ngrams.table"]
    return [part.scale * sum(table[row] for row in numbers(part.ngrams, run.tokens, t)) for t in range(len(x))]


def engram(part, name, weights, x, run):
    values = []
    for t, v in enumerate(x):
        rows = torch.cat([weights[f"{name}.ngrams.table"][row] for row in numbers(part.ngrams, run.tokens, t)])
        key = norm(part.norm, f"{name}.key_norm", weights, linear(f"{name}.key", weights, rows))
        score = key @ norm(part.norm, f"{name}.query_norm", weights, v) / len(v) ** 0.5
        rooted = torch.sign(score) * torch.sqrt(torch.clamp(abs(score), min=1e-6))
        values.append(linear(f"{name}.value", weights, rows) / (1 + torch.exp(-rooted)))
    if part.convolution is None:
        return values
    normed = [norm(part.norm, f"{name}.convolution_norm", weights, v) for v in values]
    return [v + c for v, c in zip(values, convolution(part.convolution, f"{name}.convolution", weights, normed), strict=True)]
