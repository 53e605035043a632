"""`anyformer import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    directory: Annotated[
        Path, typer.Argument(help="A directory with config.json and safetensors, as transformers saves it.", metavar="DIR")
    ],
    out: Annotated[Path, typer.Argument(help="Where the checkpoint goes: a new directory.", metavar="CHECKPOINT")],
    check: Annotated[
        bool, typer.Option("--check", help="Compare with transformers first, as `anyformer verify` does.")
    ] = False,
) -> None:
    """Turn a Hugging Face directory into a checkpoint of ours: same weights, same type, same tokenizer.

    `generate` and `verify` read such directories as they are; import to train on, or to keep a sealed copy.
    """
    from anyformer import checkpoint, huggingface
    from anyformer.cli.verifying import report
    from anyformer.describe import UserError
    from anyformer.files import check_directory

    check_directory(out)
    if check and not report(huggingface.verify(directory)):
        raise UserError(f"{directory}: the logits differ from those of transformers, so nothing was written")
    model, tokenizer = huggingface.load(directory, progress=True)
    checkpoint.save(model, out, tokenizer=tokenizer)
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{out}: {model.architecture.shape_of_model}, {count:,} parameters" + ("" if tokenizer else ", no tokenizer"))
