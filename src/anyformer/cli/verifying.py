"""`anyformer verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.arguments import HuggingFace

EXAMPLES = """
anyformer verify path/to/model
anyformer verify path/to/model --length 256
"""

if TYPE_CHECKING:
    from anyformer.huggingface import Verdict


def run(
    directory: HuggingFace,
    length: Annotated[int, typer.Option(help="Compare on two random texts of this many tokens.", min=1, metavar="TOKENS")] = 32,
    seed: Annotated[int, typer.Option(help="Draw the random texts from this seed.", min=0, metavar="SEED")] = 0,
) -> None:
    """Compare the logits of a Hugging Face model with those that transformers computes, in fp32.

    If they differ, it names the first layer that does, and exits with 1. For a directory in anyformer's own layout, which
    transformers computes with anyformer's code, it compares one pass over the text with decoding token by token instead.
    """
    from anyformer import huggingface

    if not report(huggingface.verify(directory, length=length, seed=seed)):
        raise typer.Exit(1)


def report(verdict: Verdict) -> bool:
    """Print the verdict; True if the logits agree."""
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
