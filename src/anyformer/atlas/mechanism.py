"""A mechanism of architectures: its name, and what of a description says whether an entry has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from anyformer.catalogue.row import ArchitectureRow
from anyformer.describe import Value, nested
from anyformer.model import Architecture

MIXERS = "attention"
"""The column of what mixes positions."""


@dataclass(frozen=True)
class Mechanism:
    """Something that entries of the catalogue have or have not.

    With `column`, an entry has it whose column of the table holds `word`; else one whose description holds a part of the class
    `part`, and with `field` one where that field is set; else one of whose mixers one is among every group of `mixed`. The
    documentation of `part`, or of its `field`, says what it is.
    """

    name: str
    topic: str
    column: str = ""
    word: str = ""
    part: str = ""
    field: str = ""
    mixed: tuple[tuple[str, ...], ...] = ()
    """Groups of words for mixers, of each of which an entry has one."""
    trend: bool = False
    """Whether its share is among those that are drawn over the years."""

    @property
    def query(self) -> str:
        """What an entry is asked: `position=RoPE`, `YaRN`, `Head.tied`."""
        if self.column:
            return f"{self.column}={self.word}"
        if self.mixed:
            return " and ".join(f"{MIXERS}={'|'.join(words)}" for words in self.mixed)
        return f"{self.part}.{self.field}" if self.field else self.part


@dataclass(frozen=True)
class EntryFacts:
    """What of an entry says which mechanisms it has: the words of its columns, the classes of its parts, the fields set."""

    columns: Mapping[str, tuple[str, ...]]
    parts: Mapping[str, frozenset[str]]
    """Class -> the names of the fields that are set to something in one of its values."""

    def has(self, mechanism: Mechanism) -> bool:
        """Whether the entry has a mechanism."""
        if mechanism.column:
            return mechanism.word in self.columns[mechanism.column]
        if mechanism.mixed:
            return not any(set(words).isdisjoint(self.columns[MIXERS]) for words in mechanism.mixed)
        held = self.parts.get(mechanism.part)
        return held is not None and (not mechanism.field or mechanism.field in held)


@cache
def kinds_of(part: type[Value]) -> tuple[str, ...]:
    """The names of a part's class and of every part that it is a kind of: experts of a latent are experts."""
    return part.__name__, *(
        base.__name__
        for base in part.__mro__[1:]
        if issubclass(base, Value) and base is not Value and (kind := base.model_fields.get("kind")) and not kind.is_required()
    )


def facts_of(architecture: Architecture, row: ArchitectureRow, training: tuple[str, ...] = ()) -> EntryFacts:
    """The facts of a description with this row in the table, and with techniques of its loss."""
    held: dict[str, set[str]] = {}
    for value in nested(architecture):
        fields = {name for name, item in vars(value).items() if item}
        for kind in kinds_of(type(value)):
            held.setdefault(kind, set()).update(fields)
    return EntryFacts(words_of(row, training), {name: frozenset(fields) for name, fields in held.items()})


def words_of(row: ArchitectureRow, training: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The words of every column that holds words; a window without its size, `local`."""
    joined = {
        "shape": row.shape, "norm": row.norm, "placement": row.placement, "wiring": row.wiring, "position": row.position,
        "activation": row.activation, "attention": row.attention,
    }  # fmt: skip
    windows = [word.split()[0] for word in row.window.split("+") if word]
    return {
        **{column: tuple(word for word in text.split("+") if word) for column, text in joined.items()},
        "window": tuple(dict.fromkeys(windows)),
        "stability": row.stability,
        "training": training,
    }
