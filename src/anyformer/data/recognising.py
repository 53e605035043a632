"""Records recognised by their fields: the published forms, and which kind of data each is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import isfile
from typing import Any

import numpy as np

from anyformer.data.description import Data, Path
from anyformer.data.row import RecordRow
from anyformer.data.rows import find_records, rows
from anyformer.data.turns import is_turns
from anyformer.text.errors import DataError


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _image(value: Any) -> bool:
    return _text(value) or isinstance(value, np.ndarray)


def _sound(value: Any) -> bool:
    return _text(value) or isinstance(value, Mapping | bytes)


def _truth(value: Any) -> bool:
    return isinstance(value, bool)


def _said(value: Any) -> bool:
    return _text(value) or is_turns(value)


@dataclass(frozen=True)
class RecordForm:
    """A published form of records: the fields that one has, and the data that it is.

    `has`: what the value of each field is; `fields`: those of the data, as its description has them; `also`: further ones,
    set where the record has the field.
    """

    words: str
    kind: str
    has: Mapping[str, Callable[[Any], bool]]
    fields: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[str, str] = field(default_factory=dict)

    def fits(self, values: Mapping[str, Any]) -> bool:
        """Whether a record is of this form."""
        return all(name in values and check(values[name]) for name, check in self.has.items())

    def table(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The description of the data in such records, without their paths."""
        also = {own: name for own, name in self.also.items() if name in values}
        return {"kind": self.kind, **self.fields, **also}


FORMS = (
    RecordForm("chats in `messages`", "chats", {"messages": is_turns}),
    RecordForm("chats in `conversations`, as in ShareGPT", "chats", {"conversations": is_turns}, {"messages": "conversations"}),
    RecordForm("preferences: `chosen` and `rejected`", "preferences", {"chosen": _said, "rejected": _said}),
    RecordForm("`prompt`, `completion` and `label`: judgements", "judgements",
         {"prompt": _said, "completion": _said, "label": _truth}),
    RecordForm("`prompt` and `completion`", "completions", {"prompt": _said, "completion": _said}),
    RecordForm("`instruction`, `input` and `output`, as in Alpaca", "prompts", {"instruction": _text, "output": _text},
         {"prompt": "instruction", "answer": "output"}, {"input": "input"}),
    RecordForm("`prompt` and `answer`", "prompts", {"prompt": _text, "answer": _text}, also={"system": "system"}),
    RecordForm("`source` and `target`", "pairs", {"source": _text, "target": _text}),
    RecordForm("`image` and `text`: captions", "captions", {"image": _image, "text": _text}),
    RecordForm("`file_name` and `text`: captions of files", "captions", {"file_name": _text, "text": _text},
         {"image": "file_name"}),
    RecordForm("`image`, `question` and `answer`", "questions_about_images",
         {"image": _image, "question": _text, "answer": _text}),
    RecordForm("`sound` and `text`: speech", "speech", {"sound": _sound, "text": _text}),
    RecordForm("`sound`, `question` and `answer`", "questions_about_sounds",
         {"sound": _sound, "question": _text, "answer": _text}),
    RecordForm("running text in `text`", "text", {"text": _text}),
)  # fmt: skip
"""The forms, the likeliest first."""
SPOKEN: Mapping[str, str] = {
    "chats": "instruction", "prompts": "instruction", "completions": "instruction", "preferences": "dpo",
    "judgements": "kto",
}  # fmt: skip
"""The objective that each kind of chats is usually read for."""
RATED: Mapping[str, str] = {"preferences": "reward"}
"""The objective that each kind of records is usually read for by a model that gives one number."""
SHOWN: Mapping[str, str] = {"captions": "captions", "questions_about_images": "captions"}
"""The objective that each kind of texts beside images is usually read for."""
HEARD: Mapping[str, str] = {"speech": "sound_to_text", "questions_about_sounds": "sound_to_text"}
"""The objective that each kind of texts beside sounds is usually read for by a text model that hears."""


@dataclass(frozen=True)
class Recognised:
    """The form of records, and the description of their data without paths."""

    form: RecordForm
    table: Mapping[str, Any]
    where: str

    @property
    def words(self) -> str:
        """What was recognised, in a line."""
        named = ", ".join(f"{name} = {value!r}" for name, value in self.table.items())
        return f"{self.form.words} ({named})"


def first_row(paths: Sequence[Path]) -> RecordRow | None:
    """The first record of some paths; None where they hold no records, but running text, or nothing that can be read."""
    try:
        for source in find_records(paths):
            for row in rows(source):
                return row
    except DataError:
        return None
    return None


def recognised(paths: Sequence[Path], kinds: Sequence[str] | None = None) -> Recognised | None:
    """The form of the first record, of one of these kinds; None where it is of none."""
    row = first_row(paths)
    found = None if row is None else _form(row, kinds)
    return None if row is None or found is None else Recognised(found, found.table(row.values), row.where)


def recognised_table(base: type[Data], paths: Sequence[Path]) -> Mapping[str, Any]:
    """The description of data of a family of kinds, by their first record; `DataError` lists its fields, forms and kinds."""
    kinds = [kind for kind in Data.kinds if issubclass(Data.kinds[kind], base)]
    found = recognised(paths, kinds)
    if found is not None:
        return found.table
    row = first_row(paths)
    forms = "; ".join(form.words for form in FORMS if form.kind in kinds)
    if row is None:
        where = next((path for path in paths if isfile(path)), ", ".join(paths))
        raise DataError(f"{where}: holds no records, which are wanted here: {forms}")
    other = _form(row, None)
    are = "" if other is None else f", which are {other.words} (kind {other.kind!r})"
    raise DataError(
        f"{row.where}: its fields are {', '.join(map(str, row.values)) or 'none'}{are}, and none of the forms that are read "
        f"here: {forms}. Rename them, or say which is which, as in --set data.kind={kinds[0]}; the kinds are {', '.join(kinds)}"
    )


def _form(row: RecordRow, kinds: Sequence[str] | None) -> RecordForm | None:
    return next((form for form in FORMS if (kinds is None or form.kind in kinds) and form.fits(row.values)), None)
