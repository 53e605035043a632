"""Runs the notebooks of `docs/notebooks`, and writes what they print and draw into them.

python docs/make_notebooks.py [NAME ...]

Outputs that differ from machine to machine stand in cells with the tag `measured`; the tests run every notebook and hold it to
its other outputs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).with_name("notebooks")
MEASURED = "measured"
SECONDS = 300


def executed(notebook: Path, place: Path) -> Any:
    """The notebook after it was run from top to bottom in a directory, without what was said on standard error."""
    made = nbformat.read(notebook, as_version=4)
    where = {"metadata": {"path": str(place)}}
    NotebookClient(made, timeout=SECONDS, startup_timeout=SECONDS, coalesce_streams=True, resources=where).execute()
    for cell in made.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [_tidy(each, place) for each in cell.outputs if each.get("name") != "stderr"]
    made.metadata = {"kernelspec": made.metadata["kernelspec"], "language_info": {"name": "python"}}
    return made


def _tidy(output: Any, place: Path) -> Any:
    """An output as text or as a picture, which says nothing of where it was made."""
    if output.output_type == "stream":
        output["text"] = output["text"].replace(f"{place}/", "")
    elif "text/html" in output.data:  # coloured lines, as text too
        output.data = {"text/plain": output.data["text/plain"].replace(f"{place}/", "")}
    return output


def said(cell: Any) -> list[str]:
    """What a cell printed and gave, as text."""
    return [
        each["text"] if each.output_type == "stream" else each.data.get("text/plain", "") for each in cell.get("outputs", ())
    ]


def main() -> None:
    """Run the notebooks that are named, or all."""
    for notebook in [NOTEBOOKS / f"{name}.ipynb" for name in sys.argv[1:]] or sorted(NOTEBOOKS.glob("*.ipynb")):
        with TemporaryDirectory() as place:
            made = executed(notebook, Path(place))
        nbformat.write(made, notebook)
        print(notebook)


if __name__ == "__main__":
    main()
