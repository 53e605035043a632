"""The names of something new: of its class, of its kind and file, and in words."""

from __future__ import annotations

import builtins
import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass
from typing import Self

from anyformer.describe import UserError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")
_WORD = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z0-9]+")
"""A word of a name in CamelCase: `RMSNorm` has two, `Mamba2` one."""


@dataclass(frozen=True)
class Spellings:
    """One name in its spellings."""

    snake: str
    """Of its kind and of its file: `gated_average`."""
    camel: str
    """Of its class: `GatedAverage`."""

    @classmethod
    def of(cls, given: str, suffix: str = "") -> Self:
        """From CamelCase or snake_case; `suffix`: a word that the class's name ends with, and its kind does not have."""
        if not _NAME.fullmatch(given):
            raise UserError(
                f"{given!r} is no name of a class: take ASCII letters, digits and single underscores, as in GatedAverage or "
                "gated_average"
            )
        bare = given.removesuffix(suffix).removesuffix(f"_{suffix.lower()}") or given
        words = [word for piece in bare.split("_") for word in _WORD.findall(piece)]
        snake = "_".join(word.lower() for word in words)
        if keyword.iskeyword(snake) or keyword.issoftkeyword(snake) or snake in dir(builtins):
            raise UserError(f"{given!r} is a word of Python's own: take another name")
        camel = "".join(word[0].upper() + word[1:] for word in words)
        return cls(snake, camel + suffix)

    @property
    def words(self) -> str:
        """In words: `gated average`."""
        return self.snake.replace("_", " ")


def check_module(name: str) -> None:
    """Refuse the name of a file that Python would take for another module."""
    if name in sys.stdlib_module_names or name in sys.modules or importlib.util.find_spec(name) is not None:
        raise UserError(f"a module called {name!r} is there already, and a plug-in is imported by its name: take another one")
