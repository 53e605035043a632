"""Feeds of mixtures, and of any data: an objective meets only the parts of a mixture, each as data of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import floor

import numpy as np
import torch

from anyformer.data import Corpus, Data, Mixture, Record, Shares, quotas
from anyformer.data.batches import part_of
from anyformer.data.packing import Ints
from anyformer.objectives.aspects import Baseline
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.objective import Objective, Setting
from anyformer.text import DataError


@dataclass(frozen=True)
class MixturePart:
    """A part of a mixture: its feed, and the share of the rows that are of it."""

    feed: Feed
    share: float


@dataclass(frozen=True)
class MixtureFeed:
    """Rows of several feeds: global row i is the sample that `shares` says.

    Once, for evaluation, each part gives rows of its own split by its share of them.
    """

    parts: Mapping[str, MixturePart]
    shares: Shares
    batch: int

    @property
    def whole(self) -> int:
        return sum(part.feed.whole for part in self.parts.values())

    @property
    def unit(self) -> str:
        return next(iter(self.parts.values())).feed.unit

    @property
    def each(self) -> int:
        return max(1, round(sum(part.share * part.feed.each for part in self.parts.values())))

    @property
    def left_out(self) -> int:
        return sum(part.feed.left_out for part in self.parts.values())

    @property
    def bytes_each(self) -> float | None:
        sizes = [(part.share, part.feed.bytes_each) for part in self.parts.values()]
        known = [share * size for share, size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    @property
    def epoch(self) -> int:
        return sum(part.feed.epoch for part in self.parts.values())

    def at(self, step: int, rank: int = 0, world: int = 1) -> Examples:
        start, stop = part_of(self.batch, rank, world)
        rows = np.arange(start, stop, dtype=np.int64) + step * self.batch
        return self.drawn(rows, rows)

    def drawn(self, numbers: Ints, rows: Ints) -> Examples:
        which, places = self.shares(numbers)
        found = [
            part.feed.drawn(places[which == number], rows[which == number])
            for number, part in enumerate(self.parts.values())
            if (which == number).any()
        ]
        # Rows stand part after part, in their order within each: a stable sort says where each came from.
        order = np.argsort(np.argsort(which, kind="stable"))
        return Examples.joined(found, torch.from_numpy(order))

    def records(self, numbers: Ints) -> Sequence[tuple[Record, ...]]:
        which, places = self.shares(numbers)
        feeds = [part.feed for part in self.parts.values()]
        return [feeds[int(number)].records(place[None])[0] for number, place in zip(which, places, strict=True)]

    def once(self, most: int | None = None) -> Iterator[Examples]:
        return chain.from_iterable(feed.once(rows) for feed, rows in self.held_out_rows(most).values())

    def rows_of(self, most: int | None = None) -> int:
        return sum(feed.rows_of(rows) for feed, rows in self.held_out_rows(most).values())

    def held_out_rows(self, most: int | None) -> dict[str, tuple[Feed, int | None]]:
        """The feed of each part, and how many rows of it are among `most` of all: one at least."""
        shares = [part.share for part in self.parts.values()]
        rows = [None] * len(shares) if most is None else [max(1, rows) for rows in quotas(shares, most)]
        return {name: (part.feed, count) for (name, part), count in zip(self.parts.items(), rows, strict=True)}


def training_feed(objective: Objective, data: Data, corpus: Corpus, setting: Setting, batch: int) -> Feed:
    """The training examples of any data."""
    feeds = _each(objective.feed, data, corpus, setting, batch)
    match data:
        case Mixture():
            bounds = [
                None if part.repeats is None else floor(part.repeats * feed.epoch)
                for part, feed in zip(data.parts, feeds.values(), strict=True)
            ]
            return _mixture(data, feeds, bounds, setting, batch)
    (feed,) = feeds.values()
    return feed


def held_out_feed(objective: Objective, data: Data, corpus: Corpus, setting: Setting, batch: int) -> Feed:
    """The held-out examples of any data."""
    feeds = _each(partial(objective.feed, held_out=True), data, corpus, setting, batch)
    match data:
        case Mixture():
            return _mixture(data, feeds, [None] * len(feeds), setting, batch)
    (feed,) = feeds.values()
    return feed


def parts_of(feed: Feed, most: int | None) -> dict[str, tuple[Feed, int | None, float]]:
    """The feeds that a feed is evaluated by, by name: how many rows of each are among `most`, and the share of each.

    A feed that is no mixture is one part, under an empty name.
    """
    match feed:
        case MixtureFeed():
            return {name: (one, rows, feed.parts[name].share) for name, (one, rows) in feed.held_out_rows(most).items()}
    return {"": (feed, most, 1.0)}


def baseline_of(
    asked: Baseline, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int
) -> tuple[str, float] | None:
    """`Objective.baseline` or `LossTraits.unread`; of a mixture one per part, weighted by the targets that the parts give."""
    if not (isinstance(training, MixtureFeed) and isinstance(held_out, MixtureFeed)):
        return asked(training, steps, held_out, windows, outputs)
    given = training.shares.given(steps * training.batch)
    found, weights, words = [], [], ""
    for (name, (feed, rows, share)), count in zip(parts_of(held_out, windows).items(), given.tolist(), strict=True):
        seen = max(1, -(-count // training.batch))
        one = asked(training.parts[name].feed, seen, feed, rows or 1, outputs)
        if one is None:
            return None
        words, loss = one
        found.append(loss)
        weights.append(share * sum(examples.count for examples in feed.once(rows)) / max(1, feed.rows_of(rows)))
    return f"{words}, one per part of the mixture", float(np.average(found, weights=weights))


def prompt_of(objective: Objective, corpus: Corpus, number: int) -> str:
    """`LossTraits.prompt`; of a mixture's parts in turn."""
    parts = list(corpus.components.values())
    return objective.traits.prompt(parts[number % len(parts)], number // len(parts))


def epochs(feed: Feed, rows: int) -> list[str]:
    """A line per part of a mixture: its rows among the first `rows`, and how many epochs these are. None of others."""
    match feed:
        case MixtureFeed():
            given = feed.shares.given(rows).tolist()
            return [
                f"{name}: {part.share:.3g} of the rows; {count:,} of the run's {rows:,}, {count / part.feed.epoch:.3g} epochs"
                for (name, part), count in zip(feed.parts.items(), given, strict=True)
            ]
    return []


def _each(
    make: Callable[[Data, Corpus, Setting, int], Feed], data: Data, corpus: Corpus, setting: Setting, batch: int
) -> dict[str, Feed]:
    feeds = {}
    for name, part in data.components.items():
        try:
            feeds[name] = make(part, corpus.components[name], setting, batch)
        except DataError as error:
            if not name:
                raise
            raise DataError(f"{name}: {error}") from error
    return feeds


def _mixture(
    data: Mixture, feeds: Mapping[str, Feed], bounds: Sequence[int | None], setting: Setting, batch: int
) -> MixtureFeed:
    weights = [part.weight for part in data.parts]
    parts = {
        name: MixturePart(feed, weight / sum(weights)) for (name, feed), weight in zip(feeds.items(), weights, strict=True)
    }
    return MixtureFeed(parts, Shares.of(weights, bounds, setting.seed), batch)
