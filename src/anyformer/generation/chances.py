"""How likely the model found the tokens that were chosen, and which it found likeliest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


@dataclass(frozen=True)
class Chances:
    """`logprob`: the log-probability of a token; `likeliest`: tokens and theirs, the likeliest first.

    They are the model's own, before any part of `Sampling` works: the log-softmax of its logits, as transformers' `logits` of
    `output_logits` and vLLM's `logprobs` have them.
    """

    logprob: float
    likeliest: tuple[tuple[int, float], ...]


class Token(NamedTuple):
    """A token that a row gets."""

    row: int
    number: int
    chances: Chances | None = None


def chances(logits_BV: Tensor, tokens_B: Tensor, count: int | None) -> list[Chances | None]:
    """Those of each row's token, with the `count` likeliest; None for each where nothing is asked."""
    if count is None:
        return [None] * len(tokens_B)
    logs = logits_BV.float().log_softmax(-1)
    own = logs.gather(1, tokens_B[:, None])[:, 0].tolist()
    values, tokens = logs.topk(min(count, logs.shape[-1]), -1)
    pairs = [tuple(zip(*each, strict=True)) for each in zip(tokens.tolist(), values.tolist(), strict=True)]
    return [Chances(*each) for each in zip(own, pairs, strict=True)]
