"""`anyformer verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from anyformer.huggingface import Verdict


def run(
    directory: Annotated[
        Path, typer.Argument(help="A directory with config.json and safetensors, as transformers saves it.", metavar="DIR")
    ],
    length: Annotated[int, typer.Option(help="Tokens of each of the two random texts.", min=1)] = 32,
    seed: Annotated[int, typer.Option(help="Of the random texts.", min=0)] = 0,
) -> None:
    """Compare our logits with those of transformers, in fp32, and name the first layer that drifts.

    Of our own layout, which transformers computes with our code, it compares one pass with decoding token by token.
    The exit code is 1 if they differ.
    """
    from anyformer import huggingface

    if not report(huggingface.verify(directory, length=length, seed=seed)):
        raise typer.Exit(1)


def report(verdict: Verdict) -> bool:
    """Print the verdict; whether they agree."""
    from rich.console import Console
    from rich.table import Table

    table = Table("where", "largest difference", "", box=None, header_style="bold")
    table.columns[1].justify = "right"
    for drift in verdict.drifts:
        table.add_row(drift.where, f"{drift.difference:.1e}", "" if drift.agrees else "differs")
    console = Console()
    console.print(table)
    console.print(f"compared: {verdict.compared}", soft_wrap=True)
    first = verdict.first_drift
    if verdict.agrees:
        console.print(f"{verdict.model_type}: the logits agree with transformers")
    elif first is not None:
        console.print(f"{verdict.model_type}: the logits differ from transformers; the first to drift is {first.where}")
    return verdict.agrees
