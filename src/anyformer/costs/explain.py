"""Every formula of a price with its numbers filled in, so that it can be followed by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import prod
from typing import Literal

from anyformer.costs.figures import NOTHING, Figure, count
from anyformer.costs.rows import FigureRow, Section
from anyformer.costs.text import text
from anyformer.describe import UserError, did_you_mean
from anyformer.model import Architecture
from anyformer.operations import ExpertProduct, Node, Operation, Pairs, Product, Shape, Weight
from anyformer.plan import Plan

Of = Literal["parameters", "FLOPs"]
LEGEND = (
    "m x n times n x h is 2 m n h FLOPs, a multiplication and an addition per term. B: batch, T: queries, "
    "H: heads, E and U: features of a key's and a value's head, pairs: (query, key) pairs of one row, all "
    "of them (dense) or those that the mask allows (exact)."
)


@dataclass(frozen=True)
class FormulaLine:
    """One formula: `numbers` works out to `each`, in each of `layers` layers."""

    of: Of
    where: str
    layers: int
    formula: str
    numbers: str
    each: int
    exact: int
    """FLOPs with the pairs that the mask allows instead of all."""
    notes: int
    """FLOPs of all pairs, with n - 1 additions for a sum of n: m h (2 n - 1) (lecture notes, "LLM, attention", section 14)."""
    component: str
    """`decoder.attention`, whatever the layer."""
    allowed: str = ""
    """The exact pairs, where the mask allows fewer than all."""

    @property
    def total(self) -> int:
        return self.each * self.layers


@dataclass(frozen=True)
class Explanation:
    """The forward pass of `shape`, line by line."""

    shape: Shape
    lines: tuple[FormulaLine, ...]

    def total(self, of: Of) -> int:
        """Sum of all lines: the parameters, or the dense FLOPs of one forward pass."""
        return sum(line.total for line in self.lines if line.of == of)

    @property
    def exact(self) -> int:
        return sum(line.exact * line.layers for line in self.lines if line.of == "FLOPs")

    @property
    def notes(self) -> int:
        return sum(line.notes * line.layers for line in self.lines if line.of == "FLOPs")

    def only(self, word: str) -> Explanation:
        """The lines of the components that a word names, `attention` or `decoder.attention`; refuses an unknown word."""
        named = named_components(word, (line.component for line in self.lines))
        return Explanation(self.shape, tuple(line for line in self.lines if line.component in named))

    def json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    def __str__(self) -> str:
        return f"{text(self.sections)}\n\n{LEGEND}"

    @property
    def sections(self) -> tuple[Section, Section]:
        """All lines, the FLOPs first."""
        T, past = self.shape.length, self.shape.past
        head = f"FLOPs forward, batch {self.shape.batch:,}, length {T:,}" + (f" after {past:,}" if past else "")
        return self._flops(head), self._parameters()

    def _parameters(self) -> Section:
        rows = [
            FigureRow(f"{line.where} = {line.numbers}", (count(line.each), _layers_of(line), count(line.total)))
            for line in self.lines
            if line.of == "parameters"
        ]
        total = FigureRow("together", (NOTHING, NOTHING, count(self.total("parameters"))), strong=True)
        return Section("Parameters", ("each", "layers", "together"), (*rows, total))

    def _flops(self, head: str) -> Section:
        # Pairs of queries and keys come first: they grow with the square of the length.
        work = sorted((line for line in self.lines if line.of == "FLOPs"), key=lambda line: "pairs" not in line.formula)
        rows = []
        for line in work:
            rows.append(FigureRow(line.where, ()))
            figures = _layers_of(line), count(line.total), count(line.exact * line.layers)
            rows.append(FigureRow(f"  {line.formula} = {line.numbers}", figures))
            rows += [FigureRow(f"  {line.allowed}", ())] if line.allowed else []
        sums = tuple(map(count, (self.total("FLOPs"), self.exact)))
        return Section(head, ("layers", "dense", "exact"), (*rows, FigureRow("together", (NOTHING, *sums), strong=True)))


def named_components(word: str, components: Iterable[str]) -> set[str]:
    """The components whose name, or its last part, is a word; refuses a word that names none."""
    last = {name: name.rpartition(".")[2] for name in components}
    named = {name for name in last if word in (name, last[name])}
    if not named:
        known = dict.fromkeys(known for name in last for known in (last[name], name))
        raise UserError(f"no component is called {word!r}{did_you_mean(word, known)}")
    return named


def explain(
    architecture: Architecture,
    *,
    batch: int = 1,
    length: int = 1024,
    past: int = 0,
    source_length: int | None = None,
    prefix: int = 0,
    plan: Plan | None = None,
) -> Explanation:
    """The parameters, and the FLOPs of a forward pass over `length` positions after `past` cached ones, with their formulas."""
    source = (source_length or past or length) if architecture.two_inputs else 0
    return explained(architecture, Shape(batch=batch, length=length, past=past, source=source, prefix=prefix), plan)


def explained(architecture: Architecture, shape: Shape, plan: Plan | None = None, *, training: bool = False) -> Explanation:
    """The parameters, and the FLOPs of a call of `shape`, with their formulas; `training`: later tokens predicted too."""
    price = architecture.folded_trained_cost if training else architecture.folded_cost
    nodes = list(price(shape, plan).nodes())
    parameters = (
        _of_weight(node, name, weight) for node in nodes for name, weight in node.tally.own_weights.items() if node.weight_times
    )
    work = (
        _of_work(shape, node, name, work) for node in nodes for name, work in node.tally.own_work.items() if work.flops.dense
    )
    return Explanation(shape, (*parameters, *work))


def _of_weight(node: Node, name: str, weight: Weight) -> FormulaLine:
    entries = prod(weight.shape)
    formula = {1: "entries", 2: "rows x columns"}.get(len(weight.shape), "all sides")
    where, copies, of = _joined(node, name), node.weight_times, node.address.component
    return FormulaLine("parameters", where, copies, formula, _times(weight.shape), entries, entries, entries, of)


def _of_work(shape: Shape, node: Node, name: str, work: Operation) -> FormulaLine:
    flops, allowed = work.flops, ""
    match work:
        case Product() | ExpertProduct():
            formula, numbers, notes = _of_product(shape, work)
        case Pairs():
            formula, numbers, notes = _of_pairs(work)
            allowed = _allowed(work)
        case _:
            formula, numbers, notes = (
                "more than one product of two matrices, as its part declares",
                f"{flops.dense:,}",
                flops.dense,
            )
    where, of = _joined(node, name), node.address.component
    return FormulaLine("FLOPs", where, node.times, formula, numbers, flops.dense, flops.exact, notes, of, allowed)


def _allowed(work: Pairs) -> str:
    """The number of pairs that the mask allows, with their formula where the mask is only causal."""
    T, pairs, exact = work.queries, work.pairs, work.exact
    if exact == pairs:
        return ""
    past = pairs // T - T
    causal = exact == T * past + T * (T + 1) // 2
    how = (f"{T:,} x {past:,} + " if past else "") + f"{T:,} x {T + 1:,} / 2 = " if causal else ""
    return f"exact pairs: {how}{exact:,} of {pairs:,}"


def _of_product(shape: Shape, work: Product | ExpertProduct) -> tuple[str, str, int]:
    """Formula, numbers and the notes' count of x W^T, x (rows, inputs): m = rows, n = inputs, h = outputs."""
    rows, inputs, outputs = work.rows, work.inputs, work.outputs
    formula = f"2 x {'B T' if rows == shape.rows else 'rows'} x inputs x outputs"
    return formula, _times((2, rows, inputs, outputs)), rows * outputs * (2 * inputs - 1)


def _of_pairs(work: Pairs) -> tuple[str, str, int]:
    """Formula, numbers and the notes' count: scores sum over features (n = E), the mixing of values over keys."""
    B, heads, features, pairs = work.batch, work.heads, work.features, work.pairs
    scores = work.sums == "features"
    sums = pairs * (2 * features - 1) if scores else features * (2 * pairs - work.queries)
    return f"2 x B x H x {'E' if scores else 'U'} x pairs", _times((2, B, heads, features, pairs)), B * heads * sums


def _joined(node: Node, name: str) -> str:
    """`decoder.local.attention.query`."""
    return f"{node.address}.{name}" if name else str(node.address)


def _times(factors: tuple[int, ...]) -> str:
    return " x ".join(f"{factor:,}" for factor in factors)


def _layers_of(line: FormulaLine) -> Figure:
    return count(line.layers) if line.layers > 1 else NOTHING
