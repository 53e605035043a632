"""`report.html`: one file that asks for no other; light and dark, for phone and paper, for keyboards and screen readers."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from anyformer.files import write_text
from anyformer.pictures.style import FAINT, HUES, INK, STYLE
from anyformer.studies.charts import pictures
from anyformer.studies.findings import Findings
from anyformer.studies.size_words import Table
from anyformer.studies.words import (
    differences_table,
    further,
    how,
    quality_table,
    seeds_table,
    tuning_table,
    verdict,
)

PAGE = "report.html"
TEMPLATE = Path(__file__).with_name("report.html.jinja")
DARK = ("#8fb8e8", "#f0a95c", "#4fc7b8", "#ee8570", "#b79be0", "#c5e0f5")
"""`HUES` on a dark ground, in their order."""
GRID = STYLE["grid.color"]


def write_page(findings: Findings, path: Path) -> None:
    """Write the page."""
    write_text(path, page(findings))


def page(findings: Findings) -> str:
    """The text of the page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False)
    environment.filters["marked"] = marked
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    more = list(further(findings))
    return template.render(
        findings=findings, verdict=verdict, figure=figure, table=table, colours=list(zip(HUES, DARK, strict=True)),
        sections=("answer", "pictures", "numbers", *(title.lower() for title, _, _ in more), "method", "trials"),
        pictures=drawn(findings), tables=_tables(findings), differences=differences_table(findings),
        how=how(findings), further=more,
        arm_of={name: _arm_of(name, findings) for name in findings.runs},
        runs={name: tomli_w.dumps(run) for name, run in findings.runs.items()},
    )  # fmt: skip


def _arm_of(trial: str, findings: Findings) -> str:
    """The arm of a trial by the name of its directory; nothing of one that a gate left out."""
    return next((arm.name for arm in findings.arms if trial.startswith(f"{arm.name}-")), "")


def _tables(findings: Findings) -> list[tuple[str, Table]]:
    less = "less" if findings.better == "lower" else "more"
    confidence = f"{1 - findings.alpha:.0%}"
    found = [
        (
            f"Held-out {findings.metric}, of which {less} is better, with its {confidence} interval over seeds, beside costs",
            quality_table(findings),
        ),
        (f"{findings.metric} with every seed", seeds_table(findings)),
    ]
    tuned = tuning_table(findings)
    return found if tuned is None else [*found, (f"{findings.metric} at every value of {findings.tuned_path}", tuned)]


def marked(text: str) -> Markup:
    """Text whose `**bold**` and `code` are marked up, all else escaped."""
    safe = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html.escape(text))
    return Markup(re.sub(r"`(.+?)`", r"<code>\1</code>", safe))


def table(caption: str, rows: Table) -> Markup:
    """A table with heads of columns and rows; it scrolls where it is too wide, by keyboard too."""
    head, body = rows
    heads = "".join(f'<th scope="col">{marked(cell)}</th>' for cell in head)
    lines = "".join(
        f'<tr data-arm="{html.escape(name)}"><th scope="row">{marked(name)}</th>'
        f"{''.join(f'<td{_class(cell)}>{marked(cell)}</td>' for cell in cells)}</tr>"
        for name, *cells in body
    )
    said = html.escape(caption)
    return Markup(
        f'<div class="scroll" role="region" tabindex="0" aria-label="{said}"><table><caption>{said}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _class(cell: str) -> str:
    """Cells of numbers, intervals with them, stay in one line."""
    return ' class="number"' if re.match(r"[-+*]*\d", cell) else ""


def figure(picture: tuple[str, str]) -> Markup:
    """A picture under its caption; a screen reader reads the caption, and the numbers in the tables."""
    said, svg = picture
    return Markup(f'<figure role="group">{svg}<figcaption>{html.escape(said)}.</figcaption></figure>')


def drawn(findings: Findings) -> list[tuple[str, str]]:
    """What each picture shows, and the picture as SVG to stand in a page."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    found = []
    for name, (said, draw, size) in pictures(findings).items():
        with rc_context({**STYLE, "svg.fonttype": "none"}):
            shown = Figure(figsize=size, layout="constrained")
            draw(shown)
            text = io.StringIO()
            shown.savefig(text, format="svg", transparent=True, metadata=_NO_METADATA)
        found.append((said, inline(text.getvalue(), name, said)))
    return found


_NO_METADATA: Mapping[str, Any] = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def inline(svg: str, name: str, said: str) -> str:
    """An SVG file as an element of a page: scalable, its identifiers its own, its colours those of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(xlink:href="|url\()#', rf"\1#{name}-", svg)
    for number, hue in enumerate(HUES):
        svg = svg.replace(hue, f"var(--c{number})")
    for ink in (INK, "#000000"):
        svg = svg.replace(ink, "var(--ink)")
    svg = svg.replace(FAINT, "var(--faint)").replace(GRID, "var(--grid)")
    return svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(said)}"', 1)
