"""`anyformer export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    model: Annotated[
        Path,
        typer.Argument(help="The directory of a run, a checkpoint or a Hugging Face model.", metavar="RUN_DIR|CHECKPOINT|DIR"),
    ],
    out: Annotated[Path, typer.Argument(help="The directory to write: a new one.", metavar="OUT")],
    family: Annotated[
        str | None,
        typer.Option(help="The model type to export as; by default the first that expresses the architecture exactly."),
    ] = None,
) -> None:
    """Write a directory that transformers' AutoModel loads: config.json, safetensors, tokenizer, and their digests.

    An architecture that no model type expresses is written in our own layout, which transformers loads after
    `import anyformer.huggingface.auto`.
    """
    from anyformer import huggingface
    from anyformer.files import check_directory
    from anyformer.loading import load, trained_length

    check_directory(out)
    loaded, tokenizer = load(model)
    chosen = huggingface.export(loaded, out, tokenizer=tokenizer, model_type=family, length=trained_length(model))
    extra = "; load it after `import anyformer.huggingface.auto`" if chosen is huggingface.own() else ""
    print(f"{out}: {chosen.model_type}{extra}")
