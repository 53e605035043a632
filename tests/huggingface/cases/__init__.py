"""Tiny configurations, one file per family group: some variant should move every key that a family reads."""

from __future__ import annotations

import importlib
from pathlib import Path

CASES = [
    case
    for path in sorted(Path(__file__).parent.glob("[!_]*.py"))
    for case in importlib.import_module(f"huggingface.cases.{path.stem}").CASES
]
