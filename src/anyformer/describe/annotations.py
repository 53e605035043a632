"""Annotations as types, evaluated once: pydantic evaluates those of every base class again for each class beneath it."""

from __future__ import annotations

import sys
from functools import cache
from types import CodeType
from typing import Any, ClassVar


def evaluated(of: type) -> dict[str, Any]:
    """The annotations of a class, those that are written as strings evaluated by the names that its body sees.

    A `ClassVar[...]` is `ClassVar`: what it holds is nothing to pydantic. One with a name that is not there yet, or that only a
    function around the class knows, stays a string: pydantic knows how.
    """
    known, own = vars(sys.modules[of.__module__]), {**vars(of), of.__name__: of}
    return {name: _type(each, known, own) for name, each in vars(of).get("__annotations__", {}).items()}


def _type(annotation: Any, known: dict[str, Any], own: dict[str, Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    if annotation.startswith("ClassVar["):
        return ClassVar
    try:
        return eval(_compiled(annotation), known, own)
    except NameError:
        return annotation


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "<annotation>", "eval")
