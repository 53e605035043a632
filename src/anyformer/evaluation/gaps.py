"""One hidden token of a text, seen from both sides: what each shape of model says of it, and of other tokens in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from anyformer.describe import UserError
from anyformer.evaluation.decoder_likelihood import target_scores
from anyformer.evaluation.likelihood import Request, Tokens, scores
from anyformer.evaluation.masked_likelihood import framed_row, logs_at
from anyformer.model.transformer import Transformer
from anyformer.text import Tokenizer
from anyformer.text.sides import Sides


@dataclass(frozen=True)
class Gap:
    """A hidden token between two parts of a text, and the tokens that it may be: the first candidate is the right one."""

    before: Tokens
    after: Tokens
    candidates: Tokens

    def __post_init__(self) -> None:
        if not self.before or not self.candidates:
            raise UserError("a gap needs a token before it and a candidate at least")


@dataclass(frozen=True)
class CandidateScores:
    """log p of each candidate of a gap, up to a constant that all of them share."""

    logs: tuple[float, ...]

    @property
    def right(self) -> bool:
        """Whether the right candidate is the likeliest."""
        return self.logs.index(max(self.logs)) == 0

    @property
    def nats(self) -> float:
        """-log p(the right candidate | it is one of the candidates)."""
        logs = torch.tensor(self.logs, dtype=torch.float64)
        return float(logs.logsumexp(0) - logs[0])


def by_mask(model: Transformer, gaps: Sequence[Gap], tokenizer: Tokenizer) -> list[CandidateScores]:
    """A masked model reads both parts with the mask token between them: log p(v | before, after)."""
    mask = tokenizer.special("mask")
    rows = [framed_row(tokenizer, (*gap.before, mask, *gap.after)) for gap in gaps]
    logs = logs_at(model, rows, [row.index(mask) for row in rows])
    return [CandidateScores(tuple(logs[number, list(gap.candidates)].tolist())) for number, gap in enumerate(gaps)]


def by_sentinel(model: Transformer, gaps: Sequence[Gap], tokenizer: Tokenizer) -> list[CandidateScores]:
    """A model of left-out spans reads both parts with a sentinel between them, and its decoder writes what stood there:
    log p(v | before, after)."""
    (sentinel,), frame = tokenizer.sentinels(1), Sides.of_running_text(tokenizer)
    requests = [
        Request(tuple(frame.source.framed([(*gap.before, sentinel, *gap.after)]).tokens), (candidate,))
        for gap in gaps
        for candidate in gap.candidates
    ]
    return _each(gaps, [score.log_likelihood for score in target_scores(model, requests, (*frame.opening, sentinel))])


def by_whole_text(model: Transformer, gaps: Sequence[Gap], length: int) -> list[CandidateScores]:
    """A model of the next token reads the text with each candidate: log p(v | before) + log p(after | before, v).

    By Bayes' rule the candidates' probabilities given both sides are in proportion to it.
    """
    requests = [Request(gap.before, (candidate, *gap.after)) for gap in gaps for candidate in gap.candidates]
    return _each(gaps, [score.log_likelihood for score in scores(model, requests, length)])


def by_left_side(model: Transformer, gaps: Sequence[Gap], length: int) -> list[CandidateScores]:
    """A model of the next token reads the part before the gap alone: log p(v | before)."""
    requests = [Request(gap.before, (candidate,)) for gap in gaps for candidate in gap.candidates]
    return _each(gaps, [score.log_likelihood for score in scores(model, requests, length)])


def _each(gaps: Sequence[Gap], logs: Sequence[float]) -> list[CandidateScores]:
    found = iter(logs)
    return [CandidateScores(tuple(next(found) for _ in gap.candidates)) for gap in gaps]
