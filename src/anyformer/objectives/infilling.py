"""Text infilling: spans of a text become one mask token each, and empty spans put one in."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anyformer.data.packing import Ints

Floats = NDArray[np.float32]


class InfillingDraws(NamedTuple):
    """Numbers in (0, 1), (T,) each: which places are hidden, and how long spans are."""

    places: Floats
    lengths: Floats


def infilled(text: Ints, rate: float, mean: float, mask: int, draws: InfillingDraws) -> Ints:
    """`text` with round(rate T) tokens in spans, each of which is one `mask`; no longer than `text`.

    Lengths are drawn from a Poisson distribution until they hold all these tokens, the last one cut; there are at most as many
    spans as hidden tokens. Kept tokens and spans stand in an order drawn evenly from all: no span runs into another, and empty
    spans stand anywhere.
    """
    hidden = round(rate * len(text))
    if hidden == 0:
        return text
    lengths = np.searchsorted(poisson(mean), draws.lengths[:hidden], side="left")
    count = min(int(np.searchsorted(np.cumsum(lengths), hidden)) + 1, hidden)
    lengths = lengths[:count]
    lengths[-1] = hidden - lengths[:-1].sum()
    items = len(text) - hidden + count
    span = np.zeros(items, dtype=bool)
    span[np.argsort(draws.places[:items], kind="stable")[:count]] = True
    taken = np.ones(items, dtype=np.int64)
    taken[span] = lengths
    starts = np.minimum(np.cumsum(taken) - taken, len(text) - 1)
    return np.where(span, mask, text[starts])


@lru_cache(maxsize=8)
def poisson(mean: float) -> NDArray[np.float64]:
    """P(length <= n) for n = 0, 1 ... up to where nothing is left to draw from 24 bits."""
    total = term = np.exp(-mean)
    shares = [total]
    while total < 1 - 2.0**-26:
        term *= mean / len(shares)
        total += term
        shares.append(total)
    return np.array(shares)
