"""What stands above a picture: an architecture by its name, with who published it and when."""

from __future__ import annotations

from pathlib import Path


def titled(what: str, changes: list[str] | None = None, *, tiny: bool = False) -> str:
    """`gpt2 (OpenAI, 2019)`; of a path its last part; then what the options changed."""
    from anyformer.catalogue import listing

    entry = next((entry for entry in listing() if entry.name == what), None)
    named = Path(what).name if entry is None else f"{what} ({entry.organisation}, {entry.year})"
    return ", ".join([named, *(["tiny"] if tiny else []), *(changes or [])])
