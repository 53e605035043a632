"""Fills in the tables of docs/failures.md from benchmarks/results/failures.json: `python docs/make_failures.py`.

What stands between `<!-- NAME -->` and `<!-- end of NAME -->` is written here; a test holds the page to its result.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from page_text import filled, prose, table, write

from anyformer.cli.forecasts import lasting
from anyformer.planning.failures import PUBLISHED

ROOT = Path(__file__).parents[1]
DOCS = Path(__file__).parent
PAGES = (DOCS / "failures.md", DOCS / "reference" / "failures.md")
RESULT = ROOT / "benchmarks" / "results" / "failures.json"
Record = Mapping[str, Any]


def agreement(record: Record) -> str:
    """How far simulated goodputs are from those of the formula, in standard errors."""
    apart = [row["apart"] for name in ("intervals", "spares", "scale") for row in record[name] if "apart" in row]
    square = math.sqrt(sum(each * each for each in apart) / len(apart))
    return prose(
        f"In {len(apart)} jobs the simulated goodput is {square:.1f} standard errors from that of the formula "
        f"(root mean square; chance alone makes 1), {max(map(abs, apart)):.1f} at most."
    )


def intervals(record: Record) -> str:
    """Intervals by Young, Daly and simulation."""
    rows = [
        (
            lasting(row["mtbf"]),
            lasting(row["pause"]),
            lasting(row["write"]),
            lasting(row["young"]),
            lasting(row["daly"]),
            lasting(row["best"]),
            f"{row['gain']:.2%}",
            f"{row['formula']:.2%}",
            f"{row['simulated']:.2%} ± {row['error']:.2%}",
        )
        for row in record["intervals"]
    ]
    heads = (
        "job fails once per",
        "pause",
        "stored after",
        "Young",
        "Daly",
        "simulated best",
        "its gain",
        "goodput",
        "simulated",
    )
    late = [row for row in record["intervals"] if row["used"] > row["daly"] * 1.001]
    note = "\n".join(
        prose(
            f"Where a save takes {lasting(row['write'])} and Daly's interval is {lasting(row['daly'])}, a save would not end "
            f"before the next: the interval is then {lasting(row['used'])}."
        )
        for row in late
    )
    return f"{table(heads, rows)}\n{note}"


def spares(record: Record) -> str:
    """The time waiting for nodes."""
    rows = [
        (row["spares"], f"{row['waiting']:.2%}", f"{row['simulated']:.2%}", f"{row['formula']:.1%}") for row in record["spares"]
    ]
    return table(("spare nodes", "waiting, formula", "waiting, simulated", "goodput"), rows)


def lives(record: Record) -> str:
    """Failures and goodput by the shape of lives."""
    rows = [
        (
            row["shape"],
            f"{row['mtbf_hours']:,.0f} h",
            f"{row['failures_per_day']:.3g}",
            f"{row['goodput']:.1%} ± {row['error']:.2%}",
        )
        for same in (False, True)
        for row in record["lives"]
        if row["same"] is same
    ]
    return table(("shape", "mean life", "failures a day", "goodput"), rows)


def scale(record: Record) -> str:
    """Goodput by the number of accelerators, a column for each way."""
    ways = list(dict.fromkeys(row["way"] for row in record["scale"]))
    found = {(row["devices"], row["way"]): row for row in record["scale"]}
    rows = []
    for devices in dict.fromkeys(row["devices"] for row in record["scale"]):
        each = [found[devices, way] for way in ways]
        cells = [f"{row['formula']:.1%}, every {lasting(row['interval'])}" for row in each]
        rows.append((f"{devices:,}", lasting(each[0]["mtbf"]), *cells, each[0]["spares"]))
    return table(("accelerators", "job fails once per", *ways, "spare nodes that are enough"), rows)


def llama(record: Record) -> str:
    """Llama 3 beside its report."""
    run, found = PUBLISHED["llama-3.1-405b"], record["runs"]["llama-3.1-405b"]
    rows = [
        (name, lasting(row["interval"]), f"{row['formula']:.1%}", f"{row['simulated']:.1%} ± {row['error']:.2%}", "over 90 %")
        for name, row in found.items()
        if isinstance(row, dict) and "formula" in row
    ]
    total = run.failures + run.row["planned"]
    faulty = found["faulty_gpu"]
    said = prose(
        f"{run.failures} unexpected interruptions in {run.days} days on {run.devices:,} H100 are one in "
        f"{found['job_hours']:.2f} hours, and {found['mtbf_hours']:,.0f} hours per accelerator. With the defaults "
        f"(noticed after 10 min, started in 5 min) and its storage of 2 TB/s:"
    )
    allowed = prose(
        f"The {total} interruptions, planned ones with them, leave room for {lasting(found['recovery_allowed'])} each from the "
        "failure until training goes on, if goodput is 90 % and saves are in the background."
    )
    printed = prose(
        f"Not explained: its table counts {faulty['count']} faulty GPUs, {faulty['share']:.1%} of {run.failures}, and prints "
        f"{faulty['printed']:.1%}, the share of {faulty['count_printed_share']}. The {run.row['printed']['GPU issues']:.1%} "
        "that the text gives for GPUs is the sum of the printed shares, so that one of the two is wrong there; the counts, "
        "which add up to all, are used here."
    )
    causes = table(
        ("cause", "count", "share", "a node is out (ours)"),
        (
            (name, number, f"{number / run.failures:.1%}", "yes" if repaired else "no")
            for name, number, repaired in run.row["causes"]
        ),
    )
    heads = ("interruptions and saves", "save every", "goodput", "simulated", "reported")
    return "\n".join((said, table(heads, rows), allowed, printed, causes))


def opt(record: Record) -> str:
    """OPT-175B beside its paper and logbook."""
    run, found = PUBLISHED["opt-175b"], record["runs"]["opt-175b"]
    row = run.row
    daily = found["machines_a_day"]
    said = prose(
        f"At least 35 manual restarts and some 70 automatic ones that its authors estimate are {run.failures} failures on "
        f"{run.devices} A100 in {run.days} days: one in {found['job_hours']:.1f} hours, {found['mtbf_hours']:,.0f} hours for "
        f"each accelerator, a quarter of Llama 3's. That is {daily['failures']:.2g} machines a day; the logbook says about "
        f"{daily['reported']}. It also says that the run needs about {row['ideal_days']} days on {row['ideal_devices']:,} "
        f"accelerators if nothing happens: {found['observed']:.0%} of its time was progress. Saving once an hour (assumed), "
        "with our defaults:"
    )
    rows = [
        (name, f"{each['formula']:.1%}", f"{each['simulated']:.1%} ± {each['error']:.2%}")
        for name, each in found.items()
        if isinstance(each, dict) and "formula" in each
    ]
    lost = prose(
        f"What was lost is {lasting(found['lost_per_failure'])} per failure, or {lasting(found['lost_per_restart'])} for each "
        f"of the about {row['restarts']} restarts of its lineage."
    )
    return "\n".join((said, table(("nodes", "goodput", "simulated"), rows), lost))


def clusters(record: Record) -> str:
    """RSC-1: jobs of other sizes by the rate of its nodes."""
    rows = [
        (f"{row['devices']:,}", f"{row['reported']:g} h, {row['how']}", f"{row['ours']:.3g} h")
        for row in record["runs"]["rsc-1"]
    ]
    return table(("accelerators", "reported", "by the rate of nodes"), rows)


SECTIONS: Mapping[str, Callable[[Record], str]] = {
    function.__name__: function for function in (agreement, intervals, spares, lives, scale, llama, opt, clusters)
}


def pages(record: Record) -> dict[Path, str]:
    """Both pages with their tables."""
    return filled(PAGES, {name: function(record) for name, function in SECTIONS.items()})


if __name__ == "__main__":
    write(pages(json.loads(RESULT.read_text(encoding="utf-8"))))
