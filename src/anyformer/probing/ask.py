"""A model asked about a task at several lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from anyformer.data import IGNORED
from anyformer.model.loss import likeliest
from anyformer.model.transformer import Transformer
from anyformer.objectives import added
from anyformer.objectives.answers import CHANCE, DISTANCE, AnswersObjective
from anyformer.objectives.task_feed import TaskFeed
from anyformer.parts.call.reports import Auxiliary
from anyformer.probing.levels import Accuracy, Level, Probed, buckets, by_sequence
from anyformer.probing.question import ProbeQuestion, objective_of

Progress = Callable[[int], None]


def probe(
    model: Transformer,
    asked: ProbeQuestion,
    lengths: Sequence[int] | None = None,
    sequences: int = 256,
    progress: Progress = lambda done: None,
) -> Probed:
    """What the model reaches on `sequences` held-out sequences of each length; `progress` is told how many lengths are done."""
    objective, levels, refused = objective_of(model.architecture), list[Level](), dict[int, str]()
    for done, length in enumerate(asked.lengths(model.architecture) if lengths is None else lengths, start=1):
        try:
            feed = asked.feed(model.architecture, length, sequences)
        except ValueError as error:
            refused[length] = str(error)
        else:
            levels.append(level_of(model, objective, feed, length))
        progress(done)
    return Probed(asked.data.task, asked.trained, tuple(levels), refused)


def level_of(model: Transformer, objective: AnswersObjective, feed: TaskFeed, length: int) -> Level:
    """What the model reaches on all sequences of a feed."""
    totals, found, seen = [], [], 0
    with torch.no_grad():
        for batch in feed.once():
            examples = batch.to(model.device)
            assert examples.facts is not None, "made of a task"
            logits = objective.logits(model, examples, None, Auxiliary(objective.counted(examples)))
            totals.append(objective.token_statistics(logits, examples))
            valid = examples.targets != IGNORED
            right = likeliest(logits) == examples.targets
            places = torch.nonzero(valid)
            rows = places[:, 0] + seen
            seen += len(valid)
            facts = (rows, places[:, 1], right[valid], *(examples.facts[valid][:, at] for at in (CHANCE, DISTANCE)))
            found.append([each.cpu().numpy() for each in facts])
    sums = {name: float(value) for name, value in added(totals).items()}
    rows_of, places_of, right_ones, chances, distances = (np.concatenate(each) for each in zip(*found, strict=True))
    distances, far = distances.astype(np.int64), distances > 0
    return Level(
        length, feed.whole,
        Accuracy(round(sums["targets"]), round(sums["correct"]), sums["chance"], by_sequence(right_ones, rows_of)),
        Accuracy(round(sums["answers"]), round(sums["right_answers"]), sums["answer_chance"]),
        buckets(places_of, right_ones, chances, rows_of),
        buckets(distances[far], right_ones[far], chances[far], rows_of[far]) if far.any() else (),
    )  # fmt: skip
