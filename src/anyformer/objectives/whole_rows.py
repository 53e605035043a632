"""Data that objectives refuse which make a source and a target of a row."""

from __future__ import annotations

from anyformer.data import Data, Text


def needs_whole_rows(objective: str, data: Data) -> None:
    """Refuse text whose documents are kept apart within a row."""
    if isinstance(data, Text) and data.isolate:
        raise ValueError(
            f"the {objective} objective makes a source and a target of each row, whatever documents it holds, and data.isolate "
            "would keep these apart: leave it out"
        )
