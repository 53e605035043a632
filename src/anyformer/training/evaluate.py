"""Held-out loss and metrics: mean loss over the targets, and of running text perplexity and bits per byte."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from anyformer.model.transformer import Transformer
from anyformer.objectives import Examples, Feed, Objective, Partners, added
from anyformer.objectives.mixing import parts_of
from anyformer.objectives.own_samples import OwnSamples
from anyformer.parts.call.reports import Auxiliary, Load, add_loads
from anyformer.plan import Plan
from anyformer.text import Tokenizer
from anyformer.training.computing_place import Within, directly
from anyformer.training.parallel.ranks import ALONE, Ranks
from anyformer.training.precision import autocast


@dataclass(frozen=True)
class Evaluated:
    """`loss`: mean over `count` targets; `seen` of the split's `whole` tokens or records (`unit`) were read.

    `bits_per_byte` of the text, None where the loss is not that of a text; `metrics`: the objective's own, such as accuracy;
    `loads`: load of the experts, by layer.
    """

    loss: float
    count: int
    seen: int
    whole: int
    unit: str = "tokens"
    bits_per_byte: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    loads: Mapping[str, Load] = field(default_factory=dict)

    of_tokens: bool = True
    """Whether the loss is -log p of tokens."""

    @property
    def facts(self) -> dict[str, Any]:
        """Plain data, for the metrics of a run."""
        metrics = {"metrics": dict(self.metrics)} if self.metrics else {}
        return {
            "loss": self.loss, "perplexity": self.perplexity, "bits_per_byte": self.bits_per_byte, "targets": self.count,
            "seen": self.seen, "whole": self.whole, "unit": self.unit, **metrics,
        }  # fmt: skip

    @property
    def of_experts(self) -> dict[str, Any]:
        """The load of the experts by layer, for the metrics of a run; nothing where there are none."""
        loads = {path: {"shares": load.shares, "dropped": load.dropped_share} for path, load in self.loads.items()}
        return {"experts": loads} if loads else {}

    @property
    def perplexity(self) -> float | None:
        """exp(loss), None where the loss is not that of tokens."""
        return math.exp(min(self.loss, 700)) if self.of_tokens else None


def evaluate(
    model: Transformer,
    objective: Objective,
    feed: Feed,
    plan: Plan,
    *,
    most: int | None = None,
    partners: Partners | None = None,
    names: Mapping[str, tuple[str, ...]] | None = None,
    progress: Callable[[int], None] = lambda done: None,
    ranks: Ranks = ALONE,
    within: Within = directly,
    tokenizer: Tokenizer | None = None,
    samples: OwnSamples | None = None,
) -> Evaluated:
    """The loss and metrics over a split, or over `most` rows spread evenly over it, without the objective's penalties.

    Of a mixture, what n_c rows of part c give counts w_c n / n_c times, w_c being its share and n = sum n_c: so the parts count
    by their shares, however many of their rows there are; the loss of each is told among the metrics. `names`: the classes of
    the data. `progress` is called after every batch, with the tokens or records read so far. `tokenizer`: of the text that the
    objective may ask the model for; None: it asks for none. `samples`: makes examples of the model's answers, where the feed
    gives prompts alone.
    """
    modes = {one: one.training for one in (model, *(partners or {}).values())}
    for one in modes:
        one.eval()
    sums: dict[str, _Sums] = {}
    shares: dict[str, float] = {}
    rows: dict[str, int] = {}
    seen = 0
    try:
        with torch.no_grad(), autocast(plan, model.device):
            for name, (part, some, share) in parts_of(feed, most).items():
                done = told(part, seen, ranks.replicas, progress)
                asked = partial(_asked, objective, model, tokenizer)
                given = _own(model, samples, batches(part, some, ranks), within)
                own = _summed(model, objective, given, partners or {}, within, done, asked)
                sums[name] = joined(ranks.of_replicas(own), objective)
                rows[name], shares[name] = part.rows_of(some), share
                seen += min(rows[name] * part.each, part.whole)
    finally:
        for one, training in modes.items():
            one.train(training)
    factors = {name: shares[name] * (sum(rows.values()) / max(1, rows[name])) for name in sums}
    weighed = (
        {key: value if key in objective.traits.each_row else value * factors[name] for key, value in each.totals.items()}
        for name, each in sums.items()
    )
    totals = added(weighed, objective.traits.each_row)
    count = sum(each.count * factors[name] for name, each in sums.items())
    loss = float(totals["loss"]) / count if count else math.nan
    bits = loss / math.log(2) / feed.bytes_each if objective.traits.likelihood and feed.bytes_each else None
    losses = {f"loss of {name}": each.loss for name, each in sums.items() if name}
    loads: dict[str, Load] = {}
    for each in sums.values():
        loads = add_loads(loads, each.loads)
    return Evaluated(
        loss, round(sum(each.count for each in sums.values())), seen, feed.whole, feed.unit,
        bits, {**objective.metrics(totals, names or {}), **losses}, loads, objective.traits.of_tokens,
    )  # fmt: skip


@dataclass(frozen=True)
class _Sums:
    """Sums over rows of one split."""

    totals: Mapping[str, Tensor]
    count: float
    loads: dict[str, Load]

    @property
    def loss(self) -> float:
        return float(self.totals["loss"]) / self.count if self.count else math.nan


def batches(feed: Feed, most: int | None, ranks: Ranks) -> Iterator[tuple[Examples, bool]]:
    """Every batch of this replica, and whether it is its own; each has as many, since models may be divided among them: where
    the batches run out, some compute the last one again, which does not count."""
    group: list[Examples] = []
    for examples in feed.once(most):
        group.append(examples)
        if len(group) == ranks.replicas:
            yield group[ranks.replica], True
            group = []
    if group:
        yield group[min(ranks.replica, len(group) - 1)], ranks.replica < len(group)


def told(feed: Feed, before: int, ranks: int, progress: Callable[[int], None]) -> Callable[[int], None]:
    """Tells `progress` how many tokens or records so many rows of each process are, beside those `before`."""
    return lambda rows: progress(before + min(rows * ranks * feed.each, feed.whole))


def _summed(
    model: Transformer,
    objective: Objective,
    parts: Iterable[tuple[Examples, bool]],
    partners: Partners,
    within: Within,
    done: Callable[[int], None],
    asked: Callable[[Examples], dict[str, Tensor]],
) -> _Sums:
    totals: dict[str, Tensor] = {}
    loads: dict[str, Load] = {}
    count, rows = 0.0, 0
    for part, counts in parts:
        examples = part.to(model.device)
        auxiliary = Auxiliary(objective.counted(examples))
        found = within(partial(objective.statistics, model, examples, auxiliary, partners)) | asked(examples)
        if counts:
            totals = added((totals, found), objective.traits.each_row)
            loads = add_loads(loads, auxiliary.loads)
            count, rows = count + examples.count, rows + len(examples.rows)
            done(rows)
    return _Sums(totals, count, loads)


def _own(
    model: Transformer, samples: OwnSamples | None, given: Iterable[tuple[Examples, bool]], within: Within
) -> Iterator[tuple[Examples, bool]]:
    """The batches, of the model's own answers where it makes these."""
    for part, counts in given:
        yield part if samples is None else within(partial(samples.asked, model, part.to(model.device))), counts


def _asked(objective: Objective, model: Transformer, tokenizer: Tokenizer | None, examples: Examples) -> dict[str, Tensor]:
    """What the objective asks the model for besides its outputs."""
    return {} if tokenizer is None else objective.traits.answers(model, examples, tokenizer)


def joined(found: Sequence[_Sums], objective: Objective) -> _Sums:
    """The sums of all processes."""
    loads: dict[str, Load] = {}
    for each in found:
        loads = add_loads(loads, each.loads)
    totals = added((each.totals for each in found), objective.traits.each_row)
    return _Sums(totals, sum(each.count for each in found), loads)
