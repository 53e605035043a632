"""What every code cell of a notebook prints and gives, run from top to bottom in this process: a file of JSON, a list of texts
for every cell.

python notebook_cells.py NOTEBOOK FILE
"""

from __future__ import annotations

import ast
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import nbformat
from IPython.lib.pretty import pretty


def said(source: str, names: dict[str, Any]) -> list[str]:
    """What a cell prints, and the value of an expression that ends it."""
    tree, printed, value = ast.parse(source), io.StringIO(), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
    with redirect_stdout(printed):
        exec(compile(tree, source, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), source, "eval"), names)
    return [text for text in (printed.getvalue(), "" if value is None else pretty(value)) if text]


def main() -> None:
    notebook, file = map(Path, sys.argv[1:])
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    file.write_text(json.dumps([said(source, names) for source in cells]), encoding="utf-8")


if __name__ == "__main__":
    main()
