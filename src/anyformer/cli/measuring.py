"""`anyformer cost NAME --measure`: predictions beside what the built model does."""

from __future__ import annotations

import json as jsons
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import typer

from anyformer.cli.aligned import aligned

if TYPE_CHECKING:
    from anyformer.cli.cost_options import WorkloadOptions
    from anyformer.costs.counted import CountComparison
    from anyformer.measuring.measure import Measurement
    from anyformer.model import Architecture
    from anyformer.plan import Plan

Device = Literal["cpu", "cuda"]
BATCH, LENGTH = 2, 128
"""Defaults of --batch and --length in a measurement: small enough to run anywhere."""


def run(
    name: str,
    architecture: Architecture,
    asked: WorkloadOptions,
    plan: Plan,
    device: Device | None,
    *,
    json: bool,
) -> None:
    """Measure one architecture and print the table; exit with 1 if a prediction that must be exact is not."""
    import torch

    from anyformer.describe import UserError
    from anyformer.measuring.measure import measure
    from anyformer.training.measured_hardware import calibrated_now

    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: torch sees no CUDA device here; leave --device out, or install torch with CUDA")
    batch, length = asked.batch, asked.length
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    longest = min((stack.max_length for stack in architecture.stacks.values() if stack.max_length is not None), default=None)
    if longest is not None and length is not None and length > longest:
        raise UserError(f"{name}: its position table ends at {longest}, and --length is {length}: give {longest} or less")
    with _progress() as progress:
        measured = measure(
            architecture,
            batch=BATCH if batch is None else batch,
            length=min(each for each in (LENGTH if length is None else length, longest) if each is not None),
            source_length=asked.source_length,
            plan=plan,
            device=place,
            hardware=lambda: calibrated_now(place),
            progress=progress,
        )
    if json:
        print(jsons.dumps({"name": name, **measured.data()}, indent=2))
    else:
        show(name, measured)
    if not measured.exact:
        raise typer.Exit(1)


def show(name: str, measured: Measurement) -> None:
    """Print the table, under what was measured and above its notes."""
    typer.echo(f"{name}: {measured.title}")
    ran = f"{measured.reduced}, as many as fit" if measured.reduced else "the whole model"
    typer.echo(f"parameters, FLOPs and decode state: counted on the whole model; memory and time: of {ran}, eager\n")
    rows = [("", "predicted", "measured", "difference", "")]
    for one in measured.comparisons:
        label = f"  {one.component}" if one.component else one.quantity
        rows.append((label, _amount(one, one.predicted), _amount(one, one.measured), _difference(one), _verdict(one)))
    head, *lines = aligned(rows, (False, True, True, True, False))
    typer.echo("\n".join([typer.style(head, bold=True), *lines]))
    for note in measured.notes:
        typer.secho(note, fg=typer.colors.YELLOW)


def _amount(one: CountComparison, value: float) -> str:
    """A quantity to its last digit; a time rounded."""
    from anyformer.costs.figures import clock

    return clock(value) if one.unit == "s" else f"{value:,.0f} {one.unit}".strip()


def _difference(one: CountComparison) -> str:
    from anyformer.costs.roofline import EAGER_SECONDS

    if one.unit == "s":
        return f"x {one.predicted / one.measured:.2f}" if one.predicted >= EAGER_SECONDS else "-"
    return "0" if one.predicted == one.measured else f"{one.difference:+.2%}"


def _verdict(one: CountComparison) -> str:
    """Sums are always judged in words; a component only if it must be exact and is not."""
    from anyformer.costs.roofline import EAGER_SECONDS

    if one.tolerance is None:
        small = one.unit == "s" and one.predicted < EAGER_SECONDS
        why = f"too small to predict: below {EAGER_SECONDS * 1e3:.0f} ms the overhead of eager operations decides"
        return "" if one.component else why if small else "not judged"
    bound = "exact" if one.tolerance == 0 else f"within {one.tolerance:.0%}"
    if one.holds:
        return "" if one.component else bound
    return typer.style(f"should be {bound}", fg=typer.colors.RED)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A bar over the stages, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    from anyformer.measuring.measure import STAGES

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=len(STAGES))
        yield lambda stage: bar.update(task, description=stage, completed=STAGES.index(stage))
