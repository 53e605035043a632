"""`Learnt`: the tokens of a text, and which of them a model is to learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anyformer.text.tokenizers import TokenArray


@dataclass(frozen=True)
class Learnt:
    """The tokens of a text, and which of them a model is to learn."""

    tokens: TokenArray
    learnt: NDArray[np.bool_]


def shared(one: TokenArray, other: TokenArray) -> int:
    """How many tokens both begin with."""
    least = min(len(one), len(other))
    differ = np.flatnonzero(one[:least] != other[:least])
    return int(differ[0]) if len(differ) else least
