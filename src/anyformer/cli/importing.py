"""`anyformer import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """
anyformer import path/to/model checkpoint
anyformer import path/to/model checkpoint --check
"""


def run(
    directory: Annotated[
        Path,
        typer.Argument(help="A directory as transformers saves it, with config.json and safetensors.", metavar="DIRECTORY"),
    ],
    out: Annotated[Path, typer.Argument(help="The new directory to write.", metavar="CHECKPOINT")],
    check: Annotated[
        bool, typer.Option("--check", help="Compare the logits with those of transformers first, as `anyformer verify` does.")
    ] = False,
) -> None:
    """Turn a Hugging Face directory into a checkpoint with the same weights, number format and tokenizer.

    A checkpoint holds the digest of every file, so that damage is noticed. `anyformer generate`, `verify`, `show`,
    `cost` and `diff` also read a Hugging Face directory as it is.
    """
    from anyformer import checkpoint, huggingface
    from anyformer.cli.verifying import report
    from anyformer.describe import UserError

    if out.exists():
        raise UserError(f"{out} exists; give a new directory")
    if check and not report(huggingface.verify(directory)):
        raise UserError(f"{directory}: the logits differ from those of transformers, so nothing was written")
    model, tokenizer = huggingface.load(directory, progress=True)
    checkpoint.save(model, out, tokenizer=tokenizer)
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{out}: {model.architecture.shape_of_model}, {count:,} parameters" + ("" if tokenizer else ", no tokenizer"))
