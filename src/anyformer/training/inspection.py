"""The examples of a run exactly as its model sees them: tokens, targets, weights and attention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from anyformer.data import IGNORED, Corpus
from anyformer.data.pictured import Pictured
from anyformer.model.inputs import count_positions
from anyformer.objectives import Examples, Setting
from anyformer.objectives.mixing import epochs, training_feed
from anyformer.parts.call.state import EMPTY
from anyformer.pictures.patterns import masks_of
from anyformer.sound.heard import Heard
from anyformer.text.pieces import pieces
from anyformer.training.run import Run


@dataclass(frozen=True)
class InspectedToken:
    """One position of a row. `text` is what the token spells, the name of a special token included; `target` what it predicts.

    `number` of the token; `target` None where nothing is predicted; `weight` of its loss; `document` it belongs to.
    """

    number: int
    text: str
    special: bool
    target: str | None = None
    weight: float = 1.0
    document: int = 0
    prefix: bool = False
    padding: bool = False


@dataclass(frozen=True)
class Sequence:
    """A sequence of one row, as `input`, `source` or `target`; `masks`: by their places, (T, T) bool: whether query sees
    key."""

    role: str
    places: tuple[InspectedToken, ...]
    masks: dict[str, Tensor]


@dataclass(frozen=True)
class Seen:
    """One row of a batch: its global sample number, its sequences, the label of the whole row if it has one, its sounds and its
    images."""

    sample: int
    sequences: tuple[Sequence, ...]
    label: str | None = None
    sounds: tuple[Heard, ...] = ()
    images: tuple[Pictured, ...] = ()


def planned(run: Run, corpus: Corpus) -> list[str]:
    """What a run of known steps will read of each part of a mixture, a line each; of other data none."""
    if run.steps is None:
        return []
    setting = Setting(corpus.tokenizer, run.length, run.seed, corpus.names, run.architecture)
    return epochs(training_feed(run.objective, run.data, corpus, setting, run.batch), run.steps * run.batch)


def inspected(run: Run, corpus: Corpus, step: int, rows: int) -> Iterator[Seen]:
    """The first rows of training batch number `step` (from 0)."""
    setting = Setting(corpus.tokenizer, run.length, run.seed, corpus.names, run.architecture)
    feed = training_feed(run.objective, run.data, corpus, setting, run.batch)
    examples, words = feed.at(step), _Words(corpus)
    for row in range(min(rows * (len(examples.tokens) // len(examples.rows)), len(examples.tokens))):
        seen = _seen(run, examples, words, row)
        # The parts of a mixture are of one kind, and hear with one rate.
        data, (records,) = next(iter(run.data.components.values())), feed.records(np.array([seen.sample]))
        sounds = tuple(heard for heard in map(data.heard, records) if heard is not None)
        images = tuple(shown for shown in map(data.pictured, records) if shown is not None)
        yield replace(seen, sounds=sounds, images=images)


class _Words:
    """What every token spells."""

    def __init__(self, corpus: Corpus) -> None:
        self.special = {number: name for name, number in corpus.tokenizer.special_tokens.items()}
        self.texts = pieces(corpus.tokenizer)
        self.names = corpus.names

    def of(self, number: int) -> str:
        return self.special.get(number) or (self.texts[number] if number < len(self.texts) else f"<{number}>")


def _seen(run: Run, examples: Examples, words: _Words, row: int) -> Seen:
    sample = int(examples.rows[row * len(examples.rows) // len(examples.tokens)])
    positional = examples.targets.dim() == 2
    label = None if positional else _label(examples.targets[row], words)
    two = examples.decoder_tokens is not None
    sequences = []
    if run.architecture.embedding.symbols is not None:
        ends = None if two or not positional else examples.targets[row]
        sequences.append(_sequence(run, examples, words, row, "source" if two else "input", ends))
    if examples.decoder_tokens is not None:
        sequences.append(_sequence(run, examples, words, row, "target", examples.targets[row]))
    return Seen(sample, tuple(sequences), label)


def _label(target: Tensor, words: _Words) -> str:
    names = next(iter(words.names.values()), ())
    whole = not target.dtype.is_floating_point and 0 <= int(target) < len(names)
    return names[int(target)] if whole else f"{float(target):g}"


def _sequence(run: Run, examples: Examples, words: _Words, row: int, role: str, targets: Tensor | None) -> Sequence:
    second = role == "target"
    tokens = examples.decoder_tokens if second else examples.tokens
    padding = examples.decoder_padding if second else examples.padding
    documents = None if second else examples.documents
    prefix = None if second or examples.prefix is None else examples.prefix[row : row + 1]
    assert tokens is not None, "there is a target"
    line = tokens[row]
    length = len(line)
    hidden = torch.zeros(length, dtype=torch.bool) if padding is None else padding[row]
    own = torch.zeros(length, dtype=torch.int64) if documents is None else documents[row]
    weights = None if examples.weights is None or targets is None else examples.weights[row].tolist()
    inside = 0 if prefix is None else int(prefix)
    wanted = [IGNORED] * length if targets is None else targets.tolist()
    places = tuple(
        InspectedToken(
            number, words.of(number), number in words.special, None if goal == IGNORED else words.of(goal),
            1.0 if weights is None else weights[place], int(own[place]), place < inside, bool(hidden[place]),
        )
        for place, (number, goal) in enumerate(zip(line.tolist(), wanted, strict=True))
    )  # fmt: skip
    return Sequence(role, places, _masks(run, role, line, hidden, None if documents is None else own, prefix))


def _masks(
    run: Run, role: str, line: Tensor, hidden: Tensor, documents: Tensor | None, prefix: Tensor | None
) -> dict[str, Tensor]:
    """Which keys each query sees, as a square of bools, per mask of the stack that reads the sequence."""
    stack = "encoder" if role == "source" or run.architecture.decoder is None else "decoder"
    own = None if documents is None else documents[None]
    positions = count_positions(line[None, :, None], hidden[None] if bool(hidden.any()) else None, own)[0]
    same = torch.ones(len(line), len(line), dtype=torch.bool)
    if documents is not None:
        same = documents[:, None] == documents[None, :]
    real = (positions != EMPTY)[:, None] & (positions != EMPTY)[None, :]
    limit = 0 if prefix is None else int(prefix)
    last = int((~hidden).nonzero().max()) + 1 if bool((~hidden).any()) else 0
    return {
        ", ".join(mine): (mask.allowed(positions[:, None], positions[None, :], limit) & same & real)[:last, :last]
        for mask, places in masks_of(run.architecture).items()
        if (mine := [place for place in places if place.startswith(f"{stack}.")])
    }
