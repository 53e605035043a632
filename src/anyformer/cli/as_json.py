"""Answers of commands as JSON."""

from __future__ import annotations

import json
from typing import Any

from anyformer.describe.plain_data import plain


def print_json(value: Any) -> None:
    """Print a value as JSON: dataclasses as tables, paths as text, numbers that are not finite as null."""
    print(json_of(value))


def json_of(value: Any) -> str:
    """What `print_json` prints."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False)
