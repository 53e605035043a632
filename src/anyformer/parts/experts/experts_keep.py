"""What a mixture of experts keeps for backward: the sizes beside `ExpertsModule`, without the reports of a balance loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyformer.parts.feedforward.feedforward import combine_keeps
from anyformer.tape import Held, Tape

if TYPE_CHECKING:
    from anyformer.parts.experts.experts import Experts
    from anyformer.parts.feedforward.feedforward import Projection


@dataclass(frozen=True)
class Placed:
    """The numbers of a `Placement`, by size: Q rows; what is not there is None."""

    rows: int
    chosen: Held
    row: Held
    choice: Held
    expert: Held
    ends: Held | None
    taken: Held | None
    filled: Held | None

    @staticmethod
    def of(part: Experts, tape: Tape) -> Placed:
        """As `ExpertsModule` places its tokens. Those chosen are a part of all experts in order, which is kept whole."""
        Z, k, X = tape.rows, part.chosen, part.experts

        def whole(count: int) -> Held:
            return tape.new(count, "int64", learns=False)

        def flags(count: int) -> Held:
            return tape.new(count, "bool", learns=False)

        capacity = part.capacity
        holds = capacity is not None and capacity.holds(tape.training)
        taken = flags(Z * k) if holds else None
        if capacity is None or not holds or capacity.kind == "row":
            return Placed(Z * k, whole(Z * part.choices), whole(Z * k), whole(Z * k), whole(Z * k), whole(X), taken, None)
        rows = capacity.rows(Z, X, k)
        # One row more, into which falls what found no place.
        return Placed(rows, whole(Z * k), whole(Z * k), whole(rows + 1), whole(rows), None, taken, flags(rows + 1))


def experts_keep(part: Experts, tape: Tape, x: Held, width: int) -> Held:
    """The rows that experts read, what is between their projections, what they give, and the numbers of the placement."""
    placed = Placed.of(part, tape)
    among = placed.taken if part.capacity is not None and part.capacity.reroutes else None
    router = tape.within("router")
    weights = part.router.keeps(router, x, width, part.choices, placed.chosen, part.chosen, among)
    x = part.norm.keeps(tape.within("norm"), x, width) if part.norm else x
    weights = tape.cast(weights, x.number)
    _keep(tape, "dispatch", placed.row, placed.taken)
    rows = tape.new(placed.rows * width, x.number)
    if part.weigh == "input":
        spread = tape.new(placed.rows, x.number, learns=weights.learns)
        y = _rows_keep(part, tape, tape.times("weighed", rows, spread), width, placed)
    else:
        y = _rows_keep(part, tape, rows, width, placed)
    _keep(tape, "combine", placed.choice, placed.filled)
    y = tape.new(tape.rows * part.chosen * width, y.number)
    if placed.taken is not None:
        y = tape.times("taken", y, placed.taken)
        y = tape.new(y.elements, x.number)
    if part.weigh == "output":
        tape.times("weighed", y, weights)
    if part.shared is not None:
        shared = part.shared.feedforward.keeps(tape.within("shared"), x, width)
        if part.shared.gate is not None:
            gate = tape.linear("shared_gate", x, width, 1)
            gate = tape.like(gate)
            tape.keep("shared_gate.sigmoid", gate)
            tape.times("shared_gate", shared, gate)
    return tape.new(tape.rows * width, x.number)


def _rows_keep(part: Experts, tape: Tape, rows: Held, width: int, placed: Placed) -> Held:
    """Each row through its expert's network."""
    up = _project_keeps(part, "up", tape, rows, width, placed)
    gate = _project_keeps(part, "gate", tape, rows, width, placed) if part.gated else None
    y = _project_keeps(part, "down", tape, combine_keeps(part, part.activation, tape, gate, up), width, placed)
    if part.identity_experts:
        tape.keep("identity", tape.new(placed.rows, "bool", learns=False))
        y = tape.like(y)
    return y


def _project_keeps(part: Experts, name: Projection, tape: Tape, rows: Held, width: int, placed: Placed) -> Held:
    """Its rows, where groups end, and which expert's bias each row takes; stacked weights in bf16 are copies."""
    outputs, inputs = part.sides(name, width)
    _keep(tape, f"{name}.input", rows, placed.ends)
    if rows.number != "fp32":
        tape.casts[f"{tape.owner}{name}"] = tape.new(part.experts * outputs * inputs, rows.number)
    if name in part.bias:
        tape.keep(f"{name}.bias", tape.like(placed.expert) if part.identity_experts else placed.expert)
    y = tape.gives(f"{name}.output", tape.new(placed.rows * outputs, rows.number))
    return tape.like(y) if name in part.bias else y


def _keep(tape: Tape, name: str, *held: Held | None) -> None:
    tape.keep(name, *(one for one in held if one is not None))
