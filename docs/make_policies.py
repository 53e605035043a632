"""Fills in the tables of docs/policies.md from the recipes' values and benchmarks/results/policies.json:
`python docs/make_policies.py`.

A test holds the page to both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from page_text import filled, prose, table, write

from anyformer.describe import Value
from anyformer.objectives.policy import (
    RECIPES,
    Advantage,
    Correction,
    Divergence,
    Normaliser,
    PolicyLoss,
    Ratio,
    RatioClip,
    RowSelection,
    dr_grpo,
)
from anyformer.objectives.policy_names import LOSSES, name_in_a_run

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "docs" / "policies.md",)
RESULT = ROOT / "benchmarks" / "results" / "policies.json"
PARTS = {
    "advantage": Advantage, "ratio": Ratio, "clip": RatioClip, "normaliser": Normaliser, "divergence": Divergence,
    "selection": RowSelection, "correction": Correction,
}  # fmt: skip
"""The parts of a loss and their bases."""
SHOWN = ("advantage", "ratio", "clip", "normaliser", "divergence", "selection")


def named(part: Value | None) -> str:
    """The kind of a part, and its fields that are not as usual."""
    if part is None:
        return ""
    usual = type(part).model_fields
    changed = {name: value for name, value in part.plain().items() if name != "kind" and value != usual[name].default}
    return ", ".join([f"`{part.plain()['kind']}`", *(f"{name} {_written(value)}" for name, value in changed.items())])


def recipes() -> Iterator[tuple[str, ...]]:
    """Every recipe by its parts."""
    for name, make in RECIPES.items():
        loss: PolicyLoss = make(512) if make is dr_grpo else make()
        given = name_in_a_run(name)
        yield name, f"`{given}`" if given in LOSSES else "a table", *(named(getattr(loss, part)) for part in SHOWN)


def parts() -> Iterator[tuple[str, str, str]]:
    """Every part: the kinds that it may have, and the usual one."""
    for name, base in PARTS.items():
        usual = named(PolicyLoss.model_fields[name].default)
        yield f"`{name}`", ", ".join(f"`{kind}`" for kind in base.kinds), usual or "none"


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def settings(record: Mapping[str, Any]) -> str:
    """How near TRL's losses and gradients are."""
    losses = record["losses"].values()
    trl, command = record["theirs"]["trl"], "`python -m benchmarks.policies`"
    return (
        "All equal their papers' formulas written out token by token. From the same rollouts, rewards and weights, losses and "
        f"gradients of all weights are those of TRL {trl}'s trainers in {len(losses)} settings, no further apart than "
        f"{max(one['apart'] for one in losses):.0e} of a loss and {max(one['gradient apart'] for one in losses):.0e} of a "
        f"gradient ({command}); PPO and expert iteration are not in it."
    )


def pages(record: Mapping[str, Any]) -> dict[Path, str]:
    """The page with its tables."""
    made = {
        "recipes": table(("recipe", "in a run", *(f"`{part}`" for part in SHOWN)), recipes()),
        "settings": prose(settings(record)),
        "parts": table(("part", "kinds", "usual"), parts()),
    }
    return filled(PAGES, made)


if __name__ == "__main__":
    write(pages(json.loads(RESULT.read_text(encoding="utf-8"))))
