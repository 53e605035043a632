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
    """Turn a Hugging Face directory into a checkpoint of ours: same weights, same type, same tokenizer, sealed by digests.

    `generate`, `export` and `verify` read such directories as they are. `train` takes the architecture of either and starts
    new weights: going on from stored ones is not possible yet.
    """
    from anyformer import checkpoint, huggingface
    from anyformer.cli.verifying import report
    from anyformer.describe import UserError
    from anyformer.files import check_directory, told
    from anyformer.loading import trained_length

    check_directory(out)
    if check and not report(huggingface.verify(directory)):
        raise UserError(f"{directory}: the logits differ from those of transformers, so nothing was written")
    model, tokenizer = huggingface.load(directory, progress=True)
    with told(out):
        checkpoint.save(model, out, tokenizer=tokenizer, facts={"length": trained_length(directory)})
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{out}: {model.architecture.shape_of_model}, {count:,} parameters" + ("" if tokenizer else ", no tokenizer"))
