"""Numbers as people write them in a change, `128k` or `128,000`: words until the field they are given to says what it takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from tomllib import TOMLDecodeError
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from anyformer.describe.errors import DescriptionError, Problem
from anyformer.describe.foreign import toml_data
from anyformer.describe.named import Named
from anyformer.describe.part_set import PartSet
from anyformer.describe.problems import bare_type, classes_of, kinds_of
from anyformer.describe.spelling import spelled

BINARY = {"": 1, "k": 2**10, "m": 2**20}
"""What letters behind a size mean: lengths, batches, and whole numbers of architectures."""
METRIC = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9, "t": 10**12}
"""What letters behind a quantity mean: parameters, FLOPs, bytes."""
_NUMBER = r"\d[\d_]*(?:\.\d+)?[kKmMgGbBtT]|\d{1,3}(?:,\d{3})+"
_WHOLE = re.compile(_NUMBER)
_LETTERS = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|(?<![\w.+-])(\d[\d_]*(?:\.\d+)?[kKmMgGbBtT])(?![\w.-])')
_MARK = "\ue000"
"""Stands before a number in a string that was none in what was typed."""


class Amount(str):
    """A number as it was typed, not read yet."""

    __slots__ = ()

    def times(self, letters: Mapping[str, int]) -> Decimal | None:
        """The number, by what its letter means; None where that is unknown."""
        digits, letter = (self[:-1], self[-1].lower()) if self[-1].isalpha() else (self, "")
        return Decimal(digits.replace("_", "").replace(",", "")) * letters[letter] if letter in letters else None


@dataclass(frozen=True)
class BinarySize:
    """Marks a whole number of which k is 1,024, as in `--length`."""


def with_amounts(text: str) -> Any:
    """What a text means in TOML where numbers may have letters behind them; a word where it means nothing."""
    if _WHOLE.fullmatch(text):
        return Amount(text)
    marked = _LETTERS.sub(lambda found: f'"{_MARK}{found[1]}"' if found[1] else found[0], text)
    try:
        return _marked(toml_data(f"value = {marked}")["value"])
    except TOMLDecodeError:
        return text


def _marked(data: Any) -> Any:
    if isinstance(data, str):
        return Amount(data[1:]) if data.startswith(_MARK) else data
    if isinstance(data, Mapping):
        return {name: _marked(item) for name, item in data.items()}
    return [_marked(item) for item in data] if isinstance(data, list) else data


def typed(data: Any) -> bool:
    """Whether something in data is a number that was not read yet."""
    inside = data.values() if isinstance(data, Mapping) else data if isinstance(data, list) else ()
    return isinstance(data, Amount) or any(map(typed, inside))


def read(data: Any, annotation: Any, path: str, *, size: bool) -> Any:
    """Data with numbers for what was typed as such, as a field of this type takes it. `size`: whether its whole numbers are."""
    if isinstance(data, Amount):
        return _number(data, annotation, path, size=size)
    bare = bare_type(annotation)
    items = get_args(bare) if get_origin(bare) in (tuple, Named) else ()
    if isinstance(data, Mapping):
        return {name: read(item, _inside(bare, items, data, name), f"{path}.{name}", size=size) for name, item in data.items()}
    return [read(item, items[0] if items else None, path, size=size) for item in data] if isinstance(data, list) else data


def _inside(bare: Any, items: tuple[Any, ...], data: Mapping[str, Any], name: str) -> Any:
    """What stands under a name of a table: in a table of names, in a set of parts, in a part of a kind."""
    if items:
        return items[0]
    if get_origin(bare) is PartSet:
        return get_args(bare)[0].members.get(name)
    classes = classes_of(bare)
    part: type[BaseModel] | None = kinds_of(classes).get(str(data.get("kind")), classes[0] if len(classes) == 1 else None)
    field = None if part is None else part.model_fields.get(spelled(name, part.model_fields))
    return None if field is None else field.annotation


def _number(word: Amount, annotation: Any, path: str, *, size: bool) -> Any:
    types = set(_types(annotation))
    if not types & {int, float} or str in types:
        return str(word)
    quantity, sized = word.times(METRIC), word.times(BINARY)
    assert quantity is not None, "every letter that may be typed is one of a quantity"
    if size and int in types:
        if sized is None:
            raise _refused(path, f"{word} is no size: k is 1,024 and M is 1,048,576, as in 128k or 1.5M")
        quantity = sized
    elif sized not in (None, quantity):
        raise _refused(
            path, f"{word} could be {_said(quantity)} or, as in --length, {_said(sized)}: write the number that is meant"
        )
    if int not in types:
        return float(quantity)
    if quantity != int(quantity):
        raise _refused(path, f"{word} is {_said(quantity)}, and this is a whole number")
    return int(quantity)


def _said(number: Decimal | None) -> str:
    return "" if number is None else f"{number.normalize():,f}"


def _refused(path: str, message: str) -> DescriptionError:
    return DescriptionError([Problem(path, message)])


def _types(annotation: Any) -> Iterator[Any]:
    """The types that an annotation admits."""
    bare = bare_type(annotation)
    if isinstance(bare, type):
        yield bare
    for each in get_args(bare):
        if get_origin(bare) not in (tuple, Named):
            yield from _types(each)
