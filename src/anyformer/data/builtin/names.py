"""Lines of code cut into tokens, each labelled with what it is by Python's own tokenizer and syntax tree; of
the modules that are one file, which are lines enough.

Labels: keyword, number, string, operator, and of names: function (being defined), class (being defined), parameter, argument
(named in a call), call (what is called), attribute, module (in an import) and variable.
"""

from __future__ import annotations

import ast
import io
import keyword
import sysconfig
import tokenize
from collections.abc import Iterator
from pathlib import Path

from anyformer.data.builtin.code import text_of, tree_of
from anyformer.data.builtin.source import Builtin, Values, standard_library
from anyformer.data.sources import SourceFile

_FEWEST, _MOST, _LONGEST = 5, 48, 40
"""Tokens of a line, and characters of a token, that are taken."""
_LAYOUT = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING})
Place = tuple[int, int]
"""Line from 1, and byte in it from 0, as a syntax tree counts."""


def alone() -> list[SourceFile]:
    """The modules of the standard library that are in no package."""
    return [source for source in standard_library() if source.on_disk.parent == Path(sysconfig.get_path("stdlib"))]


def labels_of(tree: ast.Module) -> tuple[dict[Place, str], dict[Place, str]]:
    """Labels of names by where they begin, and of attributes by where they end."""
    begins: dict[Place, str] = {}
    ends: dict[Place, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Name():
                begins.setdefault(_begin(node), "variable")
            case ast.arg():
                begins[_begin(node)] = "parameter"
            case ast.keyword(arg=str()):
                begins[_begin(node)] = "argument"
            case ast.Attribute():
                ends.setdefault(_end(node), "attribute")
            case ast.Call(func=ast.Name() as called):
                begins[_begin(called)] = "call"
            case ast.Call(func=ast.Attribute() as called):
                ends[_end(called)] = "call"
    return begins, ends


def _begin(node: ast.Name | ast.arg | ast.keyword) -> Place:
    return node.lineno, node.col_offset


def _end(node: ast.Attribute) -> Place:
    return node.end_lineno or 0, node.end_col_offset or 0


def _names(source: SourceFile) -> Iterator[Values]:
    """Every logical line of the file once, the first time that it stands there."""
    text = text_of(source)
    tree = tree_of(text) if text is not None else None
    if text is None or tree is None:
        return
    begins, ends = labels_of(tree)
    line: list[tokenize.TokenInfo] = []
    seen: set[tuple[str, ...]] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.NEWLINE:
            if token.type not in _LAYOUT:
                line.append(token)
            continue
        words = tuple(each.string for each in line)
        if _FEWEST <= len(words) <= _MOST and max(map(len, words)) <= _LONGEST and words not in seen:
            labels = _labels(line, begins, ends)
            if all(labels):
                seen.add(words)
                yield line[0].start[0], {"words": list(words), "labels": labels}
        line = []


def _labels(line: list[tokenize.TokenInfo], begins: dict[Place, str], ends: dict[Place, str]) -> list[str | None]:
    """The label of each token; None for a name of which the tree says nothing."""
    labels: list[str | None] = []
    before = ""
    imports = line[0].string in ("import", "from")
    for token in line:
        labels.append(_label(token, before, imports, begins, ends))
        before = token.string
    return labels


def _label(
    token: tokenize.TokenInfo, before: str, imports: bool, begins: dict[Place, str], ends: dict[Place, str]
) -> str | None:
    if token.type == tokenize.NUMBER:
        return "number"
    if token.type == tokenize.OP:
        return "operator"
    if token.type != tokenize.NAME:
        return "string"  # from Python 3.12 on in three parts where values are put in
    if keyword.iskeyword(token.string):
        return "keyword"
    if before in ("def", "class"):
        return "function" if before == "def" else "class"
    if imports:
        return "module"
    return begins.get(_place(token.start, token.line)) or ends.get(_place(token.end, token.line))


def _place(start: tuple[int, int], line: str) -> Place:
    """A token's place in bytes; its own counts characters, and `line` may hold several physical lines."""
    row, column = start
    return row, column if line.isascii() else len(line[:column].encode())


NAMES = Builtin(
    "python-names",
    "Labels of words: lines of code, each token a keyword, call, variable, number, ...",
    _names,
    alone,
)
