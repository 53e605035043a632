"""The legend of dimension letters: one letter means one thing in every body, docstring and error of this package.

A tensor's name may carry its shape: `x_BTD` is (batch, length, width).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

LARGEST = 2**31 - 1
"""The largest dimension: no model has a larger one, and tensor libraries count larger ones in other integers."""

LONGEST = 2**50
"""The longest sequence that is priced, in positions: about 10^15; every count for it is still exact."""

LEGEND: Mapping[str, str] = MappingProxyType(
    {
        "B": "batch: sequences computed side by side",
        "T": "length: query positions of one sequence in this call",
        "S": "key length: positions that queries can look at (T, or cached + T, or the source's length)",
        "D": "width: features of the residual stream",
        "H": "heads: query heads",
        "K": "kv heads: heads of keys and values, or of the states of a recurrence; H is a multiple of K or K of H",
        "G": "group: query heads per kv head, H / K; of rollouts, answers to one prompt",
        "E": "head width: features of one head; of a recurrence with keys of another width, of a head of values",
        "U": "value width: features of one head of values, E unless said otherwise",
        "R": "rotated features of one head, even, at most E; of rollouts, rows, B * G",
        "F": "ffn width: features inside a feed-forward network",
        "X": "experts",
        "Z": "tokens of a call side by side, B * T",
        "J": "experts that one token passes",
        "Q": "rows that experts compute, those of one expert side by side",
        "A": "attempts: rounds of choosing experts, a token's first choice first",
        "V": "vocabulary: rows of the token embedding",
        "L": "layers of a stack",
        "M": "features of a key of linear attention, after its feature map",
        "C": "capacity: positions that a decode state can hold",
        "N": "residual streams, where there are several",
        "I": "inputs: features or channels that an embedding or a matrix reads",
        "O": "outputs: features that a matrix computes",
        "P": "narrow features: of a latent, or of an embedding narrower than the stream, before a matrix widens them",
        "Y": "samples of a sound, as its file has them",
        "W": "channels that a convolution or a decay treats separately",
    }
)
