"""Transcripts of sounds: what a decoder says to a source that is no text, and the best path of CTC."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from anyformer.describe import InputError
from anyformer.generation.decode import continued
from anyformer.generation.sampling import GREEDY, Sampling
from anyformer.model.transformer import Transformer
from anyformer.text import Tokenizer
from anyformer.text.transcripts import TranscriptFrame


def transcribed(
    model: Transformer,
    source: Tensor,
    padding: Tensor | None,
    frame: TranscriptFrame,
    *,
    most: int,
    ends: Sequence[int] = (),
    sampling: Sampling = GREEDY,
) -> list[list[int]]:
    """The tokens that a model with two inputs says to each source behind `frame.opening`, without the end.

    `source`: what its encoder reads, and `padding` of it; `most`: tokens at most; `ends`: further ends beside the frame's.
    """
    table = model.architecture.output_stack.max_length
    room = most if table is None else min(most, table - len(frame.opening))
    if room < 1:
        raise InputError(f"the decoder has {table} positions, and what begins a transcript takes {len(frame.opening)} of them")
    over = {*ends, *frame.behind[:1]}
    said: list[list[int]] = [[] for _ in source]
    ended: set[int] = set()
    prompts = [list(frame.opening)] * len(source)
    steps = continued(
        model, prompts, sampling=sampling, max_tokens=room, ends=tuple(over), source=source, source_padding=padding
    )
    for tokens, _ in steps:
        for row, token in enumerate(tokens.tolist()):
            if token in over:
                ended.add(row)
            if row not in ended:
                said[row].append(token)
    return said


def best_path(logits_BTV: Tensor, lengths_B: Tensor, blank: int) -> list[list[int]]:
    """The symbols of the likeliest path of CTC: the greatest logit at every position, repetitions joined, blanks left out
    (Graves et al. 2006, section 3.2)."""
    said = []
    for path, length in zip(logits_BTV.argmax(-1).tolist(), lengths_B.tolist(), strict=True):
        before = [blank, *path[: length - 1]]
        said.append([one for one, last in zip(path[:length], before, strict=True) if one not in (last, blank)])
    return said


def blank_of(tokenizer: Tokenizer) -> int:
    """The blank of CTC: the token that fills rows (wav2vec 2.0), else the number behind all of the tokenizer's."""
    found = tokenizer.find("pad")
    return tokenizer.vocab_size if found is None else found


def spoken_text(tokenizer: Tokenizer, tokens: Sequence[int], times: int | None = None) -> str:
    """The text of a transcript's tokens, without special ones and without those of times, which begin at number `times`."""
    return tokenizer.decode([token for token in tokens if times is None or token < times]).strip()
