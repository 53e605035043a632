"""Every formula of a price with its numbers filled in, so that it can be followed by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Literal

from anyformer.costs.counts import component
from anyformer.costs.figures import NOTHING, Figure, count
from anyformer.costs.rows import Line as Text
from anyformer.costs.rows import Row, Section
from anyformer.costs.text import lines
from anyformer.describe import UserError, did_you_mean
from anyformer.model import Architecture
from anyformer.plan import Plan
from anyformer.tally import Flops, Shape, Tally, Weight

Of = Literal["parameters", "FLOPs"]
LEGEND = (
    "m x n times n x h is 2 m n h FLOPs, a multiplication and an addition per term. B: batch, T: queries, "
    "H: heads, E and U: features of a key's and a value's head, pairs: (query, key) pairs of one row, all "
    "of them (dense) or those that the mask allows (exact)."
)


@dataclass(frozen=True)
class Line:
    """One formula: `numbers` works out to `each`, for each of so many `layers`."""

    of: Of
    where: str
    layers: int
    formula: str
    numbers: str
    each: int
    exact: int
    """Of FLOPs, with the pairs that the mask allows instead of all."""
    notes: int
    """Of FLOPs, all pairs, with n - 1 additions for a sum of n: m h (2 n - 1) (lecture notes, "LLM, attention", section 14)."""
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
    lines: tuple[Line, ...]

    def total(self, of: Of) -> int:
        """What all lines add up to: the parameters, or the dense FLOPs of one forward pass."""
        return sum(line.total for line in self.lines if line.of == of)

    @property
    def exact(self) -> int:
        return sum(line.exact * line.layers for line in self.lines if line.of == "FLOPs")

    @property
    def notes(self) -> int:
        return sum(line.notes * line.layers for line in self.lines if line.of == "FLOPs")

    def only(self, asked: str) -> Explanation:
        """The lines of one component, `attention` or `decoder.attention`; an unknown one is refused with those there are."""
        chosen = chosen_component(asked, (line.component for line in self.lines))
        return Explanation(self.shape, tuple(line for line in self.lines if line.component in chosen))

    def json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    def __str__(self) -> str:
        return "\n".join(line.text for line in self.written())

    def written(self, width: int | None = None) -> Iterator[Text]:
        """All lines, the FLOPs first, then the legend."""
        T, past = self.shape.length, self.shape.past
        head = f"FLOPs forward, batch {self.shape.batch:,}, length {T:,}" + (f" after {past:,}" if past else "")
        yield from lines((self._flops(head), self._parameters()), width)
        yield Text("")
        yield Text(LEGEND)

    def _parameters(self) -> Section:
        found = [line for line in self.lines if line.of == "parameters"]
        rows = [
            Row(f"{line.where} = {line.numbers}", (count(line.each), _layers_of(line), count(line.total))) for line in found
        ]
        total = Row("together", (NOTHING, NOTHING, count(self.total("parameters"))), strong=True)
        return Section("Parameters", ("each", "layers", "together"), (*rows, total))

    def _flops(self, head: str) -> Section:
        # What meets in pairs comes first: it is what grows with the square of the length.
        found = sorted((line for line in self.lines if line.of == "FLOPs"), key=lambda line: "pairs" not in line.formula)
        rows = []
        for line in found:
            rows.append(Row(line.where, ()))
            figures = _layers_of(line), count(line.total), count(line.exact * line.layers)
            rows.append(Row(f"  {line.formula} = {line.numbers}", figures))
            rows += [Row(f"  {line.allowed}", ())] if line.allowed else []
        sums = tuple(map(count, (self.total("FLOPs"), self.exact)))
        return Section(head, ("layers", "dense", "exact"), (*rows, Row("together", (NOTHING, *sums), strong=True)))


def chosen_component(asked: str, known: Iterable[str]) -> set[str]:
    """The components that a word names, whole or by its last part; refuses one that names none."""
    there = dict.fromkeys(known)
    chosen = {name for name in there if asked in (name, name.rpartition(".")[2])}
    if not chosen:
        words = dict.fromkeys(word for name in there for word in (name.rpartition(".")[2], name))
        raise UserError(f"no component is called {asked!r}{did_you_mean(asked, words)}")
    return chosen


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


def explained(architecture: Architecture, shape: Shape, plan: Plan | None = None) -> Explanation:
    """The same of any call."""
    tally = architecture.folded_cost(shape, plan)
    parameters = (_of_weight(name, weight) for name, weight in tally.weights.items())
    work = (_of_work(architecture, shape, tally, name, flops) for name, flops in tally.flops.items() if flops.dense)
    return Explanation(shape, (*parameters, *work))


def _of_weight(name: str, weight: Weight) -> Line:
    entries = prod(weight.shape)
    formula = {1: "entries", 2: "rows x columns"}.get(len(weight.shape), "all sides")
    return Line(
        "parameters", _shown(name), weight.copies, formula, _times(weight.shape), entries, entries, entries, component(name)
    )


def _of_work(architecture: Architecture, shape: Shape, tally: Tally, name: str, flops: Flops) -> Line:
    layers = _layers(architecture, name)
    one = Flops(flops.dense // layers, flops.exact // layers)
    where, operation = _shown(name), name.rsplit(".", 1)[-1]
    queries = (architecture.shape_of(name.split(".")[0], shape) or shape).length
    met = _meetings(architecture, shape, name).get(name.split(".sublayer.")[-1])
    sides = _sides(architecture, tally, name)
    allowed = ""
    if met is not None:
        allowed = _allowed(shape, queries, one, *met)
        formula, numbers, notes = _of_pairs(operation, shape.batch, queries, one, *met)
    elif sides is not None and one.dense % (2 * prod(sides)) == 0:
        formula, numbers, notes = _of_product(shape.batch * queries, one, *sides)
    else:
        formula, numbers, notes = "no product of two matrices alone, counted as its part says", f"{one.dense:,}", one.dense
    return Line("FLOPs", where, layers, formula, numbers, one.dense, one.exact, notes, component(name), allowed)


def _allowed(shape: Shape, T: int, one: Flops, heads: int, features: int) -> str:
    """How many pairs the mask allows, with their formula where it is causal and nothing else."""
    each = 2 * shape.batch * heads * features
    pairs, exact = one.dense // each, one.exact // each
    if exact == pairs:
        return ""
    causal = exact == T * shape.past + T * (T + 1) // 2
    how = (f"{T:,} x {shape.past:,} + " if shape.past else "") + f"{T:,} x {T + 1:,} / 2 = " if causal else ""
    return f"exact pairs: {how}{exact:,} of {pairs:,}"


def _of_product(positions: int, one: Flops, outputs: int, inputs: int) -> tuple[str, str, int]:
    """x W^T, x (rows, inputs): m = rows, n = inputs, h = outputs."""
    rows = one.dense // (2 * outputs * inputs)
    formula = f"2 x {'B T' if rows == positions else 'rows'} x inputs x outputs"
    return formula, _times((2, rows, inputs, outputs)), rows * outputs * (2 * inputs - 1)


def _of_pairs(operation: str, B: int, queries: int, one: Flops, heads: int, features: int) -> tuple[str, str, int]:
    """Scores: of each pair a product over features (n = E). Mixing: of each query and feature a sum over keys (n = keys)."""
    pairs = one.dense // (2 * B * heads * features)
    sums = pairs * (2 * features - 1) if operation == "scores" else features * (2 * pairs - queries)
    letter = "E" if operation == "scores" else "U"
    return f"2 x B x H x {letter} x pairs", _times((2, B, heads, features, pairs)), B * heads * sums


def _sides(architecture: Architecture, tally: Tally, name: str) -> tuple[int, int] | None:
    """(outputs, inputs) of the matrix that an operation multiplies by."""
    head = architecture.head
    if name == "head.logits" and head is not None:
        return architecture.outputs, head.features(architecture.width, architecture.table_width)
    weight = tally.weights.get(f"{name}.weight") or tally.weights.get(name)
    if weight is None or len(weight.shape) < 2:
        return None
    # Experts are stacked along the first dimension; a convolution reads all the others.
    outputs, *inputs = weight.shape[1:] if weight.role == "expert" else weight.shape
    return outputs, prod(inputs)


def _meetings(architecture: Architecture, shape: Shape, name: str) -> Mapping[str, tuple[int, int]]:
    words = name.split(".")
    if "sublayer" not in words:
        return {}
    branch = architecture.stacks[words[0]].variants[words[2]].branches[words[3]]
    return branch.sublayer.meetings(architecture.width, shape)


def _layers(architecture: Architecture, name: str) -> int:
    """How many layers do what goes by this name."""
    words = name.split(".")
    inside = words[0] in architecture.stacks and words[1] == "layers"
    return architecture.stacks[words[0]].layers.count(words[2]) if inside else 1


def _shown(name: str) -> str:
    """Without the plumbing: `decoder.layers.local.attention.sublayer.query` -> `decoder.local.attention.query`."""
    return ".".join(word for word in name.split(".") if word not in ("layers", "sublayer"))


def _times(factors: tuple[int, ...]) -> str:
    return " x ".join(f"{factor:,}" for factor in factors)


def _layers_of(line: Line) -> Figure:
    return count(line.layers) if line.layers > 1 else NOTHING
