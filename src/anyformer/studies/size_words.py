"""Gates and ladders in words and tables."""

from __future__ import annotations

import math
from collections.abc import Iterator

from anyformer.costs.figures import scaled
from anyformer.studies.findings import Findings
from anyformer.studies.ladders import Climb, Climbed

Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]
"""A head, and rows of as many cells."""


def gates_table(findings: Findings) -> Table | None:
    """The metric of every arm at every gate, and whether it went on; None without gates."""
    if not findings.gates:
        return None
    rows = []
    for name in findings.gates[0].numbers:
        cells = []
        for gate in findings.gates:
            number = gate.numbers.get(name)
            said = "" if name not in gate.numbers else "failed" if number is None else f"{number:.4f}"
            said = "diverged" if number is not None and math.isinf(number) else said
            cells.append(f"{said}, left out" if name in gate.left_out else said)
        rows.append((name, *cells))
    return ("arm", *(f"at {gate.size:g} of the size" for gate in findings.gates)), tuple(rows)


def gates_said(findings: Findings) -> Iterator[str]:
    """A sentence per gate."""
    for gate in findings.gates:
        left = ", ".join(gate.left_out) or "none"
        yield (
            f"At {gate.size:g} of the size, {len(gate.numbers)} arms were tried and {len(gate.kept)} went on, the base among "
            f"them; left out: {left}. An arm that was left out has no verdict: it might have been better at the whole size"
        )


def ladder_table(climb: Climb) -> Table:
    """Every arm at every size, with its loss."""
    rows = [
        (
            arm.name, f"{rung.size:g}", f"{rung.width:,}", f"{rung.parameters:,}", f"{rung.tokens:,}",
            f"{scaled(rung.flops)}FLOPs",
            "-" if not rung.numbers else f"{sum(rung.numbers.values()) / len(rung.numbers):.4f}", str(len(rung.numbers)),
        )
        for arm in climb.arms
        for rung in arm.rungs
    ]  # fmt: skip
    return ("arm", "size", "width", "parameters", "tokens", "training", "loss", "seeds"), tuple(rows)


def ladder_said(findings: Findings) -> Iterator[str]:
    """The law of each arm, and where it crosses the base's."""
    climb = findings.climb
    if climb is None:
        return
    for arm in climb.arms:
        if arm.law is None:
            yield f"{arm.name}: no law, since it has no loss at one of the sizes"
            continue
        law = arm.law
        yield f"{arm.name}: loss = {law.floor:.3f} + {law.scale:.3f} (C / {scaled(law.unit)}FLOPs)^-{law.exponent:.3f}"
        if arm.crossing is not None:
            yield _crossing(arm, climb, findings)


def _crossing(arm: Climbed, climb: Climb, findings: Findings) -> str:
    found, base = arm.crossing, findings.base
    assert found is not None
    reach = f"between the smallest size and {climb.beyond:g} times the largest FLOPs"
    sure = "" if math.isnan(found.share) else f"; {found.share:.0%} of the draws of a bootstrap over seeds cross there"
    if found.at is None:
        better = "below" if found.first else "above"
        return f"The law of {arm.name} lies {better} that of {base} everywhere {reach}{sure}"
    first, place = "better" if found.first else "worse", scaled(found.at.value)
    said = f"The law of {arm.name} is {first} at first, and crosses that of {base} at {place}FLOPs"
    if math.isfinite(found.at.low):
        said += (
            f" ({1 - findings.alpha:.0%} interval {scaled(found.at.low)}to {scaled(found.at.high)}, of the draws that cross)"
        )
    more = (
        f". This is an **extrapolation**: the largest that was measured is {scaled(climb.largest)}FLOPs" if found.beyond else ""
    )
    return f"{said}{sure}{more}"
