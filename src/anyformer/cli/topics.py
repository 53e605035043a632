"""What `anyformer help` explains: guides and mechanisms in short, and every value that descriptions hold, by its docstring."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyformer.cli.pages import Item, Paragraph, Verbatim
from anyformer.costs.rows import PageLine
from anyformer.describe import UserError, Value, did_you_mean
from anyformer.describe.docstrings import field_docstrings

if TYPE_CHECKING:
    from anyformer.atlas.mechanism import Mechanism

FILE = Path(__file__).with_name("topics.json")
"""Written by `python docs/make_help.py` from the guides and the table of mechanisms."""
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
"""Names that an error lists."""


class TopicError(UserError):
    """No topic is called so."""


@dataclass(frozen=True)
class HelpTopic:
    """A title, the page, and where there is more."""

    name: str
    title: str
    page: tuple[Item, ...]
    more: str

    @property
    def items(self) -> Iterator[Item]:
        """The whole page."""
        yield PageLine(self.title, strong=True)
        yield PageLine("")
        yield from self.page
        yield Paragraph(self.more, hanging="")


@cache
def _kept() -> Mapping[str, Any]:
    kept: Mapping[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return kept


def guides() -> dict[str, str]:
    """The names of the guides, and their titles."""
    return {name: guide["title"] for name, guide in _kept()["guides"].items()}


def topics(words: str) -> list[HelpTopic]:
    """The topics of a name in any spelling: a guide, a mechanism as papers call it, values by their class or kind; else a
    mechanism of the atlas.

    A kind may be that of several values, as `causal` of a mask and an objective. A class in its own spelling is looked for
    first, so that few names load torch.

    Raises:
        TopicError: there is none; the message names the nearest ones.
    """
    wanted, kept = _plain(words), _kept()
    if words in kept["guides"]:
        return [_guide(words)]
    if found := _first(_value(kind, package) for package, kind in _every(LIGHT) if kind.__name__ == words):
        return found
    if found := [_guide(name) for name in kept["guides"] if _plain(name) == wanted]:
        return found
    if found := [_mechanism(name, *place) for name, place in kept["mechanisms"].items() if wanted in _called(name)][:1]:
        return found
    if found := [_value(kind, package) for package, kind in _every() if wanted in _names(kind)]:
        return found
    from anyformer.atlas.naming import mechanisms_called
    from anyformer.atlas.topic import mechanisms

    if found := [_of_atlas(each) for each in mechanisms_called(words)]:
        return found
    known = [
        *kept["guides"],
        *kept["mechanisms"],
        *(each.name for each in mechanisms()),
        *(kind.__name__ for _, kind in _every()),
    ]
    raise TopicError(
        f"no topic is called {words!r}{did_you_mean(words, known)}{_telling(words)}; `anyformer help` lists the guides"
    )


def _first(found: Iterable[HelpTopic]) -> list[HelpTopic]:
    return list(islice(found, 1))


def _every(packages: Iterable[str] = VALUES) -> Iterator[tuple[str, type[Value]]]:
    return ((package, kind) for package in packages for kind in _values(package))


def _telling(words: str) -> str:
    """The values whose first sentence has the words, for a name that is known in papers and not here."""
    word = re.compile(rf"\b{re.escape(words)}\b", re.I)
    found = [kind.__name__ for _, kind in _every() if word.search((kind.__doc__ or "").split("\n\n")[0])]
    return f"; it is in the words of {', '.join(found[:MOST])}" if found else ""


def _plain(words: str) -> str:
    return re.sub(r"[^a-z0-9]", "", words.lower())


def _called(mechanism: str) -> set[str]:
    """A mechanism's name, and the initials of several words: GQA."""
    words = re.findall(r"[a-z0-9]+", mechanism.lower())
    return {_plain(mechanism)} | ({"".join(word[0] for word in words)} if len(words) > 1 else set())


@cache
def _values(package: str) -> list[type[Value]]:
    """The values that a package exports, without the bases of families."""
    found = vars(importlib.import_module(package)).values()
    return [each for each in found if isinstance(each, type) and issubclass(each, Value) and not each.__name__.startswith("_")]


def _names(kind: type[Value]) -> set[str]:
    return {_plain(kind.__name__), _plain(_kind(kind))}


def _kind(kind: type[Value]) -> str:
    """The word by which TOML names a value of a family; empty where it needs none."""
    field = kind.model_fields.get("kind")
    return field.default if field is not None and isinstance(field.default, str) else ""


def _guide(name: str) -> HelpTopic:
    guide = _kept()["guides"][name]
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
    more = f"More: anyformer help {thing}; all mechanisms stand in docs/reference/parts.md."
    return HelpTopic(name, f"{name}: {thing}", tuple(page), more)


def _of_atlas(mechanism: Mechanism) -> HelpTopic:
    from anyformer.atlas.topic_page import mechanism_item
    from anyformer.cli.atlas import told

    page = (*told(mechanism_item(mechanism)), PageLine(""))
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
    return HelpTopic(
        kind.__name__, title, tuple(page), f"More: from {package} import {kind.__name__}; one of the {VALUES[package]}."
    )


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
