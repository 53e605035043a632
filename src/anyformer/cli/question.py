"""The question that `anyformer plan` is asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

question_option = partial(typer.Option, rich_help_panel="Question")


@dataclass(frozen=True)
class Question:
    """What is planned; training, without these options."""

    serve: Annotated[
        bool,
        question_option(
            "--serve", help="Plan serving instead: accelerators needed, tokens per second, price per million tokens."
        ),
    ] = False
    finetune: Annotated[
        bool,
        question_option(
            "--finetune",
            help="Print instead which ways of fine-tuning fit on one accelerator: all weights, the last layers, LoRA, QLoRA.",
        ),
    ] = False

    rl: Annotated[
        bool,
        question_option(
            "--rl",
            help="Plan a step of reinforcement learning, or of distillation on a student's own answers: answers, "
            "scores, updates, and how many accelerators for which.",
        ),
    ] = False

    @property
    def trains(self) -> bool:
        """Whether a training run is asked about."""
        return not (self.serve or self.finetune or self.rl)

    @property
    def length(self) -> int:
        """Default of --length; fewer where a position table is shorter."""
        return 2048 if self.finetune else 8192
