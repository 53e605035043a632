"""What `anyformer help` explains: guides and mechanisms in short, and every value that descriptions hold, by its docstring."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from anyformer.atlas.glossary import letters
from anyformer.cli import glossary
from anyformer.cli.help_topic import HelpTopic, kept
from anyformer.cli.pages import Item, Paragraph, Verbatim
from anyformer.cli.usage import usage
from anyformer.costs.rows import PageLine
from anyformer.describe import UserError, Value, did_you_mean
from anyformer.describe.docstrings import field_docstrings
from anyformer.describe.nearest import nearest

if TYPE_CHECKING:
    from anyformer.atlas.mechanism import Mechanism

VALUES = {
    "anyformer.parts": "parts of an architecture",
    "anyformer.tasks": "generated tasks",
    "anyformer.tuning": "adapters and optimisers",
    "anyformer.data": "data",
    "anyformer.objectives": "objectives",
}
"""Packages whose values are topics, and what they are."""
LIGHT = [package for package in VALUES if package != "anyformer.objectives"]
"""Those that need no torch."""
MOST = 6
"""Names that an error or an answer lists."""
SHORTEST = 3
"""Letters from which a word is looked for inside other names."""


class TopicError(UserError):
    """No topic is called so."""


def guides() -> dict[str, str]:
    """The names of the guides, and their titles."""
    return {name: guide["title"] for name, guide in kept()["guides"].items()}


def topics(words: str) -> list[HelpTopic]:
    """The topics of a name; else what the catalogue's entries, the guides and the values say that have the words.

    Raises:
        TopicError: nothing has them; the message names the nearest topics.
    """
    if found := named(words) or [*_entries(words), *(_partly(words) or glossary.used(words) or _speaking(words))]:
        return found
    raise TopicError(f"no topic is called {words!r}{_near(words)}; `anyformer help` lists the guides")


def named(words: str) -> list[HelpTopic]:
    """The topics of a name in any spelling: a guide, a value by its class, a word of the glossary, and what else is called so.

    A kind may be that of several values, as `causal` of a mask and an objective. A class in its own spelling is looked for
    first, so that few names load torch.
    """
    if words in kept()["guides"]:
        return [_guide(words)]
    if found := _first(_value(kind, package) for package, kind in _every(LIGHT) if kind.__name__ == words):
        return found
    if found := [_guide(name) for name in kept()["guides"] if letters(name) == letters(words)]:
        return found
    found = [*_topic_of_atlas(words), *glossary.explained(words), *_called_so(words)]
    return (
        found or [_section(title, rows) for title, rows in kept()["sections"].items() if letters(words) in _called(title)][:1]
    )


def _called_so(words: str) -> list[HelpTopic]:
    """A mechanism of the notes, else values, else mechanisms of the atlas."""
    wanted = letters(words)
    if found := [_mechanism(name, *place) for name, place in kept()["mechanisms"].items() if wanted in _called(name)][:1]:
        return found
    if found := [_value(kind, package) for package, kind in _every() if wanted in _names(kind)]:
        return found
    from anyformer.atlas.naming import mechanisms_called

    return [_of_atlas(each) for each in mechanisms_called(words)]


def _partly(words: str) -> list[HelpTopic]:
    """Mechanisms of the atlas with the words in their names."""
    from anyformer.atlas.naming import mechanisms_with

    return [_of_atlas(each) for each in mechanisms_with(words)]


def _entries(words: str) -> list[HelpTopic]:
    """The catalogue's entries whose names begin with the words."""
    from anyformer.catalogue import listing

    wanted = letters(words)
    found = [each for each in listing() if len(wanted) >= SHORTEST and letters(each.name).startswith(wanted)]
    if not found:
        return []
    page = [Paragraph(f"{each.name}: {each.summary}", "  ", "      ") for each in found[:MOST]]
    more = f"More: anyformer show {found[0].name}; anyformer list {found[0].name.partition('-')[0]}"
    return [HelpTopic(words, f"{words}, in the catalogue", (*page, PageLine("")), more)]


