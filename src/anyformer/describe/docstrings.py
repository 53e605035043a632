"""The docstrings under the fields of descriptions, read from their source when a schema or a page asks for them.

Pydantic can read them when a class is made (`use_attribute_docstrings`), which takes as long as all else that it does then.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from threading import Lock

_PARSING = Lock()
"""Python 3.11's parser fails in two threads at once ("AST constructor recursion depth mismatch")."""


@cache
def field_docstrings(kind: type) -> Mapping[str, str]:
    """The docstring under each field of a class and of its bases, by the field's name; empty where there is no source."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        found |= _own(base)
    return found


@cache
def _own(kind: type) -> Mapping[str, str]:
    try:
        with _PARSING:
            made = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError):
        return {}
    assert isinstance(made, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(made.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def first_sentence(kind: type) -> str:
    """The first sentence of a class's docstring, on one line and without its formula."""
    text = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    return text.split(": ")[0].rstrip(".")
