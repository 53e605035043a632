"""Files that a command writes a description into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyformer.describe import Value


def check_description(path: Path) -> None:
    """Raise `UserError`, before any work, if a file for a description has another format or exists.

    A picture may be overwritten; a description may have been written by hand.
    """
    from anyformer.describe import UserError
    from anyformer.files import check_file

    if path.suffix not in (".toml", ".json"):
        raise UserError(f"{path}: a description is written as TOML or JSON: give a name that ends in .toml or .json")
    check_file(path)
    if path.exists():
        raise UserError(f"{path}: exists, and may have been written by hand; remove it or give another name")


def write_description(path: Path, value: Value) -> None:
    """Write a description in the format of the file's suffix."""
    from anyformer.describe import to_json, to_toml
    from anyformer.files import write_text

    write_text(path, to_json(value) if path.suffix == ".json" else to_toml(value))