def _speaking(words: str) -> list[HelpTopic]:
    """The values that speak of a name which is known in papers and not here, in their docstrings or in those of their fields.

    Those whose first sentence has it go before the others.
    """
    word = re.compile(rf"\b{re.escape(words)}\b", re.I)
    said = {kind.__name__: [*(kind.__doc__ or "").split("\n\n")] for _, kind in _every()}
    said |= {f"{kind.__name__}.{name}": [text] for _, kind in _every() for name, text in field_docstrings(kind).items()}
    found = [(name, at, text) for name, texts in said.items() for at, text in enumerate(texts) if word.search(text)]
    found.sort(key=lambda one: one[1])
    if not found:
        return []
    page = [Paragraph(f"{name}: {' '.join(text.split())}", "  ", "      ") for name, _, text in found[:MOST]]
    more = f"More: anyformer help {found[0][0].partition('.')[0]}"
    return [HelpTopic(words, f"{words}, in the words of", (*page, PageLine("")), more)]


def _near(words: str) -> str:
    """The nearest names; where none is spelt or begins alike, those that share a word with it."""
    from anyformer.atlas.topic import mechanisms

    known = [
        *kept()["guides"],
        *glossary.words(),
        *kept()["mechanisms"],
        *(each.name for each in mechanisms()),
        *(kind.__name__ for _, kind in _every()),
    ]
    if nearest(words, known):
        return did_you_mean(words, known)
    parts = [part for part in re.findall(r"[a-z0-9]+", words.lower()) if len(part) > SHORTEST]
    shared = [name for name in dict.fromkeys(known) if any(part in re.findall(r"[a-z0-9]+", name.lower()) for part in parts)]
    return f"; topics with a word of it: {', '.join(shared[:MOST])}" if shared else ""


def _first(found: Iterable[HelpTopic]) -> list[HelpTopic]:
    return list(islice(found, 1))


def _every(packages: Iterable[str] = VALUES) -> Iterator[tuple[str, type[Value]]]:
    return ((package, kind) for package in packages for kind in _values(package))


def _called(mechanism: str) -> set[str]:
    """A mechanism's name, and the initials of several words: GQA."""
    words = re.findall(r"[a-z0-9]+", mechanism.lower())
    return {letters(mechanism)} | ({"".join(word[0] for word in words)} if len(words) > 1 else set())


@cache
def _values(package: str) -> list[type[Value]]:
    """The values that a package exports, without the bases of families."""
    found = vars(importlib.import_module(package)).values()
    return [each for each in found if isinstance(each, type) and issubclass(each, Value) and not each.__name__.startswith("_")]


def _names(kind: type[Value]) -> set[str]:
    return {letters(kind.__name__), letters(_kind(kind))}


def _kind(kind: type[Value]) -> str:
    """The word by which TOML names a value of a family; empty where it needs none."""
    field = kind.model_fields.get("kind")
    return field.default if field is not None and isinstance(field.default, str) else ""


def _guide(name: str) -> HelpTopic:
    guide = kept()["guides"][name]
    page = [item for kind, text in guide["short"] for item in _items(kind, text)]
    sections = "; ".join(guide["sections"]) or "the whole page"
    return HelpTopic(name, guide["title"], tuple(page), f"More in docs/{name}.md: {sections}.")


def _items(kind: str, text: str) -> Iterator[Item]:
    if kind == "code":
        yield Verbatim("".join(f"  {line}\n" for line in text.splitlines()))
    else:
        yield Paragraph(text, hanging="")
    yield PageLine("")


def _mechanism(name: str, where: str, how: str) -> HelpTopic:
    module, _, thing = where.rpartition(":")
    found = vars(importlib.import_module(module))[thing]
    page: list[Item] = [*_documented(found)]
    if how:
        page += [Paragraph(f"Asked for by {how}.", hanging=""), PageLine("")]
    page += _studied(thing, name)
    more = f"More: anyformer help {thing}; all mechanisms stand in docs/reference/parts.md."
    return HelpTopic(name, f"{name}: {thing}", tuple(page), more)


