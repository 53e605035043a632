"""The command of a short recovery: the changed model learns from the one that it was made of."""

from __future__ import annotations

import shlex
from pathlib import Path


def recovery(teacher: Path, student: Path, data: str | None) -> str:
    """One command that trains the checkpoint `student` to give what `teacher` gives, on `data`."""
    settings = (f"start_from={student}", "objective.kind=distillation", f"objective.teacher={teacher}", "steps=200")
    words = ["anyformer", "train", str(student), "--data", data or "TEXT"]
    return shlex.join([*words, *(word for setting in settings for word in ("--set", setting))])
