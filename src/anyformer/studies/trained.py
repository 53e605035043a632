"""Did an arm train at all? Its loss beside what a model reaches that reads nothing, such as the frequencies of tokens.

An arm that ends there learnt nothing from context: its mechanism was not tried, and a verdict on it would be none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from anyformer.objectives.mixing import baseline_of, held_out_feed, training_feed
from anyformer.objectives.objective import Setting
from anyformer.studies.statistics import ArmComparison
from anyformer.training.held_out import corpus_of
from anyformer.training.run import Run
from anyformer.training.trainer import windows_of

LEAST = 0.05
"""The share of what the best arm learnt from context, below which an arm did not train."""
METRIC = "loss"
"""The metric that has a value of reading nothing; on a generated task, accuracy at chance is an answer."""


@dataclass(frozen=True)
class Unread:
    """What reads nothing, in words, and the held-out loss that it reaches."""

    said: str
    loss: float


def unread(runs: Mapping[str, Run]) -> dict[str, Unread]:
    """Of every arm, what knows nothing of the input, with the base's seed; without arms whose objective has none of it.

    Arms of the same data, objective and sizes share it. Raises `UserError` or `OSError` where the data is not here.
    """
    found: dict[Any, Unread | None] = {}
    for run in runs.values():
        if _key(run) not in found:
            found[_key(run)] = _unread(run)
    known = {name: found[_key(run)] for name, run in runs.items()}
    return {name: each for name, each in known.items() if each is not None}


def _key(run: Run) -> tuple[Any, ...]:
    """What the loss of reading nothing depends on."""
    tokens = run.evaluation.final_tokens
    return run.seed, run.data, run.objective, run.length, run.batch, run.steps, tokens, run.architecture.outputs


def _unread(run: Run) -> Unread | None:
    corpus = corpus_of(run)
    setting = Setting(corpus.tokenizer, run.length, run.seed, corpus.names, run.architecture)
    feeds = (feed(run.objective, run.data, corpus, setting, run.batch) for feed in (training_feed, held_out_feed))
    assert run.steps is not None
    rows = windows_of(run, run.evaluation.final_tokens)
    training, held_out = feeds
    asked = run.objective.traits.unread or run.objective.baseline
    found = baseline_of(asked, training, run.steps, held_out, rows, run.architecture.outputs)
    return None if found is None else Unread(found[0], found[1])


def learnt(losses: Mapping[str, float], known: Mapping[str, Unread]) -> dict[str, float]:
    """Of every arm, what it learnt from context beside what the best arm learnt: (u - loss) / max (u - loss) over arms, u the
    loss of reading nothing. 1 for the best arm, 0 for one that knows frequencies alone; nothing where none is below it."""
    gains = {name: known[name].loss - loss for name, loss in losses.items() if name in known}
    most = max(gains.values(), default=0.0)
    return {name: gain / most if most > 0 else 0.0 for name, gain in gains.items()}


def fairly(found: ArmComparison, base: str, shares: Mapping[str, float], said: Mapping[str, str]) -> ArmComparison:
    """The comparison, whose verdict is "cannot tell" where the arm or the base did not train; `said`: why, by arm.

    One that is told by divergence alone stays: there is no loss of those that diverged.
    """
    lost = tuple(name for name in (found.name, base) if shares.get(name, 1.0) < LEAST)
    if not lost or any(found.diverged):
        return found
    why = "; ".join(said[name] for name in lost)
    return replace(found, verdict="cannot tell", needed=None, why=why, untrained=lost)


def reasons(losses: Mapping[str, float], known: Mapping[str, Unread]) -> dict[str, str]:
    """The sentence on every arm that did not train, with its number and that of reading nothing."""
    return {
        name: f"{name} did not train: its loss is {loss:.4f}, and {known[name].said} reach {known[name].loss:.4f}"
        for name, loss in losses.items()
        if name in known
    }
