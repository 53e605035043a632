"""Losses of policies by the names of their recipes, as files of runs give them."""

from __future__ import annotations

from typing import Any

from anyformer.describe import did_you_mean
from anyformer.objectives.policy.recipes import RECIPES


def _slug(name: str) -> str:
    return name.lower().replace(". ", "_").replace(" ", "_").replace("-", "_")


LOSSES = {_slug(name): recipe for name, recipe in RECIPES.items() if name != "Dr. GRPO"}
"""Recipes by the names that a file may give in the place of a loss; Dr. GRPO's needs a length."""


def loss_named(value: Any) -> Any:
    """A recipe's loss, of its name."""
    if not isinstance(value, str):
        return value
    if value not in LOSSES:
        raise ValueError(
            f"there is no loss {value!r}{did_you_mean(value, LOSSES)}: choose one of {', '.join(LOSSES)}, or a table"
        )
    return LOSSES[value]()
