"""Tokens and runs of tokens that are wanted, unwanted or forbidden."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from anyformer.describe import InputError
from anyformer.generation.prefixes import Prefixes
from anyformer.generation.processors.base import NEVER, Processor, among, where_rows

Run = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
"""One token or several in order."""


class WithinVocabulary(Processor):
    """Tokens from number `size` on, which a table has beyond its tokenizer's, are never chosen."""

    reads: ClassVar[bool] = False
    size: Annotated[int, Field(ge=1)]

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        return scores_BV[:, : self.size]


class SequenceBias(Processor):
    """Adds to the score of the token that would end a run of tokens (transformers' SequenceBiasLogitsProcessor).

    Of a run of one token always, of a longer one where the text ends with the tokens before its last.
    """

    runs: Annotated[tuple[tuple[Run, float], ...], Field(min_length=1)]
    """Runs, each with what is added."""

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        return scores_BV + _biases(dict(self.runs), scores_BV, texts, "sequence_bias")


class BadWords(Processor):
    """Runs of tokens that never stand in what is written (transformers' NoBadWordsLogitsProcessor); an end alone is allowed."""

    runs: Annotated[tuple[Run, ...], Field(min_length=1)]

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        banned = {run: NEVER for run in self.runs if len(run) > 1 or run[0] not in texts.ends}
        return scores_BV + _biases(banned, scores_BV, texts, "bad_words_ids")


class Suppress(Processor):
    """Tokens that are never chosen (transformers' SuppressTokensLogitsProcessor); numbers that are none are passed over."""

    reads: ClassVar[bool] = False
    tokens: tuple[int, ...]

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        return scores_BV.masked_fill(among(self.tokens, scores_BV), NEVER)


class SuppressFirst(Processor):
    """Tokens that are never chosen first: behind a forced one, if one is forced (SuppressTokensAtBeginLogitsProcessor)."""

    tokens: tuple[int, ...]
    after_forced: bool = False
    """Whether the first token is forced where a text has one token: what is chosen first is then the second."""

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        first = [made == int(self.after_forced and prompt == 1) for made, prompt in zip(texts.made, texts.prompts, strict=True)]
        if not any(first):
            return scores_BV
        return scores_BV.masked_fill(where_rows(first, scores_BV) & among(self.tokens, scores_BV), NEVER)


def _biases(runs: dict[tuple[int, ...], float], scores_BV: Tensor, texts: Prefixes, key: str) -> Tensor:
    """What is added to the scores, (B, V)."""
    vocabulary = scores_BV.shape[-1]
    beyond = [token for run in runs for token in run if token >= vocabulary]
    if beyond:
        raise InputError(f"{key} names token {beyond[0]}, and the vocabulary has {vocabulary}: leave it out")
    bias = torch.zeros_like(scores_BV)
    # Equal lengths are compared at once.
    for length in sorted({len(run) for run in runs}):
        of_length = {run: added for run, added in runs.items() if len(run) == length}
        last = torch.tensor([run[-1] for run in of_length], device=scores_BV.device)
        added = torch.tensor(list(of_length.values()), dtype=bias.dtype, device=scores_BV.device)
        begun = _ends_with(texts, [run[:-1] for run in of_length])
        bias.index_add_(1, last, torch.where(begun, added, 0.0))
    return bias


def _ends_with(texts: Prefixes, runs: list[tuple[int, ...]]) -> Tensor:
    """Whether each row ends with each of some runs of one length, (B, runs)."""
    device, length = texts.tokens.device, len(runs[0])
    own = torch.tensor(texts.lengths, device=device)[:, None]
    if length == 0:
        return torch.ones(len(own), len(runs), dtype=torch.bool, device=device)
    if texts.written.shape[1] == 0:
        return torch.zeros(len(own), len(runs), dtype=torch.bool, device=device)
    places = (own - length + torch.arange(length, device=device)).clamp(min=0)
    last = texts.written.gather(1, places)
    return (last[:, None] == torch.tensor(runs, device=device)).all(-1) & (own >= length)
