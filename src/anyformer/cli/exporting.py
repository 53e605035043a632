"""`anyformer export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """
anyformer export runs/2026-01-01-120000 exported
anyformer export checkpoint exported --family llama
"""


def run(
    model: Annotated[
        Path,
        typer.Argument(
            help="The directory of a run, a checkpoint or a Hugging Face model.", metavar="RUN|CHECKPOINT|DIRECTORY"
        ),
    ],
    out: Annotated[Path, typer.Argument(help="The new directory to write.", metavar="OUT")],
    family: Annotated[
        str | None,
        typer.Option(
            help="Export as this model type of transformers. By default the first that expresses the architecture exactly.",
            metavar="MODEL_TYPE",
        ),
    ] = None,
) -> None:
    """Write a model as a directory that transformers loads: configuration, weights, tokenizer, and the digest of each.

    transformers' AutoModel classes load it without remote code. An architecture that no model type of transformers
    expresses is written in anyformer's own layout, which they load after `import anyformer.huggingface.auto`.
    """
    from anyformer import huggingface
    from anyformer.files import check_directory
    from anyformer.loading import load, trained_length

    check_directory(out)
    loaded, tokenizer = load(model)
    chosen = huggingface.export(loaded, out, tokenizer=tokenizer, model_type=family, length=trained_length(model))
    extra = "; load it after `import anyformer.huggingface.auto`" if chosen is huggingface.own() else ""
    print(f"{out}: {chosen.model_type}{extra}")
    (name, *_) = huggingface.read_config(out)("architectures", None) or ("AutoModel",)
    home = "anyformer.huggingface.auto" if chosen is huggingface.own() else "transformers"
    print(f"try next, in Python:\n  from {home} import {name}\n  model = {name}.from_pretrained({str(out)!r})")
