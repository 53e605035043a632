"""What a command refuses is a user's error: one message and an exit code, and never the traceback of any other exception."""

from __future__ import annotations

import ast
import builtins
import importlib
import pkgutil
from pathlib import Path

import pytest
import typer

import anyformer.cli
from anyformer.describe import UserError

FOLDER = Path(anyformer.cli.__file__).parent
FINE = (UserError, typer.Exit, typer.BadParameter, SystemExit, AssertionError)
"""What code of a command may raise: a refusal, an end, or a mistake of our own."""


def raised(path: Path) -> list[tuple[int, str]]:
    """The names that `raise` statements of a file have, each with its line; a re-raised exception has none."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [(node.lineno, node.exc) for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None]
    return [(line, ast.unparse(each.func if isinstance(each, ast.Call) else each)) for line, each in found]


def class_of(name: str, path: Path) -> object:
    """What a name of a module means, also one that a function imports; None of an error that is made or caught there."""
    first, _, rest = name.partition(".")
    names = {**vars(builtins), **vars(importlib.import_module(f"anyformer.cli.{path.stem}"))}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and any((each.asname or each.name) == first for each in node.names):
            names[first] = pkgutil.resolve_name(f"{node.module}.{first}")
    found = names.get(first)
    return getattr(found, rest) if rest else found


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_command_raises_errors_of_users_alone(path):
    for line, name in raised(path):
        found = class_of(name, path)
        if isinstance(found, type):  # else an error that a function made, or that was caught
            assert issubclass(found, FINE), f"{path.name}:{line}: raise a UserError that names the remedy, not {name}"


def test_another_exception_is_found(tmp_path):
    (file := tmp_path / "checking.py").write_text("def run():\n    raise ValueError('no')\n    raise UserError('no')\n")
    assert raised(file) == [(2, "ValueError"), (3, "UserError")]
    assert not issubclass(class_of("ValueError", file), FINE)
