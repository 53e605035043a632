"""`anyformer export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    model: Annotated[Path, typer.Argument(help="A run's directory, or a checkpoint's.", metavar="RUN_DIR|CHECKPOINT")],
    out: Annotated[Path, typer.Argument(help="Where the export goes: a new directory.", metavar="DIR")],
    family: Annotated[
        str | None,
        typer.Option(help="The model type to export as; by default the first that expresses the architecture exactly."),
    ] = None,
) -> None:
    """Write a directory that transformers' AutoModel loads, with config.json, safetensors and tokenizer.

    An architecture that no model type expresses is written in our own layout, which transformers loads after
    `import anyformer.huggingface.auto`.
    """
    from anyformer import huggingface
    from anyformer.loading import load

    loaded, tokenizer = load(model)
    chosen = huggingface.export(loaded, out, tokenizer=tokenizer, model_type=family)
    extra = "; load it after `import anyformer.huggingface.auto`" if chosen is huggingface.own() else ""
    print(f"{out}: {chosen.model_type}{extra}")
