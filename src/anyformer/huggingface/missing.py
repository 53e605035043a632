"""Model types of transformers that are not read, by the mechanism that is missing."""

from __future__ import annotations

from collections.abc import Mapping

MISSING: Mapping[str, str] = {}
