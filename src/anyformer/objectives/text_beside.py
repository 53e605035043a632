"""A text to be predicted behind what is read: rows of both, and the texts that a model writes there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyformer.data import IGNORED, Corpus
from anyformer.data.columns import padded
from anyformer.generation.decode import continuations
from anyformer.generation.sampling import GREEDY
from anyformer.generation.sounds import SoundFrames
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.examples import Examples
from anyformer.objectives.source_target import NOTHING
from anyformer.text import DataError, Tokenizer
from anyformer.text.marked import encode_marked

LONGEST = 64
"""Tokens of a text where nobody says it."""


@dataclass(frozen=True)
class TextBeside:
    """What stands around a question and its answer: `before` the tokens of what is shown and `behind` them, and what ends the
    answer (`closing`)."""

    before: tuple[int, ...]
    behind: tuple[int, ...]
    closing: tuple[int, ...]

    @property
    def count(self) -> int:
        """Positions that are read beside what is shown, a question and its answer: the last token is predicted alone."""
        return len(self.before) + len(self.behind) + len(self.closing) - 1

    def opening(self, shown: Sequence[int], prompt: Sequence[int]) -> list[int]:
        """All that is read before the answer."""
        return [*self.before, *shown, *self.behind, *prompt]


def around_shown(tokenizer: Tokenizer, before: str, behind: str) -> TextBeside:
    """What stands around a text that shows something, with these texts around that, special tokens by name."""
    marked = [tuple(encode_marked(tokenizer, text)) if text else () for text in (before, behind)]
    frame = tokenizer.frame.single
    frame = frame if frame.behind else frame.ending(tokenizer.end)
    return TextBeside((*frame.before, *marked[0]), marked[1], frame.behind)


def check_written(corpus: Corpus, architecture: Architecture) -> None:
    """Refuse a tokenizer with tokens that the model cannot write."""
    outputs, found = architecture.outputs, corpus.tokenizer.vocab_size
    if found > outputs:
        raise DataError(f"the tokenizer has {found:,} tokens, and the head {outputs:,} logits: set head.outputs = {found}")


class AnswerRows(NamedTuple):
    """Rows in which the answers alone are predicted: (B, T) each, and `asked` (B,), the tokens before every answer."""

    tokens: Tensor
    padding: Tensor
    targets: Tensor
    asked: Tensor


def answered(openings: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], length: int) -> AnswerRows:
    """Rows of T = `length` positions, of openings and the answers that stand behind them; the last token is predicted alone."""
    rows = [[*opening, *answer] for opening, answer in zip(openings, answers, strict=True)]
    whole = torch.from_numpy(padded(rows, length + 1, NOTHING))
    asked = torch.tensor([len(opening) for opening in openings])
    told = (whole[:, 1:] >= 0) & (torch.arange(1, length + 1) >= asked[:, None])
    read = torch.where(whole[:, 1:] < 0, NOTHING, whole[:, :-1])
    return AnswerRows(read.clamp(min=0), read < 0, torch.where(told, whole[:, 1:], IGNORED), asked)


def written(model: Transformer, examples: Examples) -> tuple[list[list[int]], list[list[int]]]:
    """The likeliest next tokens behind what is read of every row with a target, and those that are wanted, without their ends;
    as many as the longest of them has at most."""
    valid = examples.targets != IGNORED
    there = valid.any(1)
    if not bool(there.any()):
        return [], []
    tokens = (examples.tokens if examples.decoder_tokens is None else examples.decoder_tokens)[there]
    wanted = [row[told].tolist() for row, told in zip(examples.targets[there], valid[there], strict=True)]
    first = valid[there].byte().argmax(1).tolist()
    prompts = [row[: place + 1] for row, place in zip(tokens.tolist(), first, strict=True)]
    ends = {row[-1] for row in wanted}
    most = min(max(map(len, wanted)), room(model.architecture, max(map(len, prompts)), examples))
    steps = continuations(model, prompts, sampling=GREEDY, max_tokens=most, ends=sorted(ends), **_shown(examples, there))
    said = torch.stack(list(steps), 1).tolist()
    return [_before(row, ends) for row in said], [row[:-1] for row in wanted]


def _shown(examples: Examples, there: Tensor) -> dict[str, Any]:
    """What the rows that are `there` show beside their tokens, as `continuations` takes it."""
    if examples.images is not None:
        return {"images": examples.images[there]}
    if examples.audio is not None:
        padding = None if examples.audio_padding is None else examples.audio_padding[there]
        return {"sounds": SoundFrames(examples.audio[there], padding)}
    return {"source": examples.tokens[there]}


def room(architecture: Architecture, prompt: int, examples: Examples) -> int:
    """Tokens that may follow a prompt: the position table, if there is one, ends behind them."""
    longest = architecture.output_stack.max_length
    if longest is None:
        return examples.targets.shape[1]
    before = architecture.embedding.check("source", examples.tokens, None) if architecture.source == "prefix" else 0
    return longest - before - prompt + 1


def _before(tokens: list[int], ends: Collection[int]) -> list[int]:
    """The tokens before the first end."""
    return tokens[: next((place for place, token in enumerate(tokens) if token in ends), len(tokens))]
