"""The work between queries and keys."""

from __future__ import annotations

from anyformer.operations import Pairs, Shape, Tally
from anyformer.operations.elementwise import SCORE, softmax


def pair_work(shape: Shape, heads: int, key: int, value: int, pairs: int, exact: int, each: int = SCORE) -> Tally:
    """The work between queries and keys: scores over `key` features, their softmax, `value` features mixed.

    Of `pairs` (query, key) pairs of each head and row the mask allows `exact`. `each`: operations of the softmax, or of what is
    in its place, for one score.
    """
    B, T = shape.batch, shape.length
    return Tally(
        own_work={
            "scores": Pairs(B, heads, key, pairs, exact, T, "features"),
            "softmax": softmax(B * heads * pairs, B * heads * exact, each),
            "mix": Pairs(B, heads, value, pairs, exact, T, "keys"),
        }
    )
