"""`anyformer import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anyformer.cli.arguments import HuggingFace, Json
from anyformer.cli.as_json import print_json

EXAMPLES = """
anyformer import path/to/model checkpoint
anyformer import path/to/model checkpoint --check
anyformer import path/to/model checkpoint --adapter path/to/lora
anyformer import path/to/gemma3 checkpoint --images
"""


def run(
    directory: HuggingFace,
    out: Annotated[Path, typer.Argument(help="The new directory to write.", metavar="CHECKPOINT")],
    adapter: Annotated[
        Path | None,
        typer.Option(help="Merge this adapter, a directory that PEFT wrote, into the weights.", metavar="DIRECTORY"),
    ] = None,
    images: Annotated[
        bool, typer.Option("--images", help="Of a composite read the tower for images too, and not the text model alone.")
    ] = False,
    audio: Annotated[
        bool, typer.Option("--audio", help="Of a composite read the tower for sound too, and not the text model alone.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the logits with those of transformers first, as `anyformer verify` does.")
    ] = False,
    json: Json = False,
) -> None:
    """Turn a Hugging Face directory into a checkpoint with the same weights, number format and tokenizer.

    A checkpoint holds a digest of every file, which reveals damage. `anyformer generate`, `export`, `verify`, `show`,
    `cost` and `diff` also read a Hugging Face directory as it is. `anyformer train` takes the architecture of either, and with
    --start-from the weights and the tokenizer too. Of a composite it reads the text model, with --images and --audio also the
    towers for images and sound; other towers are left aside.
    """
    from anyformer import checkpoint, huggingface
    from anyformer.cli.verifying import data, report
    from anyformer.describe import UserError
    from anyformer.files import check_directory, disk_errors
    from anyformer.loading import beside, load, trained_length

    check_directory(out)
    verdict = huggingface.verify(directory, images=images, audio=audio) if check else None
    if verdict is not None and not json:
        report(verdict)
    if verdict is not None and not verdict.agrees:
        raise UserError(f"{directory}: the logits differ from those of transformers, so nothing was written")
    if adapter is None:
        model, tokenizer = huggingface.load(directory, progress=True, images=images, audio=audio)
    else:
        model, tokenizer = load(directory, adapter=adapter, images=images, audio=audio)
    towers = huggingface.left_aside(directory, images=images, audio=audio)
    where = "towers" if towers or audio or huggingface.told_of(directory) else "images"
    source = {where: str(directory.absolute())} if towers or images or audio else {}
    with disk_errors(out):
        facts = {"length": trained_length(directory), **source}
        checkpoint.save(model, out, tokenizer=tokenizer, beside=beside(directory), facts=facts)
    count = sum(parameter.numel() for parameter in model.parameters())
    if json:
        made = {"checkpoint": out, "shape": model.architecture.shape_of_model, "parameters": count}
        aside = huggingface.aside(towers) if towers else None
        checked = None if verdict is None else data(verdict)
        print_json(made | {"tokenizer": bool(tokenizer), "left_aside": aside, "verified": checked})
        return
    print(f"{out}: {model.architecture.shape_of_model}, {count:,} parameters" + ("" if tokenizer else ", no tokenizer"))
    if towers:
        print(f"{huggingface.aside(towers)}; anyformer export writes them again from {directory}")
