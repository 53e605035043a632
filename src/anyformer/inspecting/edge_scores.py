"""Scores of edges: what the cut of each alone does to a metric, by calls or estimated by gradients; circuits of the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyformer.describe import InputError, did_you_mean
from anyformer.inspecting.call_inputs import CallInputs
from anyformer.inspecting.circuit import Circuit, CutAnswers
from anyformer.inspecting.edges import CutCall, EdgeRun, added_by
from anyformer.inspecting.graph import INPUT, OUTPUT, Edge
from anyformer.inspecting.metrics import Metric
from anyformer.inspecting.tables import table_of
from anyformer.model.transformer import Transformer

if TYPE_CHECKING:
    from rich.table import Table

STEPS = 5
"""Points between the corrupted and the clean prompt whose gradients are averaged."""


@dataclass(frozen=True, eq=False)
class EdgeScores:
    """The score of every edge, the change of a metric that its cut makes, by `way`; `answers`: of what they are."""

    scores: Mapping[Edge, float]
    way: str
    answers: CutAnswers

    def circuit(self, *, size: int | None = None, threshold: float | None = None) -> Circuit:
        """The circuit of the `size` edges with the largest scores, or of those with `threshold` at least, of either sign.

        From the output back, the largest score among the edges into what is there already comes next, so that all that is
        chosen is heard (Hanna et al. 2024, arXiv 2403.17806, section 3). Raises `InputError` unless one of both is given.
        """
        if (size is None) == (threshold is None):
            raise InputError(
                "a circuit is chosen by size=, a number of edges, or by threshold=, the least score: give one of both"
            )
        if size is not None and not 0 <= size <= len(self.scores):
            raise InputError(f"a circuit of {size} edges: there are {len(self.scores)}, so give 0 to {len(self.scores)}")
        kept, inside = dict[Edge, float](), {OUTPUT}
        while size is None or len(kept) < size:
            open_ = [edge for edge in self.scores if edge.receiver in inside and edge not in kept]
            best = max(open_, key=lambda edge: abs(self.scores[edge]), default=None)
            if best is None or (threshold is not None and abs(self.scores[best]) < threshold):
                break
            kept[best] = self.scores[best]
            inside.add(best.sender)
        least = min(map(abs, kept.values()), default=0.0) if threshold is None else threshold
        return self.answers.circuit(kept, least, self.way)

    def table(self, *, most: int = 20) -> Table:
        """The edges with the largest scores, of either sign."""
        order = sorted(self.scores.items(), key=lambda each: -abs(each[1]))[:most]
        rows = [(edge.sender, edge.to, f"{score:+.4f}") for edge, score in order]
        return table_of(
            f"scores of {len(self.scores)} edges ({self.way})", ("from", "to", "change of the metric"), rows, words=2
        )


def score_edges(
    model: Transformer,
    clean: Tensor | CallInputs,
    corrupted: Tensor | CallInputs,
    metric: Metric,
    *,
    way: str = "integrated",
    by_head: bool = True,
    by_input: bool = True,
    positions: tuple[int, ...] = (-1,),
) -> EdgeScores:
    """The change of a metric m, its mean over rows, by the cut of every edge alone: v reads a'_u of its sender u for a_u.

        cut:         m(cut) - m, a call for every edge
        gradient:    (a'_u - a_u) . dm/dv at the clean prompt (EAP, Syed et al. 2023, arXiv 2310.10348)
        integrated:  the same with the mean of dm/dv at 5 points between the prompts (EAP-IG, Hanna et al. 2024, arXiv
                     2403.17806): what enters the layers is e' + k/5 (e - e'), k = 1 to 5

    The last two are estimates, of all edges in one call and a backward pass, or five, whose rows are copied for every input
    of an attention's heads; exact where the model is linear. Nodes, `by_head` and `by_input` are those of `find_circuit`;
    `positions`: where `circuit` says the divergence. Raises `InputError` for a metric without a gradient.
    """
    if way not in WAYS:
        raise InputError(f"there is no way {way!r} of scoring edges{did_you_mean(way, sorted(WAYS))}")
    good, bad = CallInputs.of(clean), CallInputs.of(corrupted)
    good.exchanges_with(bad)
    runs = EdgeRun.of(model, good, bad, by_head=by_head, by_input=by_input)
    return EdgeScores(WAYS[way](runs, metric), way, CutAnswers.of(runs, positions))


def by_cutting(runs: EdgeRun, metric: Metric) -> Mapping[Edge, float]:
    """The truth: a call for every edge."""
    with torch.no_grad():
        before = metric(runs.logits(())).mean()
        return {edge: float(metric(runs.logits((edge,))).mean() - before) for edge in runs.edges}


def by_gradient(runs: EdgeRun, metric: Metric, steps: int = 1) -> Mapping[Edge, float]:
    """The estimate by the mean gradient of `steps` points; of one, the clean prompt."""
    with torch.no_grad():
        given = added_by(runs.model, runs.prompt, runs.nodes)
    clean, other = given[INPUT], runs.given[INPUT]
    summed: dict[tuple[str, str], Tensor] = {}
    for step in range(1, steps + 1):
        slopes = SlopeCall(runs, other + step / steps * (clean - other)).slopes(metric)
        summed = {receiver: slopes[receiver] + summed.get(receiver, 0) for receiver in slopes}
    changes = {name: runs.given[name] - value for name, value in given.items()}
    return {
        edge: float((changes[edge.sender] * summed[edge.receiver, edge.into]).sum()) / steps / len(clean) for edge in runs.edges
    }


def by_integrated_gradients(runs: EdgeRun, metric: Metric) -> Mapping[Edge, float]:
    """The estimate by the mean gradient of `STEPS` points."""
    return by_gradient(runs, metric, STEPS)


WAYS: Mapping[str, Callable[[EdgeRun, Metric], Mapping[Edge, float]]] = MappingProxyType(
    {"cut": by_cutting, "gradient": by_gradient, "integrated": by_integrated_gradients}
)
"""How edges are scored."""


class SlopeCall(CutCall):
    """A call in which every input of a receiver has something of its own added to its stream, 0, of which gradients are taken.

    `entering`: what enters the layers, (B, T, D).
    """

    def __init__(self, run: EdgeRun, entering: Tensor) -> None:
        super().__init__(run, {(edge.receiver, edge.into): [] for edge in run.edges})
        self.entering = entering
        self.added = {receiver: torch.zeros_like(entering).requires_grad_() for receiver in self.heard_from}

    def slopes(self, metric: Metric) -> Mapping[tuple[str, str], Tensor]:
        """The gradient of the metric, summed over rows, by what every input of a receiver reads: (B, T, D) of each."""
        with torch.enable_grad():
            total = metric(self.logits()).sum()
            if not total.requires_grad:
                raise InputError("no gradient passes this metric: give one that is computed of logits by torch, or way='cut'")
            found = torch.autograd.grad(total, list(self.added.values()), allow_unused=True)
        pairs = zip(self.added.items(), found, strict=True)
        return {receiver: torch.zeros_like(own) if slope is None else slope for (receiver, own), slope in pairs}

    def _sent(self, name: str, value: Tensor) -> Tensor:
        return super()._sent(name, torch.cat([self.entering] * self.copies) if name == INPUT else value)

    def _left(self, receiver: tuple[str, str], stream: Tensor) -> Tensor:
        """The stream with what is added for this receiver alone."""
        return stream + torch.cat([self.added[receiver]] * (len(stream) // self.B))
