"""What `anyformer plan --write` does with the layout that it found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyformer.model import Architecture
    from anyformer.plan import Plan
    from anyformer.planning.planner import Planned


@dataclass(frozen=True)
class RunFile:
    """The file of a run that does not exist yet, and its text."""

    file: Path
    paths: tuple[str, ...]

    def write(self, architecture: Architecture, planned: Planned, plan: Plan) -> str:
        """Write the run of the fastest layout; gives the line that starts it."""
        from anyformer.describe import to_toml
        from anyformer.training.planned_run import line_of, run_of

        layout = planned.fastest[0].layout
        run = run_of(architecture, layout, length=planned.length, paths=self.paths, plan=plan)
        self.file.write_text(to_toml(run), encoding="utf-8")
        line = line_of(run, str(self.file), planned.machine.hardware.domain)
        return f"\nwritten: {self.file}, {run.steps:,} updates on {', '.join(self.paths)}; start it with\n  {line}"
