"""`anyformer atlas`."""

from __future__ import annotations

import json as jsons
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli import glossary
from anyformer.cli.answering import Answer, answering
from anyformer.cli.arguments import Json
from anyformer.cli.bars import bar
from anyformer.cli.pages import BlockTable, Item, Paragraph, Verbatim
from anyformer.costs.rows import PageLine
from anyformer.describe import UserError

EXAMPLES = """
anyformer atlas
anyformer atlas positions
anyformer atlas GQA
anyformer atlas experts --json
anyformer atlas --out site
anyformer atlas --out lecture --entry gpt2 --entry gemma-2-2b --entry mine.toml
"""

NO_TOPIC = Paragraph("No topic and no mechanism of the atlas; the glossary has it:", hanging="")

if TYPE_CHECKING:
    from anyformer.atlas.mechanism import Mechanism
    from anyformer.atlas.source import SentenceSource
    from anyformer.atlas.topic_page import TopicItem, TopicPage


@answering()
def run(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="A topic, such as positions, norms or experts, or a mechanism, such as GQA, with the studies that ask about "
            "it; other words are looked up in the glossary. Without one, all topics and trends.",
            metavar="TOPIC",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIRECTORY",
            help="Write explorer and atlas as a static site, a new directory for any host of files.",
        ),
    ] = None,
    entries: Annotated[
        list[str] | None,
        typer.Option(
            "--entry",
            metavar="NAME|PATH",
            help="With --out: what the site shows, any number of times: an entry, or an own TOML file, config.json or "
            "directory, called after its file. By default all entries.",
        ),
    ] = None,
    json: Json = False,
) -> Answer:
    """Read the catalogue as a whole: what there is since when, trends, and a page per topic, each sentence with its source.

    --out writes a site whose pages show every sheet of `anyformer explore` worked out before, and price changes of numbers by
    formulas that are generated from the declared ones.
    """
    from anyformer import atlas

    if out is not None:
        return site(out, entries, words or (), json=json)
    if entries:
        raise UserError("--entry names entries of a site: give --out DIRECTORY too")
    topic = " ".join(words) if words else None
    called = None if topic is None else atlas.topic_called(topic)
    named = () if topic is None or called is not None else atlas.mechanisms_called(topic) or atlas.mechanisms_with(topic)
    if topic is not None and called is None and not named and (explained := glossary.explained(topic)):
        if json:
            return Answer([Verbatim(jsons.dumps({"glossary": [asdict(each) for each in atlas.explained(topic)]}, indent=2))])
        return Answer([NO_TOPIC, PageLine(""), *(item for each in explained for item in each.items)])
    if named and not json:
        return Answer(list(described(named)))
    topic = called.name if called is not None else named[0].topic if named else topic
    if json:
        found = atlas.atlas_data() if topic is None else atlas.topic_data(topic)
        return Answer([Verbatim(jsons.dumps(found, indent=2, ensure_ascii=False))])
    return Answer(list(overview() if topic is None else page(atlas.topic_page(atlas.topic(topic)))))


def site(out: Path, entries: list[str] | None, words: Sequence[str], *, json: bool) -> Answer:
    """Write a site, and say what is in it."""
    from anyformer.catalogue import listing
    from anyformer.costs.figures import size
    from anyformer.exploring.site import write_site
    from anyformer.exploring.site_entries import site_entries

    if words:
        named = " ".join(f"--entry {shlex.quote(each)}" for each in words)
        raise UserError(
            f"--out writes a site of all topics: leave {' '.join(words)!r} out, or to show entries of these names say {named}"
        )
    shown = site_entries(entries or [entry.name for entry in listing()])
    with bar("sheets", len(shown.names)) as advance:
        written = write_site(out, shown, advance)
    if json:
        return Answer([Verbatim(jsons.dumps(asdict(written), indent=2))])
    told = f"{out}: {written.entries:,} entries, {written.files:,} files, {size(written.bytes).text.strip()}, "
    return Answer(
        [Paragraph(f"{told}{size(written.compressed).text.strip()} as hosts compress them. README.txt says how to open it.")]
    )


def overview() -> Iterator[Item]:
    """The topics, the trends, and what every year has first."""
    from anyformer.atlas.holders import holders
    from anyformer.atlas.topic import mechanisms, topics
    from anyformer.atlas.trends import trends
    from anyformer.catalogue import listing

    yield PageLine("Topics", strong=True)
    for each in topics().values():
        yield Paragraph(f"{each.name}: {each.question}", "  ")
    yield Paragraph(
        "Or a mechanism, such as GQA: what it is, who has it since when, and which studies ask about it. Any other word, such "
        "as MFU, is looked up in the glossary.",
        "  ",
        "  ",
    )
    drawn = trends(listing())
    yield from (PageLine(""), PageLine("Of the families with a new model in a year, those that have one with", strong=True))
    years = drawn[0].years
    counted = [(each.mechanism.name, *(f"{year.having}/{year.families}" for year in each.years)) for each in drawn]
    heads = ("", *(str(year.year) for year in years))
    yield BlockTable(heads, tuple(counted), heads[1:])
    yield from (PageLine(""), PageLine("First in the catalogue, by year", strong=True))
    for year in years:
        named = [each.name for each in mechanisms() if holders(each).since == year.year]
        if named:
            yield Paragraph(f"{year.year}: {', '.join(named)}", "  ")
    yield from (PageLine(""), PageLine("Next: anyformer atlas TOPIC, anyformer list."))


def page(made: TopicPage) -> Iterator[Item]:
    """A topic: every sentence, and below it in brackets where it comes from."""
    yield PageLine(made.topic.title, strong=True)
    yield Paragraph(made.topic.question)
    for section in made.sections:
        yield from (PageLine(""), PageLine(section.title, strong=True))
        for number, item in enumerate(section.items):
            if item.title:
                yield Paragraph(f"{item.title} {item.note}".strip(), "  ")
            elif number:
                yield PageLine("")
            yield from told(item, "    " if item.title else "  ")


def told(item: TopicItem, start: str = "") -> Iterator[Item]:
    """The sentences of one matter with their sources."""
    for sentence in item.sentences:
        yield Paragraph(f"{sentence.text} [{cited(sentence.source)}]", start, start)


def described(found: Iterable[Mechanism]) -> Iterator[Item]:
    """Some mechanisms: what they are, who has them since when, and where there is more."""
    from anyformer.atlas import studied_mechanism

    for number, each in enumerate(found):
        yield from (*[PageLine("")] * bool(number), PageLine(each.name, strong=True))
        yield from told(studied_mechanism(each))
        yield from (PageLine(""), PageLine(f"More: anyformer atlas {each.topic}"))


def cited(source: SentenceSource) -> str:
    """A source in brackets: what it is, its papers, the page or the command that shows it."""
    papers = [each.url for each in source.papers]
    return "; ".join(filter(None, (source.cited, *papers, source.page or source.command)))
