"""Which keys the classes of transformers ask for while a model is made and computes, and which code asks."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from benchmarks.drift.keys import askers
from transformers import PreTrainedConfig

Asked = Mapping[str, set[str]]
"""Attribute of a configuration -> the modules whose code asked for it."""
NEVER = "no code asks for it"
ABSENT = "asked for by classes alone of which the model has none"
HIDDEN = "no code asks for it as the other keys are"
SAME = "the class makes the same configuration of it"
GENERATION = "asked for by settings of generation alone"
EVERYWHERE = "asked for by the code of every type alone, and nothing follows"
"""Why nothing moves, by who asks for the key."""


@contextmanager
def recorded() -> Iterator[dict[str, set[str]]]:
    """Within, every attribute that is read of any configuration, by its own name and the one that it stands for.

    What is copied as a whole (`to_dict`) is not counted: transformers keeps settings of generation so, which compute no logits.
    """
    before, asked = PreTrainedConfig.__getattribute__, defaultdict[str, set[str]](set)

    def tell(config: Any, name: str) -> Any:
        own = object.__getattribute__(config, "attribute_map").get(name, name)
        for each in {name, own}:
            asked[each].add(_asker())
        return before(config, name)

    PreTrainedConfig.__getattribute__ = tell  # type: ignore[method-assign]
    try:
        yield asked
    finally:
        PreTrainedConfig.__getattribute__ = before  # type: ignore[method-assign]


def _asker() -> str:
    """The module whose code reads an attribute: not that of a configuration, which reads its own for others."""
    frame = sys._getframe(2)
    while frame.f_back and "configuration_" in frame.f_globals.get("__name__", ""):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def unasked(key: str, model_type: str, theirs: Any) -> str:
    """Why a model of theirs asks for nothing under a key, by the classes in the source of its type that do ask for it."""
    classes = askers(model_type).get(key)
    if not classes:
        return NEVER
    there = {kind.__name__ for each in (theirs.config, *theirs.modules()) for kind in type(each).__mro__}
    return HIDDEN if classes & {"", *there} else ABSENT


def differing(one: Any, other: Any) -> set[str]:
    """The names of the attributes in which two configurations differ, and of those within."""
    left, right = vars(one), vars(other)
    found = set()
    for name in left.keys() | right.keys():
        a, b = left.get(name, ...), right.get(name, ...)
        if isinstance(a, PreTrainedConfig) and type(a) is type(b):
            found |= differing(a, b)
        elif type(a) is not type(b) or a != b:
            found.add(name)
    return found


def reason(names: Iterable[str], asked: Asked) -> str:
    """Why nothing moves where these attributes differ and only code of every type asks for them; else an empty text."""
    askers = {module for name in names for module in asked.get(name, ()) if module.startswith("transformers.")}
    if any(".models." in module and ".models.auto." not in module for module in askers):
        return ""
    return GENERATION if all(".generation." in module for module in askers) else EVERYWHERE
