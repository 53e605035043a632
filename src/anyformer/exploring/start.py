"""What a page has to know before the first question: what was opened, the catalogue, and the words of a query."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

from anyformer import __version__, catalogue
from anyformer.atlas.topic import mechanisms, topics
from anyformer.catalogue.columns import columns
from anyformer.costs.hardware import HARDWARE
from anyformer.dims import LEGEND
from anyformer.exploring.desk import FORMAT, Desk
from anyformer.exploring.question import RATE, WORDS, PricedCall


def start_data(desk: Desk, *, static: bool = False) -> dict[str, Any]:
    """The whole, as plain data; `static`: of a site without a server."""
    first = next(iter((*desk.architectures, *desk.own)), "gpt2")
    return {
        "format": FORMAT,
        "version": __version__,
        "static": static,
        "opened": [
            *({"of": of, "title": desk.title(of), "kind": _kind(of, desk)} for of in desk.opened),
            *(
                {"of": of, "title": of, "kind": "architecture", "file": desk.file(of), "columns": asdict(columns(own))}
                for of, own in desk.own.items()
            ),
        ],
        "defaults": {"of": first, **asdict(PricedCall())},
        "rate": RATE,
        **{name: list(words) for name, words in WORDS.items()},
        "accelerators": _accelerators(),
        "legend": dict(LEGEND),
        "catalogue": _catalogue(),
        "topics": [{"name": each.name, "title": each.title, "question": each.question} for each in topics().values()],
        "mechanisms": [
            {"name": each.name, "topic": each.topic, "column": each.column, "word": each.word} for each in mechanisms()
        ],
    }


def _kind(of: str, desk: Desk) -> str:
    """Whether what was opened is a study, a run, or an architecture alone."""
    if of in desk.runs.opened.studies:
        return "study"
    return "run" if of in desk.runs.opened.runs else "architecture"


@cache
def _accelerators() -> list[dict[str, Any]]:
    return [
        {
            "name": each.name, "title": each.title, "memory": each.memory, "usable": each.usable_memory,
            "bandwidth": each.bandwidth, "peaks": dict(each.peaks), "power": each.power, "source": each.source,
        }
        for each in HARDWARE.values()
    ]  # fmt: skip


@cache
def _catalogue() -> list[dict[str, Any]]:
    return [asdict(line) for line in catalogue.listing()]
