"""The atlas as plain values, for pages: the catalogue as a whole, and a topic."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

from anyformer.atlas.curves import activation_curves
from anyformer.atlas.holders import Family, families, family_of, holders, mechanisms_of
from anyformer.atlas.keeping import kept
from anyformer.atlas.measured import studies
from anyformer.atlas.mechanism import Mechanism, words_of
from anyformer.atlas.pricing import Priced
from anyformer.atlas.source import Sentence
from anyformer.atlas.topic import Topic, mechanisms, topic, topics
from anyformer.atlas.topic_page import TopicItem, topic_page
from anyformer.atlas.topic_pictures import diagram_pictures, mask_pictures
from anyformer.atlas.tree import tree
from anyformer.atlas.trends import trends
from anyformer.catalogue import listing
from anyformer.catalogue.row import Listed

FORMAT = 1
WORDS = {
    "shape": "shape", "norm": "norm", "placement": "norms stand", "wiring": "wiring", "position": "positions",
    "activation": "activation", "attention": "attention", "window": "window", "stability": "stability", "training": "loss",
}  # fmt: skip
"""Columns of words, with their titles."""
NUMBERS = {
    "year": "year", "layers": "layers", "width": "width", "experts": "experts", "chosen": "experts a token passes",
    "parameters": "parameters", "active": "parameters a token uses",
}  # fmt: skip
"""Columns of numbers, with their titles."""


@cache
def atlas_data() -> dict[str, Any]:
    """The catalogue: entries with their columns and mechanisms, designs with their parents, trends. Things are told by their
    numbers in the lists."""
    return kept("catalogue", _catalogue)


def _catalogue() -> dict[str, Any]:
    entries, every = listing(), mechanisms()
    lines = families(entries)
    of_entry = {entry.name: number for number, entry in enumerate(entries)}
    of_mechanism = {each: number for number, each in enumerate(every)}
    descents = tree()
    of_design = {each.design: number for number, each in enumerate(descents)}
    designs = [
        {
            "entries": [of_entry[entry.name] for entry in each.design.entries],
            "parent": None if each.parent is None else of_design[each.parent],
            "gained": [[of_mechanism[own.mechanism], None if own.seen is None else of_design[own.seen]] for own in each.gained],
            "lost": [of_mechanism[own] for own in each.lost],
        }
        for each in descents
    ]
    return {
        "format": FORMAT,
        "topics": [{"name": each.name, "title": each.title, "question": each.question} for each in topics().values()],
        "words": WORDS,
        "numbers": NUMBERS,
        "mechanisms": [_mechanism(each) for each in every],
        "families": lines,
        "entries": [_entry(entry, lines, of_mechanism) for entry in entries],
        "designs": designs,
        "trends": [
            {"mechanism": of_mechanism[each.mechanism], "years": [[own.year, own.having, own.families] for own in each.years]}
            for each in trends(entries)
        ],
    }


@cache
def topic_data(name: str) -> dict[str, Any]:
    """A topic's page: sections of sentences with their sources, and what is drawn. Raises `UserError` for no topic."""
    asked = topic(name)
    return kept(f"topic {name}", lambda: _topic(asked))


def _topic(asked: Topic) -> dict[str, Any]:
    page = topic_page(asked)
    return {
        "format": FORMAT,
        "name": asked.name,
        "title": asked.title,
        "question": asked.question,
        "base": asked.base,
        "sections": [{"title": section.title, "items": [_item(item) for item in section.items]} for section in page.sections],
        "lengths": [asdict(studies()[each]) for each in asked.lengths],
        "masks": [asdict(picture) for picture in mask_pictures(asked.masks)],
        "diagrams": [asdict(picture) for picture in diagram_pictures(asked.diagrams)],
        "curves": [asdict(curve) for curve in activation_curves()] if asked.curves else [],
        "costs": _costs(asked),
    }


def _entry(entry: Listed, lines: tuple[Family, ...], of_mechanism: dict[Mechanism, int]) -> dict[str, Any]:
    row = entry.columns
    numbers = {"year": entry.year, **{name: asdict(row)[name] for name in NUMBERS if name != "year"}}
    return {
        "name": entry.name,
        "organisation": entry.organisation,
        "family": lines.index(family_of(entry)),
        "summary": entry.summary,
        "source": entry.source,
        "stand_in": entry.stand_in,
        "words": words_of(row, entry.training),
        "window": row.window,
        "numbers": numbers,
        "mechanisms": [of_mechanism[each] for each in mechanisms_of(entry.name)],
    }


def _mechanism(mechanism: Mechanism) -> dict[str, Any]:
    found = holders(mechanism)
    return {
        "name": mechanism.name,
        "topic": mechanism.topic,
        "query": mechanism.query,
        "trend": mechanism.trend,
        "since": found.since,
        "first": [entry.name for entry in found.first],
        "entries": len(found.entries),
        "families": len(found.families),
    }


def _item(item: TopicItem) -> dict[str, Any]:
    return {
        "title": item.title,
        "note": item.note,
        "since": item.since,
        "mechanism": None if item.mechanism is None else mechanisms().index(item.mechanism),
        "sentences": [sentence_data(each) for each in item.sentences],
    }


def sentence_data(sentence: Sentence) -> dict[str, Any]:
    """A sentence with its source."""
    source = sentence.source
    return {
        "text": sentence.text,
        "verdict": source.verdict,
        "source": {
            "kind": source.kind,
            "cited": source.cited,
            "command": source.command,
            "page": source.page,
            "papers": [{"arxiv": each.arxiv, "said": each.said, "url": each.url} for each in source.papers],
        },
    }


def _costs(asked: Topic) -> list[dict[str, Any]]:
    """What every change of a topic's base costs."""
    return [
        {"said": change.said, "set": list(change.set), "costs": [asdict(each) for each in Priced(asked.base, change).costs]}
        for change in asked.changes
    ]
