"""A training that `anyformer plan` lays out: its options, and the run of the fastest layout that --write writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.amounts import tokens

if TYPE_CHECKING:
    from anyformer.model import Architecture
    from anyformer.plan import Plan
    from anyformer.planning.planner import Planned

_option = partial(typer.Option, rich_help_panel="Training")


@dataclass(frozen=True)
class TrainingOptions:
    """The options as they are typed."""

    batch_tokens: Annotated[
        int | None,
        _option(
            help="Tokens of one step, as in 4M. k and M are 1,024 and 1,048,576. By default about 4M.",
            parser=tokens,
            metavar="TOKENS",
        ),
    ] = None
    show: Annotated[int, _option(help="Show this many of the fastest layouts.", min=1, metavar="COUNT")] = 5
    write: Annotated[
        Path | None,
        _option(
            help="Write a run of the fastest layout that a run can have today into this new file, and say the line that starts "
            "it.",
            metavar="RUN.toml",
        ),
    ] = None
    data: Annotated[
        list[str] | None,
        _option(
            help="The text of the run that --write writes; repeat it for more. By default python-stdlib, the text that comes "
            "with Python.",
            metavar="PATH",
        ),
    ] = None

    def written(self, architecture: Architecture, planned: Planned, plan: Plan) -> str | None:
        """Write the run of the fastest layout, if asked; gives the line that starts it."""
        if self.write is None:
            return None
        from anyformer.describe import to_toml
        from anyformer.training.planned_run import line_of, run_of

        layout, paths = planned.fastest[0].layout, tuple(self.data or ("python-stdlib",))
        run = run_of(architecture, layout, length=planned.length, paths=paths, plan=plan)
        self.write.write_text(to_toml(run), encoding="utf-8")
        line = line_of(run, str(self.write), planned.machine.hardware.domain)
        return f"\nwritten: {self.write}, {run.steps:,} updates on {', '.join(paths)}; start it with\n  {line}"
