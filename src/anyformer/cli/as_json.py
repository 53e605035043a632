"""Answers of commands as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any


def print_json(value: Any) -> None:
    """Print a value as JSON: dataclasses as tables, paths as text, numbers that are not finite as null."""
    print(json_of(value))


def json_of(value: Any) -> str:
    """What `print_json` prints."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False)


def plain(value: Any) -> Any:
    """Data that JSON has."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
