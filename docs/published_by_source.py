"""What `published_sources.py` found, as tables and as a picture: shares of one half of the sources, errors of the other."""

from __future__ import annotations

import json
import statistics
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from page_text import table

from anyformer.pictures.style import FAINT, HUES, drawing

RESULT = Path(__file__).parents[1] / "benchmarks" / "results" / "published_sources.json"
PICTURE = Path(__file__).parent / "pictures" / "published-sources.svg"
SIZES = (3, 10, 30, 100)
CLASSES = ("below 3 G", "3 to 10 G", "10 to 30 G", "30 to 100 G", "100 G and more")
"""Classes of the parameters of a token, and their ends in thousand millions."""
Row = Mapping[str, Any]
HALVES = ("fitted", "test")


def size_class(active: float) -> str:
    """Of so many thousand millions of parameters."""
    return CLASSES[bisect(SIZES, active)]


def kernel(row: Row) -> str:
    """What takes most of a step's time: products of whole matrices or of experts, by format; or attention that writes scores."""
    if row["attention"] == "scores written":
        return "scores written"
    return f"{'experts' if row['mixture'] else 'dense'}, {row['format']}"


def read() -> list[Row]:
    """Every rate that was judged, with its generation; none where nothing has been."""
    record = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {"generations": []}
    return [{**row, "generation": each["generation"]} for each in record["generations"] for row in each["rows"]]


PANELS: Mapping[str, Callable[[Row], str]] = {
    "generation": lambda row: row["generation"],
    "products, attention": kernel,
    "parameters of a token": lambda row: size_class(row["active"]),
}
GOALS: Sequence[tuple[str, float, Callable[[Row], bool]]] = (
    ("all", 0.05, lambda row: True),
    ("mixtures of experts", 0.08, lambda row: row["mixture"]),
    ("products in 8 bits", 0.10, lambda row: row["format"] != "bf16"),
    ("Blackwell", 0.10, lambda row: row["generation"] == "blackwell"),
)
KEPT = 0.9
"""Share of the test half that an interval of nine in ten should hold."""


def medians(rows: Iterable[Row]) -> tuple[int, int, float, float]:
    """(rates, sources, median absolute error of the rates, of the sources' medians)."""
    of: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        of.setdefault((row["generation"], row["source"]), []).append(abs(row["error"]))
    every = [error for errors in of.values() for error in errors]
    return len(every), len(of), statistics.median(every), statistics.median(map(statistics.median, of.values()))


def shares() -> str:
    """The fitted shares of every generation, and the errors of both halves."""
    record, rows, lines = json.loads(RESULT.read_text(encoding="utf-8")), read(), []
    for each in record["generations"]:
        told = ", ".join(f"{name} {share:.2f}" for name, share in each["shares"].items())
        cells = []
        for half in HALVES:
            rates, sources, median, of_sources = medians(
                row for row in rows if row["generation"] == each["generation"] and row["half"] == half
            )
            cells += [f"{sources}, {rates}", f"{median:.0%}", f"{of_sources:.0%}"]
        lines.append([each["generation"], told, *cells])
    head = ["sources, rates", "median", "of sources"]
    return table(["generation", "shares", *(f"{half}: {each}" for half in HALVES for each in head)], lines)


def interval(rows: Sequence[Row], *, mixture: bool) -> tuple[float, float, float]:
    """(least, most, share of the test half between): the errors that hold nine in ten of the fitted half."""
    fitted = sorted(row["error"] for row in rows if row["half"] == "fitted" and row["mixture"] is mixture)
    test = [row["error"] for row in rows if row["half"] == "test" and row["mixture"] is mixture]
    least, most = (fitted[round(share * (len(fitted) - 1))] for share in (0.05, 0.95))
    return least, most, sum(least <= error <= most for error in test) / len(test)


def goals() -> str:
    """What was aimed at, on the half that nothing was fitted to, and whether it holds: by rates and by sources."""
    rows, lines = read(), []
    for name, goal, asked in GOALS:
        rates, sources, median, of_sources = medians(row for row in rows if row["half"] == "test" and asked(row))
        holds = "yes" if max(median, of_sources) <= goal else "no"
        lines.append([name, f"{goal:.0%}", f"{sources}, {rates}", f"{median:.1%}", f"{of_sources:.1%}", holds])
    for name, mixture in (("interval, dense", False), ("interval, mixtures", True)):
        least, most, kept = interval(rows, mixture=mixture)
        holds = "yes" if kept >= KEPT else "no"
        lines.append([f"{name}: {least:+.0%} to {most:+.0%}", f"{KEPT:.0%} inside", "", f"{kept:.0%} inside", "", holds])
    return table(["of the test half", "goal", "sources, rates", "median error", "of sources", "holds"], lines)


def draw(path: Path = PICTURE) -> None:
    """Every error, by generation, by kernel and by size: a mark each, and the median of each half."""
    rows = read()
    with drawing(path, 7.6, 6.4) as figure:
        groups = {title: sorted({of(row) for row in rows}, key=_order) for title, of in PANELS.items()}
        axes = figure.subplots(len(groups), 1, sharex=True, height_ratios=[len(names) for names in groups.values()])
        for at, (title, names) in zip(axes, groups.items(), strict=True):
            for half, hue, off in zip(HALVES, HUES, (-0.18, 0.18), strict=False):
                of = [[row["error"] for row in rows if row["half"] == half and PANELS[title](row) == name] for name in names]
                x = [100 * error for errors in of for error in errors]
                y = [i + off for i, errors in enumerate(of) for _ in errors]
                at.plot(x, y, "|", color=hue, markersize=7, alpha=0.6, label=half)
                for i, errors in enumerate(of):
                    if errors:
                        at.plot(100 * statistics.median(errors), i + off, "D", color=hue, markersize=4)
            at.set_yticks(range(len(names)), names)
            at.set_ylim(len(names) - 0.5, -0.5)
            at.axvline(0, color=FAINT, linewidth=0.8)
            at.set_title(title)
            at.grid(axis="x")
        axes[0].legend(loc="lower right", ncols=2)
        axes[-1].set_xlabel("predicted tokens per second over reported, less one, in %")


def _order(name: str) -> tuple[int, str]:
    return (CLASSES.index(name) if name in CLASSES else 0, name)


def section(introduction: str) -> str:
    """The part of the page; nothing where nothing has been judged."""
    if not RESULT.exists():
        return ""
    most = json.loads(RESULT.read_text(encoding="utf-8"))["most"]
    picture = f"![Errors by generation, by kernel and by size](pictures/{PICTURE.name})"
    return "\n\n".join([introduction.format(most=most).strip("\n"), shares().strip("\n"), goals().strip("\n"), picture]) + "\n"
