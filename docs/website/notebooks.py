"""A notebook as a page: its text, its code, and what the code printed and drew when it was last run."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PICTURES = {"image/svg+xml": "svg", "image/png": "png"}
MARKS = re.compile(r"\x1b\[[0-9;]*m")


def text(notebook: Path, out: Path, words: Callable[[str], str]) -> str:
    """The Markdown of a notebook, its prose changed by `words`; its pictures, and itself, are written into a directory."""
    out.mkdir(parents=True, exist_ok=True)
    shutil.copy(notebook, out)
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    parts = [part for number, cell in enumerate(cells) for part in _cell(cell, f"{notebook.stem}-{number}", out, words)]
    return "\n\n".join([*parts, f"[This page as a notebook]({notebook.name})\n"])


def _cell(cell: dict[str, Any], name: str, out: Path, words: Callable[[str], str]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield words(source)
        return
    yield f"```python\n{source}\n```"
    printed = ""
    for number, output in enumerate(cell["outputs"]):
        picture = _picture(output.get("data", {}), f"{name}-{number}", out)
        printed += (
            "" if picture else "".join(output["text"] if "text" in output else output["data"]["text/plain"]).rstrip("\n") + "\n"
        )
        if picture:
            yield from (*_printed(printed), picture)
            printed = ""
    yield from _printed(printed)


def _picture(data: dict[str, Any], name: str, out: Path) -> str:
    """The link to a picture, which is written; empty if there is none."""
    for kind, suffix in PICTURES.items():
        if kind in data:
            picture = "".join(data[kind])
            file = out / f"{name}.{suffix}"
            file.write_bytes(picture.encode() if suffix == "svg" else base64.b64decode(picture))
            return f"![]({file.name})"
    return ""


def _printed(text: str) -> Iterator[str]:
    if text.strip():
        yield f"```text\n{MARKS.sub('', text).strip()}\n```"
