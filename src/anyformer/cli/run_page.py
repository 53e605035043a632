"""The page of a run that is watched: where it is, its losses, its use of the machine, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anyformer.cli.text_chart import chart
from anyformer.costs.figures import in_time, scaled

if TYPE_CHECKING:
    from rich.console import RenderableType

    from anyformer.exploring.run_status import RunStatus

NARROWEST = 60
"""Columns of a run's page; more runs than fit stand under one another."""
QUIET = 60.0
"""Seconds without a line after which a run that goes on says so."""


def page(every: Sequence[RunStatus], width: int) -> RenderableType:
    """Runs side by side where they fit."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    across = max(1, min(len(every), width // NARROWEST))
    each = width // across - 2 * (across > 1)
    texts = [Text("\n".join(lines(status, each))) for status in every]
    if across == 1:
        return Group(*(part for text in texts for part in (text, Text(""))))
    grid = Table.grid(padding=(0, 2), expand=True)
    for _ in range(across):
        grid.add_column(ratio=1)
    for at in range(0, len(texts), across):
        grid.add_row(*texts[at : at + across])
        grid.add_row("")
    return grid


def lines(status: RunStatus, width: int) -> list[str]:
    """The page of one run, as wide as `width`."""
    found = [f"{status.name}: {status.state}{f' ({status.reason})' if status.reason else ''}"]
    found += [f"{label:<12}{text}" for label, text in _facts(status) if text]
    losses = [(row["step"], row["loss"]) for row in status.updates if isinstance(row.get("loss"), float)]
    held = [(row["step"], row["loss"]) for row in status.evaluations if isinstance(row.get("loss"), float)]
    drawn = chart([("*", losses), ("o", held)], width, max(status.step, 1))
    return [*found, *([*drawn, f"{'':12}loss of * updates, o evaluations"] if drawn else [])]


def _facts(status: RunStatus) -> Iterator[tuple[str, str]]:
    """Labels, and what there is to say: nothing of figures that the newest line has not."""
    yield "step", _progress(status)
    newest, usage = (status.updates[-1] if status.updates else {}), status.usage
    yield "loss", _number("{:.4f}", newest.get("loss"))
    yield "validation", _validation(status)
    norm = _number("{:.3g}", newest.get("gradient_norm"))
    yield "rate", _number("{:.3g}", newest.get("learning_rate")) + (f", gradient norm {norm}" if norm else "")
    yield (
        "speed",
        _joined(
            _number("{:,.0f} tokens/s", status.tokens_per_second),
            _number("{:,.0f} per device", usage.get("tokens_per_second_per_device")),
            _number("MFU {:.1%}", usage.get("mfu")),
            _number("HFU {:.1%}", usage.get("hfu")),
        ),
    )
    memory = usage.get("memory")
    yield "memory", f"{scaled(memory)}B" if memory else ""
    shares = ("communication", "data", "saving")
    yield "time in", _joined(*(_number(f"{name} {{:.1%}}", usage.get(name)) for name in shares))
    yield "processes", _joined(*(_process(name, usage.get(name)) for name in ("slowest", "fastest")))
    if status.checkpoint is not None:
        step, ago = status.checkpoint
        yield "checkpoint", f"step {step:,}, {in_time(ago)} ago"
    yield "happened", _joined(*(f"{count} {kind}" for kind, count in status.happened.items()))
    if not status.ended and status.silence is not None and status.silence > QUIET:
        yield "no line for", in_time(status.silence)


def _progress(status: RunStatus) -> str:
    if status.steps is None:
        return f"{status.step:,}"
    share = status.step / status.steps
    left = "" if status.ended or not status.left else f", {in_time(status.left)} of updates left"
    return f"{status.step:,} of {status.steps:,} ({share:.0%}){left}"


def _validation(status: RunStatus) -> str:
    held = [row for row in status.evaluations if isinstance(row.get("loss"), float)]
    if not held:
        return ""
    best = min(held, key=lambda row: row["loss"])
    return f"{held[-1]['loss']:.4f} at step {held[-1]['step']:,}, best {best['loss']:.4f} at step {best['step']:,}"


def _process(name: str, found: Mapping[str, Any] | None) -> str:
    return f"{name} rank {found['rank']} on {found['host']} {found['own']:.2f}" if found else ""


def _number(form: str, value: object) -> str:
    return form.format(value) if isinstance(value, int | float) else ""


def _joined(*texts: str) -> str:
    return ", ".join(text for text in texts if text)
