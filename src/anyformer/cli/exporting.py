"""`anyformer export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anyformer.cli.arguments import Model

EXAMPLES = """
anyformer export runs/2026-01-01-120000 exported
anyformer export checkpoint exported --family llama
"""


def run(
    model: Model,
    out: Annotated[Path, typer.Argument(help="The new directory to write.", metavar="OUT")],
    family: Annotated[
        str | None,
        typer.Option(
            help="Export as this model type of transformers. By default the first that expresses the architecture exactly.",
            metavar="MODEL_TYPE",
        ),
    ] = None,
) -> None:
    """Write a model as a directory that transformers loads: configuration, weights, tokenizer, and a digest of each file.

    The AutoModel classes of transformers load it without remote code. An architecture that no model type of transformers
    expresses is written in anyformer's own layout, which they load after `import anyformer.huggingface.auto`.
    """
    from anyformer import huggingface
    from anyformer.files import check_directory
    from anyformer.loading import load, trained_length

    check_directory(out)
    loaded, tokenizer = load(model)
    exported = huggingface.export(loaded, out, tokenizer=tokenizer, model_type=family, length=trained_length(model))
    is_own = exported is huggingface.own()
    print(f"{out}: {exported.model_type}{'; load it after `import anyformer.huggingface.auto`' if is_own else ''}")
    (name, *_) = huggingface.read_config(out)("architectures", None) or ("AutoModel",)
    home = "anyformer.huggingface.auto" if is_own else "transformers"
    print(f"try next, in Python:\n  from {home} import {name}\n  model = {name}.from_pretrained({str(out)!r})")
