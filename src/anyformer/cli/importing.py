"""`anyformer import`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.arguments import HuggingFace, Json
from anyformer.cli.as_json import print_json
from anyformer.cli.elsewhere import place

if TYPE_CHECKING:
    from anyformer.huggingface import Verdict

EXAMPLES = """
anyformer import path/to/model checkpoint
anyformer import path/to/model checkpoint --check
anyformer import hub:org/model checkpoint
anyformer import path/to/model checkpoint --adapter path/to/lora
anyformer import path/to/gemma3 checkpoint --images
"""


def run(
    directory: HuggingFace,
    out: Annotated[Path, typer.Argument(help="The new directory to write.", metavar="CHECKPOINT")],
    adapter: Annotated[
        Path | None,
        typer.Option(
            help="Merge this adapter, a directory that PEFT wrote or a model of a hub, into the weights.",
            metavar="DIRECTORY|hub:ORG/NAME",
            parser=place,
        ),
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
    from anyformer.cli.verifying import data
    from anyformer.files import check_directory, disk_errors
    from anyformer.hub import pinned
    from anyformer.loading import beside, load, trained_length

    check_directory(out)
    verdict = _checked(directory, images=images, audio=audio, told=not json) if check else None
    if adapter is None:
        model, tokenizer = huggingface.load(directory, progress=True, images=images, audio=audio)
    else:
        model, tokenizer = load(directory, adapter=adapter, images=images, audio=audio)
    towers = huggingface.left_aside(directory, images=images, audio=audio)
    where = "towers" if towers or audio or huggingface.told_of(directory) else "images"
    named = pinned(directory)
    source = {where: named or str(directory.absolute())} if towers or images or audio else {}
    source |= {"source": named} if named else {}
    with disk_errors(out):
        facts = {"length": trained_length(directory), **source}
        checkpoint.save(model, out, tokenizer=tokenizer, beside=beside(directory), facts=facts)
    count = sum(parameter.numel() for parameter in model.parameters())
    aside = huggingface.aside(towers) if towers else None
    shape = model.architecture.shape_of_model
    if json:
        made = {"checkpoint": out, "shape": shape, "parameters": count, "source": named, "tokenizer": bool(tokenizer)}
        print_json(made | {"left_aside": aside, "verified": None if verdict is None else data(verdict)})
        return
    print(f"{out}: {shape}, {count:,} parameters" + ("" if tokenizer else ", no tokenizer"))
    print("".join(_origins(directory, named, aside)), end="")


def _checked(directory: Path, *, images: bool, audio: bool, told: bool) -> Verdict:
    """The comparison with transformers. Raises `UserError` where the logits differ."""
    from anyformer import huggingface
    from anyformer.cli.verifying import report
    from anyformer.describe import UserError

    verdict = huggingface.verify(directory, images=images, audio=audio)
    if told:
        report(verdict)
    if not verdict.agrees:
        raise UserError(f"{directory}: the logits differ from those of transformers, so nothing was written")
    return verdict


def _origins(directory: Path, named: str | None, aside: str | None) -> Iterator[str]:
    """Lines about where a model came from: its commit on a hub, and what was left aside there."""
    if named:
        yield f"from {named}\n"
    if aside:
        yield f"{aside}; anyformer export writes them again from {named or directory}\n"
