"""Losses of policies by the names of their recipes, as files of runs give them."""

from __future__ import annotations

from typing import Any

from anyformer.describe import did_you_mean
from anyformer.objectives.policy.recipes import RECIPES


def name_in_a_run(recipe: str) -> str:
    """What a file of a run calls a recipe: `dr_grpo` of Dr. GRPO."""
    return recipe.lower().replace(". ", "_").replace(" ", "_").replace("-", "_")


OF_A_LENGTH = "dr_grpo"
"""The recipe whose loss is divided by the most tokens of an answer, which a name does not say."""
LOSSES = {name: recipe for of, recipe in RECIPES.items() if (name := name_in_a_run(of)) != OF_A_LENGTH}
"""Recipes by the names that a file may give in the place of a loss."""


def loss_named(value: Any) -> Any:
    """A recipe's loss, of its name."""
    if not isinstance(value, str):
        return value
    if value == OF_A_LENGTH:
        raise ValueError(
            f"loss {value!r} is divided by the most tokens of an answer: give it as the table {{ advantage = {{ kind = "
            '"group_mean", over_std = false }, normaliser = { kind = "constant", length = 128 } }, with that number for 128'
        )
    if value not in LOSSES:
        raise ValueError(
            f"there is no loss {value!r}{did_you_mean(value, LOSSES)}: choose one of {', '.join(LOSSES)}, or a table"
        )
    return LOSSES[value]()
