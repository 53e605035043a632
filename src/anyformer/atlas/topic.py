"""Topics: matters that architectures differ in, each with its mechanisms, studies and claims; a file of `topics/` each."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from anyformer.atlas.mechanism import Mechanism
from anyformer.describe import UserError, did_you_mean
from anyformer.describe.nearest import nearest

TOPICS = Path(__file__).with_name("topics")
ORDER = (
    "positions", "norms", "attention", "experts", "recurrence", "activations", "wiring", "embeddings", "initialisation",
    "objectives",
)  # fmt: skip


@dataclass(frozen=True)
class PricedChange:
    """One change of a topic's base entry in words, and as `--set` takes it."""

    said: str
    set: tuple[str, ...]


@dataclass(frozen=True)
class TopicMatter:
    """A matter that no single part is: what is written of functions and fields, and mechanisms that do it."""

    title: str
    written: tuple[str, ...]
    """Places as `WrittenDocumentation` takes them."""
    mechanisms: tuple[str, ...] = ()


@dataclass(frozen=True)
class Topic:
    """A topic: what its page is made of. Nothing here is a figure: all are computed or read from results."""

    name: str
    title: str
    question: str
    also: tuple[str, ...] = field(kw_only=True, default=())
    """Other words for what it is about."""
    rooms: tuple[str, ...]
    """Modules of `anyformer.parts` whose classes belong to it."""
    mechanisms: tuple[Mechanism, ...]
    studies: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    """Names of claims of the notes."""
    lengths: tuple[str, ...] = ()
    """Studies whose losses by length are drawn."""
    matters: tuple[TopicMatter, ...] = ()
    reasons: tuple[str, ...] = ()
    """Parts whose documentation says why the answer is so."""
    base: str = ""
    """The entry whose changes are priced."""
    changes: tuple[PricedChange, ...] = ()
    registries: tuple[str, ...] = ()
    """Base classes, as `package:Class`, all of whose kinds the page lists."""
    masks: tuple[str, ...] = ()
    """Entries whose masks are its picture."""
    diagrams: tuple[str, ...] = ()
    """Entries whose diagrams are its picture."""
    curves: bool = False
    """Whether the curves of activations are its picture."""


@cache
def topics() -> Mapping[str, Topic]:
    """Every topic by its name, in the order of the atlas."""
    return {name: read(name, TOPICS / f"{name}.toml") for name in ORDER}


def read(name: str, path: Path) -> Topic:
    """The topic of a file."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    made: list[dict[str, Any]] = data.pop("mechanisms")
    mechanisms = tuple(Mechanism(topic=name, **each | {"mixed": tuple(map(tuple, each.get("mixed", ())))}) for each in made)
    matters = tuple(
        TopicMatter(each["title"], tuple(each["written"]), tuple(each["mechanisms"])) for each in data.pop("matters", ())
    )
    changes = tuple(PricedChange(each["said"], tuple(each["set"])) for each in data.pop("changes", ()))
    lists: dict[str, Any] = {key: tuple(item) if isinstance(item, list) else item for key, item in data.items()}
    return Topic(name=name, mechanisms=mechanisms, matters=matters, changes=changes, **lists)


def topic(name: str) -> Topic:
    """The topic of a name. Raises `UserError` where there is none."""
    if name not in topics():
        named = [each.name for each in mechanisms()]
        known = named if nearest(name, named) and not nearest(name, topics()) else list(topics())
        raise UserError(f"no topic is called {name!r}{did_you_mean(name, known)}")
    return topics()[name]


def topic_called(words: str) -> Topic | None:
    """The topic of a name, a title or another word for it, in small or capital letters; None where there is none."""
    wanted = words.strip().casefold()
    return next((each for each in topics().values() if wanted in (each.name, each.title.casefold(), *each.also)), None)


@cache
def mechanisms() -> tuple[Mechanism, ...]:
    """Every mechanism of every topic."""
    return tuple(each for made in topics().values() for each in made.mechanisms)
