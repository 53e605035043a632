"""Findings that no trial made, for the pictures of studies."""

from __future__ import annotations

from collections.abc import Mapping

from anyformer.evaluation.intervals import Interval
from anyformer.studies.findings import ArmFindings, Costs, Findings
from anyformer.studies.statistics import ArmComparison


def arm(name: str, quality: float, *, evaluations: int = 1, seeds: int = 3, parameters: int = 1000) -> ArmFindings:
    """An arm whose seeds differ by a tenth, evaluated so many times."""
    curves = {
        seed: [(1000 * (i + 1), quality + 1 / (i + 1) + 0.05 * seed) for i in range(evaluations)] for seed in range(seeds)
    }
    return ArmFindings(
        name=name, differences=(), moved="", other_targets=(), updates=10, tokens=1000, value=None, tuned=None, failed={},
        costs=Costs(parameters, parameters, 6000 * parameters, 512, 10**6, 1000.0, 1e6), diverged={}, largest_gradient=1.0,
        numbers={seed: quality + 0.05 * seed for seed in range(seeds)}, spikes=0, curves=curves, training=curves,
        quality=Interval(quality + 0.05, quality, quality + 0.1),
    )  # fmt: skip


def findings(arms: Mapping[str, ArmFindings]) -> Findings:
    """Findings about arms of which the first is the base."""
    base, *others = arms
    return Findings(
        title="a study", question="a study", metric="loss", better="lower", alpha=0.05, matched="", budget="", tuning="",
        tuned_path=None, seeds=(0, 1, 2), base=base, arms=tuple(arms.values()), paired=True, commands={}, runs={},
        environment={"threads": 1, "precision": "fp32"}, notes=(), study={},
        comparisons=tuple(
            ArmComparison(name, (0, 1, 2), (0.1,) * 3, (0, 0), Interval(0.1, 0.05, 0.15), 0.01, 0.01, "worse", 3, "p = 0.01")
            for name in others
        ),
    )  # fmt: skip
