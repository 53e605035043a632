"""A change as a command line has it: `PATH=VALUE`."""

from __future__ import annotations

import re
from tomllib import TOMLDecodeError
from typing import Any

from anyformer.describe.amounts import with_amounts
from anyformer.describe.errors import DescriptionError
from anyformer.describe.foreign import toml_data

_LITERAL_OR_WORD = re.compile(r"""("[^"]*"|'[^']*')|(?<![\w.-])([A-Za-z_][\w.-]*)(?=\s*[,}\]])""")
"""What stands in quotes, or a word that is a value."""
_OWN_WORDS = {"true", "false", "none", "inf", "nan"}


def parse_assignment(text: str) -> tuple[str, Any]:
    """`path=value` from a command line: the value is TOML, a bare word is a string, `none` removes an optional part;
    numbers may be written as people do (`Amount`)."""
    path, equals, right = text.partition("=")
    if not equals or not path.strip():
        raise DescriptionError(f"expected PATH=VALUE, got {text!r}")
    right = right.strip()
    if right == "none":
        return path.strip(), None
    try:
        return path.strip(), toml_data(f"value = {right}")["value"]
    except TOMLDecodeError:
        given = with_amounts(right)
        if given == right and (meant := _quoted(right)):
            raise DescriptionError(
                f"{path.strip()}: words inside a table need quotes, as in '{path.strip()}={meant}'; got {right[:60]!r}"
            ) from None
        return path.strip(), given
    except ValueError:
        raise DescriptionError(f"{path.strip()}: {right[:40]}... is no value: too many digits, or nested too deeply") from None


def _quoted(text: str) -> str | None:
    """A table with its bare words in quotes; None where this makes no TOML of it."""
    if not text.startswith("{"):
        return None

    def put(found: re.Match[str]) -> str:
        literal, word = found[1], found[2]
        if word is not None:
            return word if word in _OWN_WORDS else f'"{word}"'
        return f'"{literal[1:-1]}"' if literal[0] == "'" and not {'"', "\\"} & set(literal) else literal

    meant = _LITERAL_OR_WORD.sub(put, text)
    return None if with_amounts(meant) == meant else meant
