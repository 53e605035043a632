"""`anyformer export`: a model as a directory for transformers, as a file or directory for another engine, or to a hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from anyformer.cli.arguments import Json, Model
from anyformer.cli.as_json import print_json
from anyformer.cli.export_options import AdapterOptions, GgufOptions
from anyformer.cli.exports import Asked, Format, written
from anyformer.cli.options import grouped
from anyformer.cli.pushing import PushOptions, send, written_to

GGUF = ".gguf"
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
    format: Annotated[
        Format | None,
        typer.Option(
            help="Who reads it. `vllm` is a directory of transformers that vLLM opens too, else it is refused with the reason; "
            "`gguf` is a file for llama.cpp; `onnx` is for ONNX Runtime, by itself or in transformers.js, in fp32 or with "
            "--dtype fp16; `ctranslate2` is for CTranslate2. By default transformers, and gguf where OUT ends in .gguf.",
            metavar="transformers|vllm|gguf|onnx|ctranslate2",
        ),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            help="Export as this model type of transformers. By default the first that expresses the architecture exactly.",
            metavar="MODEL_TYPE",
        ),
    ] = None,
    towers: Annotated[
        Path | None,
        typer.Option(
            help="Write a composite: the text model's weights, and the towers of this directory as they are. By default the "
            "directory of which the model was imported, if that was a composite.",
            metavar="DIRECTORY",
        ),
    ] = None,
    dtype: Annotated[
        Literal["stored", "fp32", "bf16", "fp16"],
        typer.Option(
            help="Numbers of the weights: `stored` is the type in which they came, whatever they were trained in.",
            metavar="stored|fp32|bf16|fp16",
        ),
    ] = "stored",
    *,
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

    pushing.check(out)
    form: Format = format or ("gguf" if out is not None and out.suffix == GGUF else "transformers")
    if form == "gguf" and (out is None or out.suffix != GGUF or pushing.push is not None):
        raise UserError(f"--format gguf writes one file: name OUT with a name that ends in {GGUF}, and leave --push out")
    if out is not None:
        check_file(out) if form == "gguf" else check_directory(out)
    alone.check(pushed=pushing.push is not None)
    Asked(model, out or Path(), form, family, towers, dtype, alone, gguf).check()
    target = pushing.target()
    with written_to(out) as place:
        name = None if target is None else target.name.repo
        made = written(Asked(model, place, form, family, towers, dtype, alone, gguf, name, progress=not json))
        pushed = {} if target is None else {"pushed": send(place, target, pushing, model, json=json)}
    if json:
        print_json({"file" if form == "gguf" else "directory": out, **made.facts, **pushed})
    elif not pushing.dry_run:
        print("\n".join(made.lines))
