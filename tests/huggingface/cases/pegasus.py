"""Pegasus."""

from __future__ import annotations

from huggingface.cases.bart import both

CASES = both("pegasus")
