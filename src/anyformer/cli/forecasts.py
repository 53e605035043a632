"""The page of `anyformer plan --mtbf`: what failures make of a training run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from anyformer.cli.aligned import aligned
from anyformer.cli.pages import Item, Paragraph
from anyformer.costs.rows import PageLine

if TYPE_CHECKING:
    from anyformer.planning.forecast import Forecast
    from anyformer.planning.goodput import Spent

PURPOSES = {
    "useful": "new progress",
    "saving": "saving",
    "lost": "work lost since the last save",
    "detection": "noticing failures",
    "restart": "restarting and loading",
    "waiting": "waiting for repairs",
}
DAY = 86400.0
UNITS = ((2 * DAY, DAY, "days"), (3600.0, 3600.0, "h"), (60.0, 60.0, "min"))
"""From how many seconds on a unit is used, the seconds of one, its name."""


def page(found: Forecast, tokens: int) -> Iterator[Item]:
    """The answer, where the time goes, when to save, the simulated runs, and the nodes to keep."""
    yield from (PageLine(""), Paragraph(_answer(found, tokens)), PageLine(""))
    rows = [(words, getattr(found.spent, name)) for name, words in PURPOSES.items()]
    cells = [(words, f"{share:.2%}", lasting(share * found.wall)) for words, share in rows]
    yield from map(PageLine, aligned([("time", "share", "in all"), *cells], (False, True, True)))
    yield PageLine("")
    yield from map(Paragraph, (_interval(found), _simulated(found), *_causes(found), _spares(found), _assumed(found)))


def lasting(seconds: float) -> str:
    """A time in the largest unit of which it is one at least, two where it is days."""
    factor, unit = next(((factor, unit) for least, factor, unit in UNITS if seconds >= least), (1.0, "s"))
    return f"{seconds / factor:,.3g} {unit}"


def _answer(found: Forecast, tokens: int) -> str:
    job = found.job
    return (
        f"With failures: one per {lasting(job.mtbf)} of the job, {found.spent.failures * DAY:,.3g} a day, "
        f"{found.failures:,.3g} in all, at {job.failures.mtbf / 3600:,.6g} hours per accelerator ({job.devices:,}). "
        f"Goodput {found.spent.goodput:.1%}: {lasting(found.wall)} for {tokens / 1e12:,.6g} trillion tokens instead of "
        f"{lasting(found.work)}."
    )


def _interval(found: Forecast) -> str:
    steps = round(found.interval / found.step)
    text = (
        f"Save every {lasting(found.interval)} ({steps:,} step{'s' if steps > 1 else ''}); by Young's formula every "
        f"{lasting(found.young)}, by Daly's {lasting(found.daly)}"
    )
    if found.best is None:
        return f"{text}."
    gain = found.best.goodput / found.best.at_given - 1
    return f"{text}, in simulated runs best every {lasting(found.best.interval)}, where goodput is {gain:.2%} higher."


def _simulated(found: Forecast) -> str:
    from anyformer.planning.simulation import goodput

    if not found.simulated:
        return f"Not simulated: a run meets {found.failures:,.0f} failures, too many to follow."
    ratio, error = goodput(found.simulated)
    low, high = _walls(found.simulated)
    return (
        f"{len(found.simulated)} simulated runs: goodput {ratio:.2%} (standard error {error:.2%}); nine of ten take "
        f"{lasting(low)} to {lasting(high)}."
    )


def _walls(runs: tuple[Spent, ...]) -> tuple[float, float]:
    """The seconds that a run in twenty stays below, and those that a run in twenty goes beyond."""
    walls = sorted(run.total for run in runs)
    tail = len(walls) // 20
    return walls[tail], walls[-1 - tail]


def _causes(found: Forecast) -> Iterator[str]:
    causes = sorted(found.job.failures.causes, key=lambda cause: -cause.share)
    if causes:
        daily = found.spent.failures * DAY
        yield "Failures a day by cause: " + ", ".join(f"{cause.name} {cause.share * daily:.2g}" for cause in causes) + "."


def _spares(found: Forecast) -> str:
    told = found.job.failures
    enough = f"{found.enough:,} spare nodes keep the waiting for repairs below 0.1 %, at {lasting(told.repair)} for one"
    if told.spares is None:
        return f"Counted as if a node were always at hand: {enough}."
    soon = "" if found.wall > 10 * told.repair else ", as in a run much longer than repairs; this one begins with all nodes"
    return f"{told.spares:,} spare nodes: the job waits {found.spent.waiting:.2%} of the time{soon}; {enough}."


def _assumed(found: Forecast) -> str:
    told, saves = found.job.failures, found.job.saves
    behind = f", on the storage {lasting(saves.write)} after it began" if found.job.late else ""
    return (
        f"Counted on: devices that fail independently, at any time, whatever their age; noticed after {lasting(told.detect)}; "
        f"started again in {lasting(told.restart)}; a checkpoint of {found.checkpoint / 1e12:.3g} TB, for which training waits "
        f"{lasting(saves.pause)}{behind}, and which is read in {lasting(saves.load)}. Not counted: steps slowed by saves or by "
        "ailing devices, spikes of the loss, planned stops."
    )


def data(found: Forecast) -> dict[str, Any]:
    """The forecast as plain data for JSON: bytes, seconds, and shares of the wall time."""
    from anyformer.planning.simulation import goodput

    job, told = found.job, found.job.failures
    daily = found.spent.failures * DAY
    shares = {name: getattr(found.spent, name) for name in PURPOSES}
    simulated = None
    if found.simulated and found.best:
        ratio, error = goodput(found.simulated)
        low, high = _walls(found.simulated)
        simulated = {
            "runs": len(found.simulated),
            "goodput": ratio,
            "standard_error": error,
            "wall": {"5%": low, "95%": high},
            "goodput_by_interval": [{"interval": interval, "goodput": share} for interval, share in found.best.tried],
        }
    return {
        "goodput": found.spent.goodput,
        "shares": shares,
        "wall": found.wall,
        "wall_without_failures": found.work,
        "failures": found.failures,
        "failures_per_day": daily,
        "mtbf": {"accelerator": told.mtbf, "job": job.mtbf},
        "interval": {
            "seconds": found.interval,
            "steps": round(found.interval / found.step),
            "young": found.young,
            "daly": found.daly,
            "simulated": found.best and found.best.interval,
        },
        "checkpoint_bytes": found.checkpoint,
        "save": asdict(job.saves),
        "detect": told.detect,
        "restart": told.restart,
        "repair": told.repair,
        "spares": told.spares,
        "enough_spares": found.enough,
        "failures_per_day_by_cause": {cause.name: cause.share * daily for cause in told.causes},
        "simulated": simulated,
    }
