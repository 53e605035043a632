"""Options of `anyformer train`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from anyformer.cli import arguments
from anyformer.cli.arguments import WHAT, Compile, Tiny


@dataclass(frozen=True)
class RunOptions:
    """What is trained, on what, from which weights."""

    what: Annotated[
        str | None,
        typer.Argument(help=f"The TOML file of a run; or, with --data, an architecture. {WHAT}", metavar="RUN.toml|NAME|PATH"),
    ] = None
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="Train on this text: a file, a directory, a .jsonl file, or python-stdlib, the text that comes with Python. "
            "Repeat it for more. Or on a generated task, by its kind (parity, mqar, copying, ...) or a table of its fields.",
            metavar="PATH|TASK",
        ),
    ] = None
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Change the value of the run at this path, as in --set steps=500 --set optimiser.learning_rate=1e-3. "
            "May be repeated. With --resume only these may change: steps (in all), minutes (so many more), "
            "evaluation.*, checkpoints.*, loggers, plan.profile and sample. The learning rate then follows a schedule over the "
            "new total.",
            metavar="PATH=VALUE",
        ),
    ] = None
    start_from: Annotated[
        str | None,
        typer.Option(
            "--start-from",
            help="Start from the weights of this run, checkpoint, Hugging Face directory or model of a hub (hub:ORG/NAME), "
            "where names and shapes fit; the rest is named. Architecture and tokenizer are then those of this model unless "
            "they are named. What learns is "
            "tuning.*: --set 'tuning.adapter={kind=\"lora\"}', --set 'tuning.train_only=[\"head.*\"]'.",
            metavar="PATH",
        ),
    ] = None
    tiny: Tiny = False
    compile: Compile = None
    objective: Annotated[
        str | None,
        typer.Option(
            help="What the model is trained to do, as in --objective seq2seq: docs/training.md lists them. By default "
            "the usual one of the architecture's shape, which `anyformer show` says.",
            metavar="KIND",
        ),
    ] = None


@dataclass(frozen=True)
class Keeping:
    """Where a run is kept or taken up again, and what is told of it."""

    out: Annotated[
        Path | None,
        typer.Option(help="Write the run into this new directory. By default runs/ and the time.", metavar="DIRECTORY"),
    ] = None
    resume: Annotated[
        str | None,
        typer.Option(
            help="Continue the run of this directory, or of this URL: the copy that checkpoints.store keeps is fetched into "
            "runs/ unless what is there is as new. It ends with the same weights as a run that was never stopped. With "
            "RUN.toml beside it, begin that run there if none has begun: a line that a launcher may start again and again.",
            metavar="RUN",
        ),
    ] = None
    logger: Annotated[
        list[str] | None,
        typer.Option(
            "--logger",
            help="Tell the metrics to this logger too: tensorboard, wandb, trackio or mlflow. Repeat it for more. With "
            "--resume, a run keeps its loggers, and one that is new is told all from the start. More is said by "
            '--set \'loggers=[{kind="wandb",project="mine"}]\'.',
            metavar="KIND",
        ),
    ] = None
    verify_resume: Annotated[
        bool,
        typer.Option(
            "--verify-resume",
            help="Train nothing: prove on a few updates of this run, in about a minute, that a run which is killed and resumed "
            "ends with the same bits as one that is left alone. Says what differs; the exit code is then 1.",
        ),
    ] = False
    json: Annotated[
        bool,
        arguments.output_option("--json", help="Print summary.json at the end, and progress on standard error."),
    ] = False
