"""The functions of a Python file: signature, body and docstring apart, read from its syntax tree."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anyformer.data.sources import SourceFile

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
LONGEST_CODE, LONGEST_TEXT = 2000, 600
"""Characters of a function, and of a paragraph, that is taken."""


@dataclass(frozen=True)
class Function:
    """A function of the file: its line, its name as one writes it (`json.JSONEncoder.encode`) and its last word, its
    arguments as one line, and its source in parts.

    `signature` ends with the colon, `body` is what follows the docstring, both as they stand but without the indentation of the
    whole; `docstring` is empty if there is none.
    """

    line: int
    name: str
    short: str
    arguments: str
    signature: str
    body: str
    docstring: str

    @property
    def code(self) -> str:
        """The function without its docstring."""
        return self.signature + self.body

    @property
    def paragraph(self) -> str:
        """The first paragraph of the docstring on one line."""
        return " ".join(self.docstring.split("\n\n")[0].split())

    @property
    def sentence(self) -> str:
        """The first sentence of the docstring."""
        return re.split(r"(?<=[.!?])\s+(?=[A-Z\"'`(])", self.paragraph)[0]

    @property
    def told(self) -> bool:
        """Whether the docstring begins with a paragraph of prose: three words or more, not too long, no example or list."""
        text = self.paragraph
        plain = text[:1].isalpha() and ">>>" not in text and not re.search(r"[:=]$|--|->|\s\|\s", text)
        return plain and len(text.split()) >= 3 and len(text) <= LONGEST_TEXT


def text_of(source: SourceFile) -> str | None:
    """The text of a Python file in the encoding that it declares; None if it cannot be read."""
    try:
        with tokenize.open(source.on_disk) as file:
            return file.read()
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None


def tree_of(text: str) -> ast.Module | None:
    """The syntax tree; None for files that are templates or for another version."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of unknown escapes in strings
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def functions(source: SourceFile) -> Iterator[Function]:
    """The functions and methods of a file that have a body besides a docstring, in order; nested ones are left out."""
    text = text_of(source)
    tree = tree_of(text) if text is not None else None
    if text is None or tree is None:
        return
    lines = text.split("\n")
    for name, node in _defined(tree, (module_name(source.on_disk),)):
        if (found := _function(lines, name, node)) is not None:
            yield found


def module_name(path: Path) -> str:
    """`json.decoder`: how a file of the standard library is imported."""
    parts = [path.stem] if path.stem != "__init__" else []
    while (path := path.parent) and (path / "__init__.py").is_file():
        parts.insert(0, path.name)
    return ".".join(parts)


def _defined(tree: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[str, FunctionNode]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, FunctionNode):
            yield ".".join((*names, node.name)), node
        elif isinstance(node, ast.stmt | ast.ExceptHandler):
            yield from _defined(node, (*names, node.name) if isinstance(node, ast.ClassDef) else names)


def _function(lines: list[str], name: str, node: FunctionNode) -> Function | None:
    """None for a function on one line, without a body of its own, or too long to be taken."""
    docstring = ast.get_docstring(node)
    body = node.body[1:] if docstring is not None else node.body
    if not body or node.body[0].lineno == node.lineno or (len(body) == 1 and isinstance(body[0], ast.Pass)):
        return None
    first, last = node.body[0], body[-1].end_lineno
    begin = (first.end_lineno or 0) if docstring is not None else first.lineno - 1
    if docstring is None and isinstance(first, FunctionNode | ast.ClassDef) and first.decorator_list:
        begin = first.decorator_list[0].lineno - 1
    signature = lines[node.lineno - 1 : first.lineno - 1] if docstring is not None else lines[node.lineno - 1 : begin]
    whole = textwrap.dedent("\n".join([*signature, *lines[begin:last]]))
    if len(whole) > LONGEST_CODE or not re.match(r"(async\s+)?def\s", whole):
        return None
    shared = docstring is not None and body[0].lineno <= (first.end_lineno or 0)
    if shared:
        return None
    split = whole.split("\n")
    head, tail = "\n".join(split[: len(signature)]), "\n".join(split[len(signature) :])
    said = inspect.cleandoc(docstring) if docstring else ""
    return Function(node.lineno, name, node.name, ast.unparse(node.args), head.rstrip() + "\n", tail.strip("\n") + "\n", said)
