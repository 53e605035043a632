"""The loss of counting pairs of tokens, which a model has to beat before it has learnt anything about longer context."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anyformer.text.errors import DataError

_BLOCKS = 200
_ITERATIONS = 100


def interpolated_bigram_loss(train_tokens: ArrayLike, validation_tokens: ArrayLike, vocab: int) -> float:
    """Mean nats per token, the first excepted, of p(b|a) = x * bigram + y * unigram + z * uniform (Jelinek and Mercer 1980).

    Held-out tokens may be one line (tokens,) or several (lines, tokens); no pair crosses from one line to the next. The three
    weights are fitted by EM on every twentieth block of the training tokens with counts from the others; the final counts are
    of all training tokens. Memory: about 40 bytes per training token.
    """
    train, validation = _pairs(train_tokens, vocab, "train"), _pairs(validation_tokens, vocab, "validation")
    block = max(1, len(train) // _BLOCKS)
    held_out = np.arange(len(train)) // block % 20 == 10
    weights = _fit(_probabilities(train[~held_out], train[held_out], vocab))
    return float(-np.log(_probabilities(train, validation, vocab) @ weights).mean())


def _pairs(tokens: ArrayLike, vocab: int, name: str) -> NDArray[np.int64]:
    """Neighbours (a, b) as a * vocab + b, within each line, one line after the other."""
    line = np.asarray(tokens).astype(np.int64, copy=False)
    if line.shape[-1] < 2 or line.size < 2 + 20 * (name == "train"):
        raise DataError(f"the {name} split has {line.size} tokens, too few to count pairs; give more text")
    if int(line.min()) < 0 or int(line.max()) >= vocab:
        raise DataError(f"the {name} split has token {int(line.max())}, vocab is {vocab}; pass the tokenizer's vocab_size")
    pairs: NDArray[np.int64] = line[..., :-1] * vocab + line[..., 1:]
    return pairs.ravel()


def _probabilities(counted: NDArray[np.int64], asked: NDArray[np.int64], vocab: int) -> NDArray[np.float64]:
    """Bigram, unigram and uniform probability of each asked pair's second token: (pairs,) -> (pairs, 3)."""
    pairs, counts = np.unique(counted, return_counts=True)
    place = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
    seen = np.where(pairs[place] == asked, counts[place], 0)
    before = np.bincount(counted // vocab, minlength=vocab)[asked // vocab]
    after = np.bincount(counted % vocab, minlength=vocab)[asked % vocab]
    bigram = seen / np.maximum(before, 1)
    # A context never seen says nothing: there the unigram stands in for the bigram, so that the mixture sums to one.
    unigram = after / len(counted)
    bigram = np.where(before > 0, bigram, unigram)
    return np.stack([bigram, unigram, np.full(len(asked), 1 / vocab)], axis=1)


def _fit(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mixture weights (3,) that make the rows of (pairs, 3) most likely, by EM."""
    # Repeated rows are common; counting them once makes the iterations cheap.
    rows, counts = np.unique(probabilities, axis=0, return_counts=True)
    weights = np.full(3, 1 / 3)
    for _ in range(_ITERATIONS):
        shares = rows * weights
        shares /= shares.sum(axis=1, keepdims=True)
        # A floor: the validation text may need a part of the mixture that the held-out text did not.
        weights = np.maximum(counts @ shares / counts.sum(), 1e-6)
        weights /= weights.sum()
    return weights
