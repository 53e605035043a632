"""What the atlas worked out before, kept from process to process under a digest of the package that worked it out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from anyformer.cache import Cache, contents, digest

KEPT = Cache("atlas", files=50)


def kept(name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `work` gives, as JSON has it: what is kept under this name by the same package, else worked out and kept."""
    try:
        key = digest(["atlas", name, contents()])
    except OSError:  # a package whose files cannot be read is kept nowhere
        key = ""
    found = KEPT.read(key) if key else None
    if isinstance(found, dict):
        return found
    made: dict[str, Any] = json.loads(json.dumps(work()))
    if key:
        KEPT.write(key, made)
    return made
