"""The order of classes: that of the model that is to tell them apart, else that of their names."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from anyformer.describe import Notice
from anyformer.text.errors import DataError

_GENERIC = re.compile(r"LABEL_(\d+)")
"""How transformers calls the classes of a model whose authors name none."""


def ordered(column: str, found: Collection[str], asked: Sequence[str] = (), model: Sequence[str] = ()) -> tuple[str, ...]:
    """The classes of a column in the order of a model's outputs.

    `asked`: the order that was described; `model`: the names in the model's configuration (`id2label`). Names count whatever
    their case, and `2` or `LABEL_2` is the third one. As in transformers' `run_glue`, names of a model that are none of the
    data's are left aside, and the data's are in the order of their names; `DataError` where only some of them are.
    """
    if asked:
        return all_in(column, found, asked, "data.labels are")
    names = tuple(model)
    known = {name for name in found if place_of(name, names) is not None}
    if known == set(found) and names:
        bare = not tells(names) and all(name.isdecimal() for name in found)
        return tuple(map(str, range(len(names)))) if bare else names
    if known:
        return all_in(column, found, names, "the model's classes are")
    if tells(names):
        warnings.warn(
            f"{column}: none of the data's classes ({_few(sorted(found))}) is one of the model's ({_few(names)}), which are "
            "therefore left aside; the data's are numbered in the order of their names",
            Notice,
            stacklevel=2,
        )
    return tuple(sorted(found))


def tells(labels: Sequence[str]) -> bool:
    """Whether a model's classes have names of their own."""
    return not all(_GENERIC.fullmatch(name) for name in labels)


def all_in(column: str, found: Collection[str], names: Sequence[str], whose: str) -> tuple[str, ...]:
    """The names, if all classes that were found are among them; `DataError` says which is not."""
    for name in sorted(found):
        if place_of(name, names) is None:
            raise DataError(
                f"{column}: the data has the class {name!r}, and {whose} {_few(names)}; mend the data, or set data.labels to "
                "the names of all classes in the order of the model's outputs"
            )
    return tuple(names)


def place_of(name: str, classes: Sequence[str]) -> int | None:
    """The number of a class by its name in a column's classes; None if it is none of them."""
    exact, others = _places(tuple(classes))
    return exact.get(name, others.get(name.lower()))


def number_of(name: str, classes: Sequence[str]) -> int:
    """The number of a class that is known to be one of these."""
    found = place_of(name, classes)
    assert found is not None, "every class was found before"
    return found


@lru_cache(maxsize=16)
def _places(classes: tuple[str, ...]) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Numbers by the classes' names, and by what else they may be called, in small letters."""
    exact = {name: number for number, name in enumerate(classes)}
    if any(name.isdecimal() for name in classes):  # a number is a name of its own
        return exact, {}
    numbers = {spelt: number for number in range(len(classes)) for spelt in (str(number), f"label_{number}")}
    return exact, numbers | {name.lower(): number for name, number in exact.items()}


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + ", ..." * (len(names) > 8)
