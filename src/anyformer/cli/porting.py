"""`anyformer port`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anyformer.cli.arguments import Json
from anyformer.cli.as_json import print_json

EXAMPLES = """
anyformer port path/to/new_model
anyformer port path/to/new_model --against transformers --out ports
anyformer port path/to/new_model --against modeling_new:NewForCausalLM --out ports
"""


def run(
    directory: Annotated[
        Path,
        typer.Argument(
            help="A directory with config.json and safetensors, of which names and shapes alone are read; without their files "
            "the index does. Python files in it are read as text, and never run.",
            metavar="DIRECTORY",
        ),
    ],
    against: Annotated[
        str | None,
        typer.Option(
            help="Prove it against transformers, or against a class of yours, which is imported and run: a tiny random model "
            "is made of the configuration, and what is guessed is chosen so that the two agree.",
            metavar="transformers|MODULE:CLASS",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the family, its test, its description and an entry for a catalogue into this folder.", metavar="FOLDER"
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The name of these files, by default the model type's.", metavar="NAME")
    ] = None,
    json: Json = False,
) -> None:
    """Propose how a model type that anyformer does not read is read: the nearest families, and what differs.

    It says what is certain by keys and shapes, what is guessed, and which keys have no known meaning. With --out it writes a
    plug-in that reads and writes the type: any command takes it with --plugin. The exit code is 1 where a proof was asked for
    and the logits differ.
    """
    from anyformer.cli.porting_page import data, lines
    from anyformer.porting import check_new, proposal, write_port
    from anyformer.porting.proposal import table_of

    check_new(str(table_of(directory)["model_type"]))
    found = proposal(directory, against)
    written = [] if out is None else write_port(found, out, name)
    if json:
        print_json(data(found, written))
    else:
        print("\n".join(lines(found, written)))
    if found.proof is not None and not found.proof.equal:
        raise typer.Exit(1)
