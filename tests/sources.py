"""What the files of the package import and define: each is parsed once in a process, for all tests that ask."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "anyformer"


@dataclass(frozen=True)
class Function:
    """A function or method: its lines from `def` to the end, with parameters and docstring, and how many parameters it has."""

    name: str
    lines: int
    parameters: int


@dataclass(frozen=True)
class Defined:
    """What a file imports, wherever in it, as (module, name) with an empty name where the module itself is; what it defines."""

    imports: tuple[tuple[str, str], ...]
    functions: tuple[Function, ...]
    classes: tuple[tuple[str, int], ...]
    """Names and lines of all classes, inner ones too."""


@cache
def defined(path: Path) -> Defined:
    return defined_in(path.read_text(encoding="utf-8"))


def defined_in(text: str) -> Defined:
    imports, functions, classes = [], [], []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import():
                imports += [(alias.name, "") for alias in node.names]
            case ast.ImportFrom(module=str(module)):
                imports += [(module, alias.name) for alias in node.names]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                taken = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                functions.append(Function(node.name, (node.end_lineno or 0) - node.lineno + 1, len(taken)))
            case ast.ClassDef():
                classes.append((node.name, node.lineno))
    return Defined(tuple(imports), tuple(functions), tuple(classes))
