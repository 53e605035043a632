"""Norms that torch computes by several operators, as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from torch import Tensor

from anyformer.generation.native.captured import Operator
from anyformer.generation.program import found_in

RMS_NORM = tuple(f"aten::{name}" for name in ("square", "mean", "add", "rsqrt", "mul"))
"""x rsqrt(mean(x^2) + epsilon)."""


def with_norms(operators: Sequence[Operator]) -> list[Operator]:
    """The same operators with `aten::rms_norm` for those that compute one, if nothing else reads what these give."""
    uses = Counter(id(tensor) for each in operators for tensor in found_in(each.arguments, Tensor))
    found, at = list[Operator](), 0
    while at < len(operators):
        several = operators[at : at + len(RMS_NORM)]
        norm = _norm(several, uses)
        if norm is None:
            found.append(operators[at])
            at += 1
            continue
        at += len(several)
        weighted = _weighted(norm, operators[at], uses) if at < len(operators) else None
        at += weighted is not None
        found.append(weighted or norm)
    return found


def _norm(several: Sequence[Operator], uses: Counter[int]) -> Operator | None:
    """The norm of a row that these operators compute."""
    if tuple(each.name for each in several) != RMS_NORM:
        return None
    square, mean, add, root, times = several
    x, epsilon = square.arguments["self"], add.arguments["other"]
    rows = mean.arguments["dim"] in ([-1], [x.dim() - 1]) and mean.gives.dim() == x.dim()
    passed = all(
        after.arguments["self"] is before.gives and uses[id(before.gives)] == 1
        for before, after in ((square, mean), (mean, add), (add, root))
    )
    factors = [times.arguments["self"], times.arguments["other"]]
    scaled = factors[0] is x and factors[1] is root.gives and uses[id(root.gives)] == 1
    whole = rows and passed and scaled and not any(each.writes for each in several)
    if not whole or isinstance(epsilon, Tensor) or add.arguments["alpha"] != 1 or x.dtype != times.gives.dtype:
        return None
    given = {"input": x, "normalized_shape": [x.shape[-1]], "weight": None, "eps": float(epsilon)}
    return Operator("aten::rms_norm", given, times.gives)


def _weighted(norm: Operator, times: Operator, uses: Counter[int]) -> Operator | None:
    """A norm and its product with a weight."""
    weight = times.arguments.get("other")
    if times.name != "aten::mul" or times.writes or times.arguments["self"] is not norm.gives or uses[id(norm.gives)] != 1:
        return None
    if not isinstance(weight, Tensor) or weight.shape != norm.gives.shape[-1:] or times.gives.dtype != norm.gives.dtype:
        return None
    return Operator(norm.name, {**norm.arguments, "weight": weight}, times.gives)
