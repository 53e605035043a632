"""Fills in the tables of docs/scale.md from benchmarks/results/scale.json: `python docs/make_scale.py`.

What stands between `<!-- NAME -->` and `<!-- end of NAME -->` is written here; a test holds the page to its result.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from page_text import filled, prose, table, write

from anyformer.cli.forecasts import lasting
from anyformer.planning.outer_steps import PUBLISHED_LOSSES

ROOT = Path(__file__).parents[1]
DOCS = Path(__file__).parent
PAGES = (DOCS / "scale.md", DOCS / "reference" / "scale.md")
RESULT = ROOT / "benchmarks" / "results" / "scale.json"
Record = Mapping[str, Any]


def runs(record: Record) -> str:
    """Printed and predicted rates of published runs."""
    rows = [
        (
            row["who"],
            row["name"],
            f"{row['accelerators']:,} {row['hardware']}",
            f"{row['layout']}, {row['micro_batches'][0]} x {row['micro_batches'][1]}",
            f"{row['printed']:,.4g}",
            f"{row['predicted']:,.4g}",
            f"{row['error']:+.0%}",
            f"{row['printed_mfu']:.0%}",
            f"{row['predicted_mfu']:.0%}",
            "fitted" if row["fitted"] else "test",
            row["source"],
        )
        for row in record["runs"]
    ]
    heads = (
        "run",
        "model",
        "accelerators",
        "layout",
        "printed",
        "predicted",
        "error",
        "MFU",
        "MFU predicted",
        "half",
        "source",
    )
    errors = [abs(row["error"]) for row in record["runs"]]
    apart = [abs(row["error"]) for row in record["runs"] if not row["fitted"]]
    said = f"Median error {statistics.median(errors):.0%}, and {statistics.median(apart):.0%} of the {len(apart)} of the test half."
    return f"{table(heads, rows)}\n{prose(said)}"


def goodputs(record: Record) -> str:
    """Goodput, printed and by the formula."""
    rows = [
        (
            row["name"],
            f"{row['devices']:,}",
            f"{row['daily']:.3g}",
            "60% observed" if row["printed_above"] is None else f"over {row['printed_above']:.0%}",
            f"{row['formula']:.1%}",
            row["spares"],
        )
        for row in record["goodputs"]
    ]
    return table(("run", "accelerators", "failures a day", "reported", "by the formula", "spare nodes that are enough"), rows)


def energies(record: Record) -> str:
    """Energy, printed and by the formula."""
    rows = [(row["name"], f"{row['hours']:,}", row["printed"], f"{row['ours']:.4g}") for row in record["energies"]]
    return table(("run", "accelerator-hours", "MWh printed", "MWh here"), rows)


def pods(record: Record) -> str:
    """PaLM's two pods."""
    found = record["pods"]
    return prose(
        f"PaLM stands in two pods. Each pair of their hosts exchanges about {found['printed_gb']} GB of gradients in a step; here "
        f"{found['gib']:g} GiB, with gradients in bf16. Two pods have {found['printed_ratio']} times the throughput of one; here "
        f"{found['ratio']:g} times, since the backward pass hides transfers here, and did not there, as its authors say."
    )


def losses(record: Record) -> str:
    """Losses of outer steps, as published."""
    rows = [
        (
            each.title,
            f"{each.parameters / 1e9:g} B",
            f"{each.outer.every}, {each.outer.bits} bits",
            each.measure,
            what,
            f"{synchronous:.2f}",
            f"{outer:.2f}",
            each.source,
        )
        for each in PUBLISHED_LOSSES.values()
        for what, synchronous, outer in each.rows
    ]
    heads = ("way", "parameters", "inner steps", "measure", "of", "every step", "outer steps", "as published")
    return table(heads, rows)


def number(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ways(rows: Iterable[Record]) -> Iterable[tuple[object, ...]]:
    for row in rows:
        outer = "" if row["outer"] is None else f", every {row['outer']['every']}"
        yield (
            f"{row['way']}{outer}",
            row["layout"],
            f"{row['step']:.3g} s",
            f"{row['busy']:.1%}",
            f"{row['mfu']:.1%}",
            f"{row['goodput']:.1%}",
            number(row["days"]),
            number(row["gwh"]),
            number(row["dollars"] / 1e6),
        )


_HEADS = ("exchange", "layout of a replica", "step", "links busy", "MFU", "goodput", "days", "GWh", "M$")


def scale(record: Record) -> str:
    """The three ways by the number of accelerators."""
    rows = [
        (f"{row['accelerators']:,}{' (extrapolated)' * row['extrapolated']}", f"{row['regions']} x {row['pods']}", *cells)
        for row, cells in zip(record["scale"], _ways(record["scale"]), strict=True)
    ]
    return table(("accelerators", "regions x pods", *_HEADS), rows)


def links(record: Record) -> str:
    """The three ways by what leaves a region."""
    rows = [(f"{row['gbits']:,.0f}", *cells) for row, cells in zip(record["links"], _ways(record["links"]), strict=True)]
    return table(("Gbit/s out of a region", *_HEADS), rows)


def checkpoints(record: Record) -> str:
    """What checkpoints take of the storage."""
    rows = [
        (
            f"{row['accelerators']:,}{' (extrapolated)' * row['extrapolated']}",
            row["way"],
            row["replicas"],
            lasting(row["interval"]),
            lasting(row["write"]),
            f"{row['storage_share']:.1%}",
        )
        for row in record["scale"]
        if row["way"] != "Streaming DiLoCo"
    ]
    return table(("accelerators", "exchange", "checkpoints at once", "every", "written in", "share of the storage"), rows)


SECTIONS: Mapping[str, Callable[[Record], str]] = {
    function.__name__: function for function in (runs, pods, goodputs, energies, losses, scale, links, checkpoints)
}


def pages(record: Record) -> dict[Path, str]:
    """Both pages with their tables."""
    return filled(PAGES, {name: function(record) for name, function in SECTIONS.items()})


if __name__ == "__main__":
    write(pages(json.loads(RESULT.read_text(encoding="utf-8"))))
