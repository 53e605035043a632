"""A training that `anyformer plan` lays out: its options, and the run of the fastest layout that --write writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.amounts import metric, tokens
from anyformer.cli.elsewhere import fetched

if TYPE_CHECKING:
    from anyformer.model import Architecture
    from anyformer.plan import Plan
    from anyformer.planning.planner import Planned
    from anyformer.training.run import Run

_option = partial(typer.Option, rich_help_panel="Training")
TOKENS = 10**12
"""Tokens of the run by default: days are per trillion tokens elsewhere too."""


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
    tokens: Annotated[
        int | None,
        _option(
            "--tokens",
            help="Tokens of the whole run, as in 15.6T: its days and dollars are of so many. By default 1T, 10^12.",
            parser=metric,
            metavar="TOKENS",
        ),
    ] = None
    show: Annotated[int, _option(help="Show this many of the fastest layouts.", min=1, metavar="COUNT")] = 5
    write: Annotated[
        Path | None,
        _option(
            help="Write a run of the fastest layout that a run can have today into this new file, and say the line that starts "
            "it. Of a run that is planned it keeps all but mesh, batch, pieces, recomputation, and a --length.",
            metavar="RUN.toml",
        ),
    ] = None
    data: Annotated[
        list[str] | None,
        _option(
            help="The text of the run that --write writes for an architecture; repeat it for more. By default python-stdlib, "
            "the text that comes with Python. A run that is planned keeps its own.",
            metavar="PATH",
        ),
    ] = None

    @property
    def whole(self) -> int:
        """Tokens of the whole run."""
        return self.tokens or TOKENS

    def written(self, architecture: Architecture, planned: Planned, plan: Plan, given: Run | None = None) -> str | None:
        """Write the run of the fastest layout, if asked; gives the line that starts it. `given`: the run that was planned, of
        which stays what the layout does not decide."""
        if self.write is None:
            return None
        from anyformer.describe import to_toml
        from anyformer.training.planned_run import laid_out, line_of, replaced, run_of

        layout, paths = planned.fastest[0].layout, tuple(self.data or ("python-stdlib",))
        if given is None:
            run = run_of(architecture, layout, length=planned.length, paths=paths, plan=plan)
            said = f"{run.steps:,} updates on {', '.join(paths)}"
        else:
            own = given.plan.but(precision=plan.precision)
            run = laid_out(given.but(smaller=(), architecture=architecture, length=planned.length, plan=own), layout)
            changes = replaced(given, run)
            said = f"the run as it was but for {', '.join(changes)}" if changes else "the run as it was"
        self.write.write_text(to_toml(run), encoding="utf-8")
        line = line_of(run, str(self.write), planned.machine.hardware.domain)
        return f"\nwritten: {self.write}, {said}; start it with\n  {line}"


def run_named(what: str, asked: TrainingOptions) -> Run | None:
    """The run that an argument names by its file, its directory or its URL; None for what names an architecture alone."""
    from anyformer.describe import UserError
    from anyformer.hub.names import is_hub
    from anyformer.resolving import RUN, is_run

    if is_hub(what):
        return None
    path = fetched(what)
    if not is_run(path):
        return None
    if asked.data:
        raise UserError(f"--data: {what} is a run, which names its own data: leave --data out, or change data in its file")
    from anyformer.training import load_run

    return load_run(path / RUN if path.is_dir() else path)
