"""A change as a command line has it: `PATH=VALUE`."""

from __future__ import annotations

from tomllib import TOMLDecodeError
from typing import Any

from anyformer.describe.amounts import with_amounts
from anyformer.describe.errors import DescriptionError
from anyformer.describe.foreign import toml_data


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
        return path.strip(), with_amounts(right)
    except ValueError:
        raise DescriptionError(f"{path.strip()}: {right[:40]}... is no value: too many digits, or nested too deeply") from None
