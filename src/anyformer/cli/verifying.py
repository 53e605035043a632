"""`anyformer verify`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyformer.cli.aligned import aligned
from anyformer.cli.arguments import HuggingFace, Json
from anyformer.cli.as_json import print_json

EXAMPLES = """
anyformer verify path/to/model
anyformer verify path/to/model --length 256
anyformer verify path/to/gemma3 --images
"""

if TYPE_CHECKING:
    from anyformer.huggingface import Verdict


def run(
    directory: HuggingFace,
    length: Annotated[int, typer.Option(help="Compare on two random texts of this many tokens.", min=1, metavar="TOKENS")] = 32,
    seed: Annotated[int, typer.Option(help="Draw the random texts from this seed.", min=0, metavar="SEED")] = 0,
    images: Annotated[
        bool,
        typer.Option("--images", help="Of a composite compare what it says of random images, and the layers of their tower."),
    ] = False,
    audio: Annotated[
        bool,
        typer.Option("--audio", help="Of a composite compare what it says of random sounds, and the layers of their tower."),
    ] = False,
    json: Json = False,
) -> None:
    """Compare the logits of a Hugging Face model with those that transformers computes, in fp32.

    If they differ, it names the first layer that does, and exits with 1. For a directory in anyformer's own layout, which
    transformers computes with anyformer's code, it compares one pass over the text with decoding token by token instead.
    """
    from anyformer import huggingface

    verdict = huggingface.verify(directory, length=length, seed=seed, images=images, audio=audio)
    if json:
        print_json(data(verdict))
    else:
        report(verdict)
    if not verdict.agrees:
        raise typer.Exit(1)


def data(verdict: Verdict) -> dict[str, Any]:
    """The differences in the order of computation, and the first beyond the tolerance."""
    first = verdict.first_drift
    return {
        "model_type": verdict.model_type,
        "compared": verdict.compared,
        "agrees": verdict.agrees,
        "first_drift": None if first is None else first.where,
        "drifts": [{**asdict(drift), "agrees": drift.agrees} for drift in verdict.drifts],
    }


def report(verdict: Verdict) -> bool:
    """Print the verdict; True if the logits agree."""
    rows = [(drift.where, f"{drift.difference:.1e}", "" if drift.agrees else "differs") for drift in verdict.drifts]
    print("\n".join(aligned([("where", "largest difference", ""), *rows], (False, True, False))))
    print(f"compared: {verdict.compared}")
    first = verdict.first_drift
    if verdict.agrees:
        print(f"{verdict.model_type}: the logits agree with transformers")
    elif first is not None:
        print(f"{verdict.model_type}: the logits differ from transformers; the first to drift is {first.where}")
    return verdict.agrees
