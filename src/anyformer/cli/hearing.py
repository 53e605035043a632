"""`anyformer generate --audio`: transcripts of files of sound."""

from __future__ import annotations

import json as jsons
from collections.abc import Mapping, Sequence
from pathlib import Path

from anyformer.cli.text_on_screen import shown
from anyformer.describe import UserError


def check_alone(others: Mapping[str, bool]) -> None:
    """Refuse what a transcript does not have, by the name of the option that asks for it."""
    if wrong := [name for name, there in others.items() if there]:
        raise UserError(f"--audio prints what is said in a file, by the likeliest token at each place: leave {wrong[0]} out")


def heard(model: Path, files: Sequence[Path], device: str, *, batch: int, most: int | None, json: bool) -> None:
    """Print the transcript of every file of sound: the text, of several behind a line with the file's name."""
    from anyformer.evaluation import listener, open_subject

    texts = listener(open_subject(model, device=device)).transcripts(files, batch=batch, most=most)
    for file, said in zip(files, texts, strict=True):
        if json:
            print(jsons.dumps({"audio": str(file), "text": said}, ensure_ascii=False), flush=True)
            continue
        if len(files) > 1:
            print(f"--- {file}")
        print(shown(said), flush=True)
