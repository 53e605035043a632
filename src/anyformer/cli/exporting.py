"""`anyformer export`: a model as a directory for transformers, as a file or directory for another engine, or to a hub."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from anyformer.cli.arguments import Json, Model
from anyformer.cli.as_json import print_json
from anyformer.cli.export_options import AdapterOptions, FormOptions, GgufOptions
from anyformer.cli.exports import ExportRequest, written
from anyformer.cli.options import grouped
from anyformer.cli.pushing import PushOptions, send, written_to

EXAMPLES = """
anyformer export runs/2026-01-01-120000 exported
anyformer export checkpoint exported --family llama
anyformer export checkpoint exported --towers path/to/gemma3
anyformer export checkpoint model.gguf
anyformer export checkpoint model.gguf --quantise q4_k_m
anyformer export checkpoint exported --format onnx
anyformer export runs/2026-01-01-120000 --push org/model --private
anyformer export runs/2026-01-01-120000 --push org/model --dry-run
"""


@grouped
def run(
    model: Model,
    out: Annotated[
        Path | None,
        typer.Argument(
            help="The new directory to write, or a file whose name ends in .gguf; it may be left out with --push.",
            metavar="OUT",
        ),
    ] = None,
    *,
    form: FormOptions,
    alone: AdapterOptions,
    gguf: GgufOptions,
    pushing: PushOptions,
    json: Json = False,
) -> None:
    """Write a model as a directory that transformers loads: configuration, weights, tokenizer, and the digests of all files; or
    as what another engine reads; or push it to a hub, with a model card.

    The AutoModel classes of transformers load it without remote code. An architecture that no model type of transformers
    expresses is written in anyformer's own layout, which they load with trust_remote_code=True where anyformer is installed.
    Adapters are merged into the weights, unless --adapter asks for them alone. ONNX graphs are tried in ONNX Runtime against
    this model before they appear.
    """
    from anyformer.describe import UserError
    from anyformer.files import check_directory, check_file
    from anyformer.resolving import GGUF

    pushing.check(out)
    request = ExportRequest(model, out or Path(), form, alone, gguf, progress=not json)
    request.check()
    alone.check(pushed=pushing.push is not None)
    is_file = request.format == "gguf"
    if is_file and (out is None or out.suffix != GGUF or pushing.push is not None):
        raise UserError(f"--format gguf writes one file: name OUT with a name that ends in {GGUF}, and leave --push out")
    if out is not None:
        check_file(out) if is_file else check_directory(out)
    destination = pushing.destination()
    with written_to(out) as place:
        made = written(replace(request, out=place, name=None if destination is None else destination.name.repo))
        pushed = {} if destination is None else {"pushed": send(place, destination, pushing, model, json=json)}
    if json:
        print_json({"file" if is_file else "directory": out, **made.facts, **pushed})
    elif not pushing.dry_run:
        print("\n".join(made.lines))
