"""A step of reinforcement learning in `anyformer plan`: its options."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

rollout_option = partial(typer.Option, rich_help_panel="Reinforcement learning (with --rl)")


@dataclass(frozen=True)
class RolloutOptions:
    """The texts of a step, and who scores them; their lengths are those of requests."""

    prompts: Annotated[int, rollout_option(help="Prompts of a step.", min=1, metavar="COUNT")] = 128
    answers: Annotated[int, rollout_option(help="Answers to each prompt.", min=1, metavar="COUNT")] = 8
    passes: Annotated[int, rollout_option(help="Passes of updates over all answers.", min=1, metavar="COUNT")] = 1
    reference: Annotated[
        str | None,
        rollout_option(
            help="The model that scores the answers: a reference, or a teacher. By default the architecture itself; none for "
            "none.",
            metavar="NAME|none",
        ),
    ] = None
