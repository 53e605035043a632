"""Prompts with an answer that was preferred and one that was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.columns import FLAGS, TOKENS, ColumnType
from anyformer.data.fields import field_of, text_field, turns_field
from anyformer.data.kinds.chats import Spoken, refuse_blank
from anyformer.data.records import Names
from anyformer.data.row import BadRecord, Row
from anyformer.text.chat import pieces_of, tokens_of
from anyformer.text.tokenizers import TokenArray, Tokenizer

FieldName = Annotated[str, Field(min_length=1)]
ANSWERS = ("chosen", "rejected")
"""The two chats of a record, the preferred one first."""


class Preferences(Spoken):
    """A prompt, the answer that was chosen and the one that was rejected, each a text or a list of turns.

    Both chats are kept whole: tokens, and beside each whether it belongs to the answer after the prompt.
    """

    kind: Literal["preferences"] = "preferences"
    prompt: FieldName = "prompt"
    """The field that holds the prompt."""
    chosen: FieldName = "chosen"
    """The field that holds the preferred answer; of turns, the prompt's may come first once more."""
    rejected: FieldName = "rejected"
    """The field that holds the other answer."""

    def record(self, row: Row) -> Mapping[str, Any]:
        prompt = _turns(row, self.prompt, "user")
        chosen, rejected = (_after(prompt, _turns(row, field, "assistant")) for field in (self.chosen, self.rejected))
        for field, answer in ((self.chosen, chosen), (self.rejected, rejected)):
            if not answer or answer[-1]["role"] != "assistant":
                raise BadRecord(row.where, f"field {field!r} does not end with a turn of the assistant", "add the answer")
            refuse_blank(row, answer, field)
        if chosen == rejected:
            raise BadRecord(row.where, f"fields {self.chosen!r} and {self.rejected!r} are the same", "leave the record out")
        return {"prompt": prompt, "chosen": chosen, "rejected": rejected}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return [turn["content"] for part in ("prompt", *ANSWERS) for turn in record[part]]

    def pieces(self, record: Mapping[str, Any], tokenizer: Tokenizer) -> list[str]:
        chats = (pieces_of(tokenizer, [*record["prompt"], *record[name]]) for name in ANSWERS)
        return [piece.text for chat in chats for piece in chat if not piece.special]

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return dict.fromkeys(ANSWERS, TOKENS) | {f"{name}_answers": FLAGS for name in ANSWERS}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        rest, columns, asked = iter(tokens), {}, len(record["prompt"])
        for name in ANSWERS:
            pieces = pieces_of(tokenizer, [*record["prompt"], *record[name]])
            own = [next(rest) for piece in pieces if not piece.special]
            columns[name], turns = tokens_of(pieces, own, tokenizer)
            columns[f"{name}_answers"] = (turns >= asked).astype("|u1")
        return columns


def _turns(row: Row, field: str, speaker: str) -> list[dict[str, str]]:
    """The turns in a field; a text is one turn of `speaker`."""
    if isinstance(field_of(row, field), list):
        return turns_field(row, field)
    return [{"role": speaker, "content": text_field(row, field)}]


def _after(prompt: list[dict[str, str]], turns: list[dict[str, str]]) -> list[dict[str, str]]:
    """Turns without the prompt's, if they begin with these."""
    return turns[len(prompt) :] if turns[: len(prompt)] == prompt else turns
