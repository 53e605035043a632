"""Code that comes with a model: read as text and as a syntax tree, and never run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_LARGEST = 2_000_000
"""Characters of a file beyond which it is no code of a model."""


@dataclass(frozen=True)
class CodeUse:
    """One place that asks for a key: the file, the line, and what stands there."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


@dataclass(frozen=True)
class RemoteCode:
    """What the Python files of a directory say of keys: `uses` by key, in order; `unread`: file -> why it could not be read."""

    uses: Mapping[str, tuple[CodeUse, ...]] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    def of(self, key: str) -> tuple[CodeUse, ...]:
        """The places that ask for a key, those of the model before those of its configuration."""
        return tuple(sorted(self.uses.get(key, ()), key=lambda use: ("configuration" in use.file, use.file, use.line)))


def read_code(directory: Path) -> RemoteCode:
    """The Python files of a directory, read and never run; a file that cannot be parsed is named with the reason."""
    uses: dict[str, list[CodeUse]] = {}
    unread: dict[str, str] = {}
    files = sorted(directory.glob("*.py"))
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
            if len(text) > _LARGEST:
                raise ValueError(f"has {len(text):,} characters")
            tree = ast.parse(text)
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
            unread[path.name] = f"{type(error).__name__}: {error}"
            continue
        lines = text.splitlines()
        for key, line in _asked(tree):
            uses.setdefault(key, []).append(CodeUse(path.name, line, lines[line - 1].strip()[:100]))
    return RemoteCode({key: tuple(dict.fromkeys(found)) for key, found in uses.items()}, unread, tuple(p.name for p in files))


def _asked(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(key, line) wherever a configuration is asked for a key: `config.key`, `getattr(config, "key")`, `config["key"]`."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=inner, attr=key, lineno=line) if _is_config(inner):
                yield key, line
            case ast.Call(func=ast.Name(id="getattr"), args=[inner, ast.Constant(value=str(key)), *_], lineno=line) if (
                _is_config(inner)
            ):
                yield key, line
            case ast.Subscript(value=inner, slice=ast.Constant(value=str(key)), lineno=line) if _is_config(inner):
                yield key, line
            case ast.Call(
                func=ast.Attribute(value=inner, attr="get"), args=[ast.Constant(value=str(key)), *_], lineno=line
            ) if _is_config(inner):
                yield key, line


def _is_config(node: ast.expr) -> bool:
    """Whether an expression is called a configuration: `config`, `self.config`, `text_config`."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.endswith("config") or name in ("cfg", "args", "params")
