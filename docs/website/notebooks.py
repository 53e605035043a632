"""A notebook as a page: its text, its code, and what the code printed and drew when it was last run."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PICTURES = {"image/svg+xml": "svg", "image/png": "png"}
MARKS = re.compile(r"\x1b\[[0-9;]*m")


def write(notebook: Path, out: Path) -> None:
    """Write the page of a notebook, its pictures, and the notebook itself, into a directory."""
    out.mkdir(parents=True, exist_ok=True)
    (out / notebook.name).write_bytes(notebook.read_bytes())
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    text = "\n\n".join(part for number, cell in enumerate(cells) for part in _cell(cell, f"{notebook.stem}-{number}", out))
    (out / f"{notebook.stem}.md").write_text(f"{text}\n\n[This page as a notebook]({notebook.name})\n", encoding="utf-8")


def _cell(cell: dict[str, Any], name: str, out: Path) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source.replace("](../", "](../")
        return
    yield f"```python\n{source}\n```"
    for number, output in enumerate(cell["outputs"]):
        if output["output_type"] == "stream":
            yield _printed("".join(output["text"]))
        else:
            yield _shown(output["data"], f"{name}-{number}", out)


def _shown(data: dict[str, Any], name: str, out: Path) -> str:
    for kind, suffix in PICTURES.items():
        if kind in data:
            picture = "".join(data[kind])
            file = out / f"{name}.{suffix}"
            file.write_bytes(picture.encode() if suffix == "svg" else base64.b64decode(picture))
            return f"![]({file.name})"
    return _printed("".join(data["text/plain"]))


def _printed(text: str) -> str:
    return f"```text\n{MARKS.sub('', text).rstrip()}\n```"
