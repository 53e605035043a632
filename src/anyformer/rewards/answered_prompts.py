"""A file of prompts with answers that a model gave, as rewards read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from anyformer.data.fields import field_of, text_field, texts_field
from anyformer.data.row import BadRecord, RecordRow, shown
from anyformer.data.rows import rows
from anyformer.data.turns import is_turns
from anyformer.rewards.reward import Pair, Query, Response


@dataclass(frozen=True)
class AnsweredPrompt:
    """One answer to a prompt, and where it stands: `file:line`."""

    where: str
    query: Query
    response: Response

    @property
    def pair(self) -> Pair:
        """What a reward reads."""
        return self.query, self.response


def answered_prompts(path: str, prompt: str, answer: str, ended: str | None = None) -> list[AnsweredPrompt]:
    """Every answer in a file of records (`.jsonl`, `.csv`, `.parquet`, ...): the field `answer` of a record is one text or a
    list of them. `prompt`: a text, or turns, of which the last is what is asked. `ended`: the field that says whether the
    answer ended by itself."""
    found = [each for row in rows(path) for each in _of(row, prompt, answer, ended)]
    if not found:
        raise BadRecord(path, "holds no answer", f"give records with the fields {prompt!r} and {answer!r}")
    return found


def _of(row: RecordRow, prompt: str, answer: str, ended: str | None) -> Iterator[AnsweredPrompt]:
    asked, given = field_of(row, prompt), field_of(row, answer)
    text = str(asked[-1]["content"]) if is_turns(asked) else text_field(row, prompt)
    for response in texts_field(row, answer) if isinstance(given, list) else [text_field(row, answer)]:
        yield AnsweredPrompt(row.where, Query(text, dict(row.values)), Response(response, ended=_ended(row, ended)))


def _ended(row: RecordRow, name: str | None) -> bool:
    value: Any = True if name is None else field_of(row, name)
    if not isinstance(value, bool):
        raise BadRecord(row.where, f"field {name!r} should be true or false, got {shown(value)}", "mend it")
    return value
