"""`anyformer compare`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyformer.cli import arguments
from anyformer.cli.aligned import table, wrapped
from anyformer.cli.arguments import Compile, Json
from anyformer.cli.as_json import print_json
from anyformer.cli.options import grouped
from anyformer.cli.terminal import tell

if TYPE_CHECKING:
    from anyformer.studies import Study
    from anyformer.studies.comparing import Expected, StudyForecast
    from anyformer.studies.findings import Findings

EXAMPLES = """
anyformer compare recipes/studies/norms.toml --dry-run
anyformer compare recipes/studies/norms.toml --out runs/norms
anyformer compare recipes/studies/norms.toml --set base.steps=600 --jobs 1
anyformer compare recipes/studies/norms.toml --engine slurm --engine-set slurm_partition=long
"""


@dataclass(frozen=True)
class TrialOptions:
    """Where trials run, and how many at once; no number depends on it."""

    jobs: Annotated[
        int | None,
        typer.Option(
            help="Trials side by side, at most. By default as many as cores and memory allow; no number depends on it.",
            min=1,
            metavar="COUNT",
        ),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(
            help="Run trials as Ray tasks (ray) or as one Slurm array by submitit (slurm), which all see this directory.",
            metavar="ray|slurm",
        ),
    ] = None
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--engine-set",
            help="An option of the engine: of ray.init, as in address=auto, or of submitit, as in slurm_partition=long, "
            "timeout_min=600 or cluster=local. Repeat it for more.",
            metavar="NAME=VALUE",
        ),
    ] = None


@grouped
def run(
    study: Annotated[
        Path, typer.Argument(help="The TOML file of a study: base, arms, matching, tuning, seeds.", metavar="STUDY.toml")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The study's directory; what is finished there is not run again. By default runs/ and the file's name.",
            metavar="DIRECTORY",
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Change the value of the study at this path, as in --set base.steps=500 --set 'seeds=[1,2,3]'. Repeat it for "
            "more changes.",
            metavar="PATH=VALUE",
        ),
    ] = None,
    *,
    trials: TrialOptions,
    compile: Compile = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Train nothing: list the trials, the matched sizes, predicted memory and time."),
    ] = False,
    json: Json = False,
) -> None:
    """Compare architectures, or any changes to a run: matched sizes, equal budgets, tuned alike, several seeds, with intervals.

    Every arm is trained with every seed, and compared with the base seed by seed. The answer is "better", "worse" or "cannot
    tell", and how many seeds would tell. In the study's directory, report.html, report.md and report.json show quality beside
    costs.

    Ctrl-C saves every trial that runs; the same command goes on, and so does a second process beside the first.
    """
    tell(f"anyformer compare {study}: loading torch")
    from anyformer.studies import forecast, load_study
    from anyformer.studies.findings import REPORT

    value = load_study(study, arguments.compiled(compile, arguments.assigned(changes), "base.plan.compile"))
    if dry_run:
        expected = forecast(value, jobs=trials.jobs)
        if json:
            print_json(data(expected))
        else:
            show(expected)
        return
    directory = Path("runs") / study.stem if out is None else out
    found = _compared(value, directory, trials)
    if json:
        print((directory / REPORT).read_text(encoding="utf-8"), end="")
        return
    tell_findings(found, directory)


def _compared(study: Study, directory: Path, trials: TrialOptions) -> Findings:
    """What a study found; where it is stopped, the command ends."""
    from rich.console import Console

    from anyformer.studies import compare
    from anyformer.training import Stopped

    console, options = Console(stderr=True), arguments.assigned(trials.options)
    try:
        return compare(study, directory, jobs=trials.jobs, console=console, engine=trials.engine, options=options)
    except Stopped as stopped:
        tell(f"anyformer: {stopped}")
        raise typer.Exit(stopped.exit_code) from None


def tell_findings(found: Findings, directory: Path) -> None:
    """Print the verdicts, what else was found, and where the report is."""
    from anyformer.studies.words import further, verdict

    print(found.title)
    for each in found.comparisons:
        print("\n".join(wrapped(verdict(each, found).replace("**", ""), 100, "  ")))
    for _, said, _ in further(found):
        for line in said:
            print("\n".join(wrapped(line.replace("**", "") + ".", 100, "  ")))
    for note in found.notes:
        print("\n".join(wrapped(f"Note: {note}.", 100, "  ")))
    print(f"report: {directory / 'report.html'}")


def data(found: StudyForecast) -> dict[str, Any]:
    """What a study would take, arm by arm."""
    arms = [
        {
            "name": each.arm.name, "size": each.arm.size, "parameters": each.parameters, "updates": each.arm.run.steps,
            "tokens": each.arm.tokens, "trials": each.trials, "bytes": each.bytes, "seconds_of_a_trial": each.seconds,
            "matched": each.arm.moved,
        }
        for each in found.arms
    ]  # fmt: skip
    return {"title": found.study.title, "arms": arms, "side_by_side": found.slots, "seconds": found.seconds}


def show(found: StudyForecast) -> None:
    """Print what a study would take."""
    from anyformer.costs.figures import in_time, scaled

    columns = (
        ("arm", lambda each: each.arm.name if each.arm.size == 1 else f"{each.arm.name}, at {each.arm.size:g}"),
        ("parameters", lambda each: f"{each.parameters:,}"),
        ("updates", lambda each: f"{each.arm.run.steps:,}"),
        ("tokens", lambda each: f"{each.arm.tokens:,}"),
        ("trials", lambda each: str(each.trials)),
        ("memory", lambda each: f"{scaled(each.bytes).strip()}B"),
        ("a trial", lambda each: in_time(each.seconds)),
    )
    print(found.study.title)
    print("\n".join(table(columns, found.arms, {head for head, _ in columns[1:]})))
    for each in found.arms:
        for line in matched(each):
            print("\n".join(wrapped(line, 100, "  ")))
    if found.study.match is not None and found.study.match.timed:
        print("  sizes are as written: seconds of an update are measured, and arms resized, when the study begins")
    trials = sum(each.trials for each in found.arms)
    more = "; a best value at an end of the grid adds more" if found.study.tuning is not None else ""
    print(
        f"{trials} trials, {found.slots} side by side (threads = {found.study.threads}): about {in_time(found.seconds)} of "
        f"updates{more}"
    )


def matched(each: Expected) -> list[str]:
    """What matching made of an arm, in words."""
    return [f"{each.arm.name}: {each.arm.moved}"] if each.arm.moved is not None else []
