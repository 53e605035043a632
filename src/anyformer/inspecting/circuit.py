"""Circuits: the edges between sublayers that a prompt's answer needs, found by cutting the others one after another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.inspecting.call_inputs import CallInputs
from anyformer.inspecting.edges import EdgeRun
from anyformer.inspecting.graph import INPUT, OUTPUT, Edge
from anyformer.inspecting.metrics import Metric, divergence
from anyformer.inspecting.tables import table_of
from anyformer.model.transformer import Transformer

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Circuit:
    """The edges that stay of all `considered`, each with what its cut would cost: nats of KL(model || circuit) at the positions
    asked about, or with `scored` its score by that way (`score_edges`). `divergence`: that of the circuit, with all other edges
    cut; `empty`: with every edge cut. `threshold`: what an edge that stays has at least. `by_head`, `by_input`: what it was
    found with."""

    edges: tuple[tuple[Edge, float], ...]
    considered: int
    threshold: float
    divergence: float
    empty: float
    by_head: bool = True
    by_input: bool = True
    scored: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """What the edges run between, in the order of computation."""
        found = {name for edge, _ in self.edges for name in (edge.sender, edge.receiver)}
        order = dict.fromkeys(
            [INPUT, *(edge.receiver for edge, _ in sorted(self.edges, key=lambda each: each[0].place)), OUTPUT]
        )
        return tuple(name for name in order if name in found)

    def has(self, sender: str, receiver: str, into: str | None = None) -> bool:
        """Whether an edge stays; `into`: to this input of the receiver, None: to any."""
        here = [edge for edge, _ in self.edges if (edge.sender, edge.receiver) == (sender, receiver)]
        return any(into in (None, edge.into) for edge in here)

    def faithfulness(
        self, model: Transformer, clean: Tensor | CallInputs, corrupted: Tensor | CallInputs, metric: Metric
    ) -> float:
        """The share that the circuit alone keeps of what a metric loses from the clean to the corrupted prompt: 1 is all of it.

            (m(circuit) - m(corrupted)) / (m(clean) - m(corrupted)), of means over rows

        The prompts may be others than those that it was found on. Wang et al. 2022 (arXiv 2211.00593), section 4; the
        denominator: Hanna et al. 2024 (arXiv 2403.17806). Raises `InputError` where the metric loses nothing.
        """
        good, bad = CallInputs.of(clean), CallInputs.of(corrupted)
        good.exchanges_with(bad)
        kept = {edge for edge, _ in self.edges}
        with torch.no_grad():
            runs = EdgeRun.of(model, good, bad, by_head=self.by_head, by_input=self.by_input)
            others = frozenset(runs.edges) - kept
            whole, alone, none = (
                float(metric(logits).mean()) for logits in (good.logits(model), runs.logits(others), bad.logits(model))
            )
        if whole == none:
            raise InputError(
                f"the metric is {whole:g} for the clean and the corrupted prompt, so a circuit has nothing to keep: corrupt "
                "what the answer depends on"
            )
        return (alone - none) / (whole - none) + 0.0  # -0.0 is 0

    def table(self) -> Table:
        """The edges, the most needed first."""
        rows = [(edge.sender, edge.to, f"{cost:.4f}") for edge, cost in sorted(self.edges, key=lambda each: -abs(each[1]))]
        title = (
            f"{len(self.edges)} of {self.considered} edges: KL {self.divergence:.4f} nats, of {self.empty:.4f} with none; "
            f"threshold {self.threshold:g}"
        )
        what = f"score ({self.scored})" if self.scored else "cost of the cut (nats)"
        return table_of(title, ("from", "to", what), rows, words=2)


@dataclass(frozen=True, eq=False)
class CutAnswers:
    """Calls of `runs` beside the model's own answer at some positions, `whole_BTV`."""

    runs: EdgeRun
    positions: tuple[int, ...]
    whole_BTV: Tensor

    @classmethod
    def of(cls, runs: EdgeRun, positions: Sequence[int]) -> CutAnswers:
        """Those of a prompt."""
        with torch.no_grad():
            return cls(runs, tuple(positions), runs.prompt.logits(runs.model)[:, list(positions)])

    def divergence(self, cut: Collection[Edge]) -> float:
        """KL(model || model with these edges cut) in nats, the mean over rows and positions."""
        with torch.no_grad():
            return float(divergence(self.whole_BTV, self.runs.logits(cut)[:, list(self.positions)]).mean())

    def circuit(self, kept: Mapping[Edge, float], threshold: float, scored: str = "") -> Circuit:
        """The circuit of these edges and no others, in the order of computation."""
        edges = self.runs.edges
        return Circuit(
            tuple((edge, kept[edge]) for edge in edges if edge in kept), len(edges), threshold,
            self.divergence(frozenset(edges) - kept.keys()), self.divergence(frozenset(edges)),
            self.runs.by_head, self.runs.by_input, scored,
        )  # fmt: skip


def find_circuit(
    model: Transformer,
    clean: Tensor | CallInputs,
    corrupted: Tensor | CallInputs,
    *,
    threshold: float = 0.01,
    by_head: bool = True,
    by_input: bool = True,
    positions: Sequence[int] = (-1,),
) -> Circuit:
    """The edges that the answer to the clean prompt needs, by the search of Conmy et al. 2023 (ACDC, arXiv 2304.14997).

    From the output back to the input, every edge is cut if that moves the distribution at `positions` by less than `threshold`
    nats: what its sender gives is then that of the corrupted prompt, for this receiver alone. Nodes are what enters the layers,
    every sublayer, `by_head` every attention head, and what the head reads; one forward pass per edge. `by_input`: edges lead
    to the query, the key and the value of a head apart, as in path patching (Wang et al. 2022, arXiv 2211.00593); a head that
    is made of more, such as a gate, and every other mixer has one input. Refused is a model whose stream is not the sum of
    what its sublayers add.
    """
    good, bad = CallInputs.of(clean), CallInputs.of(corrupted)
    good.exchanges_with(bad)
    answers = CutAnswers.of(EdgeRun.of(model, good, bad, by_head=by_head, by_input=by_input), positions)
    cut: frozenset[Edge] = frozenset()
    reached, costs = answers.divergence(cut), dict[Edge, float]()
    for edge in reversed(answers.runs.edges):
        if edge.receiver != OUTPUT and not any(kept.sender == edge.receiver for kept in costs):
            cut |= {edge}  # nobody that is asked hears the receiver
            continue
        without = answers.divergence(cut | {edge})
        if without - reached < threshold:
            cut, reached = cut | {edge}, without
        else:
            costs[edge] = without - reached
    return answers.circuit(costs, threshold)
