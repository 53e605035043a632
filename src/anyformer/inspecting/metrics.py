"""What is asked of the logits of a prompt: one number per row, which interventions move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Protocol

import torch
from torch import Tensor

from anyformer.describe import InputError

TokenNumbers = Tensor | int | Sequence[int]
"""One token for all rows, or one per row."""


class Metric(Protocol):
    """Logits (B, T, V) -> one number per row, (B,), that a gradient may pass."""

    def __call__(self, logits_BTV: Tensor) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class TokenLogit:
    """The logit of a token: `token_B` (B,), or one for all rows, at `position`, the last by default."""

    token_B: TokenNumbers
    position: int = -1

    def __post_init__(self) -> None:
        numbers_of(self.token_B)

    def __call__(self, logits_BTV: Tensor) -> Tensor:
        return of_tokens(logits_BTV[:, self.position], self.token_B)


@dataclass(frozen=True, eq=False)
class LogitDifference:
    """The logit of the right token less that of the wrong one: (B,), or one for all rows, at `position`."""

    right_B: TokenNumbers
    wrong_B: TokenNumbers
    position: int = -1

    def __post_init__(self) -> None:
        numbers_of(self.right_B)
        numbers_of(self.wrong_B)

    def __call__(self, logits_BTV: Tensor) -> Tensor:
        here_BV = logits_BTV[:, self.position]
        return of_tokens(here_BV, self.right_B) - of_tokens(here_BV, self.wrong_B)


@dataclass(frozen=True, eq=False)
class LogProbability:
    """The log-probability of a token in nats: `token_B` (B,), or one for all rows, at `position`."""

    token_B: TokenNumbers
    position: int = -1

    def __post_init__(self) -> None:
        numbers_of(self.token_B)

    def __call__(self, logits_BTV: Tensor) -> Tensor:
        return of_tokens(logits_BTV[:, self.position].float().log_softmax(-1), self.token_B)


def numbers_of(tokens: TokenNumbers) -> Tensor:
    """The numbers of tokens, (B,) or (1,); refused where they are none."""
    if isinstance(tokens, Tensor) and not tokens.is_floating_point():
        return tokens.reshape(-1)
    found = list(tokens) if isinstance(tokens, list | tuple | range) else [tokens]
    if not found or not all(isinstance(each, Integral) for each in found):
        raise InputError(
            f"a metric names tokens by their numbers, got {tokens!r}: give whole numbers, such as tokenizer.encode(TEXT)"
        )
    return torch.tensor(found)


def of_tokens(values_BV: Tensor, tokens: TokenNumbers) -> Tensor:
    """The value of one token per row: (B,)."""
    token_B = numbers_of(tokens)
    if len(token_B) not in (1, len(values_BV)):
        raise InputError(f"a metric names {len(token_B)} tokens and there are {len(values_BV)} rows: one for each row, or one")
    return values_BV.gather(-1, token_B.to(values_BV.device).expand(len(values_BV))[:, None])[:, 0]


def divergence(reference_BV: Tensor, logits_BV: Tensor) -> Tensor:
    """KL(reference || logits) in nats per row: (B,)."""
    wanted_BV, said_BV = reference_BV.float().log_softmax(-1), logits_BV.float().log_softmax(-1)
    return (wanted_BV.exp() * (wanted_BV - said_BV)).sum(-1)