def _section(title: str, rows: list[list[str]]) -> HelpTopic:
    """A section of the notes, by all its rows."""
    page = [Paragraph(f"{name}: {thing}{f'; {how}' if how else ''}", "  ", "      ") for name, thing, how in rows]
    more = f"More: anyformer help {rows[0][1]}, and so for all; all mechanisms stand in docs/reference/parts.md."
    return HelpTopic(title, f"{title}, in the notes", (*page, PageLine("")), more)


def _topic_of_atlas(words: str) -> list[HelpTopic]:
    """The topic of the atlas that has a name or a title, by its question and what it tells of."""
    from anyformer.atlas.topic import topic_called
    from anyformer.atlas.topic_page import answers, asked
    from anyformer.cli.atlas import told

    found = topic_called(words)
    if found is None:
        return []
    page: list[Item] = [Paragraph(found.question, hanging=""), PageLine("")]
    for item in (*answers(found), *asked(found)):
        page += [*told(item), PageLine("")]
    mechanisms = Paragraph(f"Mechanisms: {', '.join(each.name for each in found.mechanisms)}.", hanging="")
    more = f"More: anyformer atlas {found.name} says who has them since when, what they cost and what was measured."
    return [HelpTopic(found.name, found.title, (*page, mechanisms, PageLine("")), more)]


def _of_atlas(mechanism: Mechanism) -> HelpTopic:
    from anyformer.atlas.topic_page import studied_mechanism
    from anyformer.cli.atlas import told

    page = (*told(studied_mechanism(mechanism)), PageLine(""))
    return HelpTopic(mechanism.name, mechanism.name, page, f"More: anyformer atlas {mechanism.topic}")


def _value(kind: type[Value], package: str) -> HelpTopic:
    word = _kind(kind)
    title = f'{kind.__name__}, kind = "{word}"' if word else kind.__name__
    meanings = field_docstrings(kind)
    page: list[Item] = [*_documented(kind)]
    for name, field in kind.model_fields.items():
        if name != "kind":
            default = "" if field.is_required() else f" = {_default(field.get_default(call_default_factory=True))}"
            meaning = " ".join(meanings.get(name, "").split())
            page.append(Paragraph(f"{name}{default}{': ' if meaning else ''}{meaning}", "  ", "      "))
    if len(kind.model_fields) > bool(word):
        page.append(PageLine(""))
    if how := usage(kind):
        page += [Paragraph(f"Asked for by {how}.", hanging=""), PageLine("")]
    page += _studied(kind.__name__)
    return HelpTopic(
        kind.__name__, title, tuple(page), f"More: from {package} import {kind.__name__}; one of the {VALUES[package]}."
    )


def _studied(part: str, words: str = "") -> Iterator[Item]:
    """What studies say of the atlas's mechanism of some words, else of the class of a part, if not all arms have it."""
    from anyformer.atlas.asked_sources import asking, studies_of
    from anyformer.atlas.naming import mechanisms_called
    from anyformer.atlas.source import Sentence
    from anyformer.atlas.topic_page import TopicItem
    from anyformer.cli.atlas import told

    named = [each.name for each in mechanisms_called(words)] or [part] * bool(asking(part))
    found = tuple(Sentence.of(each) for name in named for each in studies_of(name))
    if found:
        yield from (*told(TopicItem("", found), ""), PageLine(""))


def _default(value: Any) -> str:
    if isinstance(value, Value):
        return type(value).__name__
    return "absent" if value is None else repr(value)


def _documented(thing: Any) -> Iterator[Item]:
    """The paragraphs of a docstring; its lists and its code keep their lines."""
    for paragraph in (inspect.getdoc(thing) or "").split("\n\n"):
        if paragraph.startswith((" ", "- ")) or "\n- " in paragraph:
            yield Verbatim(paragraph)
        else:
            yield Paragraph(" ".join(paragraph.split()), hanging="")
        yield PageLine("")
