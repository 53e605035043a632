"""Chats of several turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.columns import FLAGS, TOKENS, ColumnType
from anyformer.data.fields import turns_field
from anyformer.data.records import Names, Records
from anyformer.data.row import BadRecord, Row
from anyformer.data.tokenizer_specs import TokenizerFile
from anyformer.text.chat import Turns, pieces_of, tokens_of
from anyformer.text.specials import SPEAKING, Specials
from anyformer.text.tokenizers import TokenArray, Tokenizer


class Spoken(Records):
    """What was said in turns, written by the tokenizer's chat template. The base of kinds of chats.

    A tokenizer made here writes `<|user|>` text `<|turn_end|>` `<|assistant|>` text `<|turn_end|>`; a file's has a
    `chat_template` of its own. No text that anybody said can become a special token.
    """

    @property
    def special(self) -> Specials:
        return Specials() if isinstance(self.tokenizer, TokenizerFile) else Specials(roles=SPEAKING)


class Dialogue(Spoken):
    """A chat in each record: its tokens, and beside each whether it belongs to an answer, the end of its turn included."""

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return [turn["content"] for turn in record["messages"]]

    def pieces(self, record: Mapping[str, Any], tokenizer: Tokenizer) -> list[str]:
        return [piece.text for piece in pieces_of(tokenizer, record["messages"]) if not piece.special]

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"tokens": TOKENS, "answers": FLAGS}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        line, turns = tokens_of(pieces_of(tokenizer, record["messages"]), tokens, tokenizer)
        return {"tokens": line, "answers": turns >= 0}


class Chats(Dialogue):
    """Chats of users with an assistant: `[{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]`."""

    kind: Literal["chats"] = "chats"
    messages: Annotated[str, Field(min_length=1)] = "messages"
    """The field that holds the turns."""

    def record(self, row: Row) -> Mapping[str, Any]:
        turns = turns_field(row, self.messages)
        if not any(turn["role"] == "assistant" for turn in turns):
            raise BadRecord(
                row.where, f"field {self.messages!r} has no turn of the assistant", "add an answer, or leave it out"
            )
        refuse_blank(row, turns, self.messages)
        return {"messages": turns}


def refuse_blank(row: Row, turns: Turns, field: str) -> None:
    """Refuse an answer that says nothing."""
    for place, turn in enumerate(turns):
        if turn["role"] == "assistant" and not turn["content"].strip():
            raise BadRecord(row.where, f"field '{field}.{place}.content' is an empty answer", "write one, or leave it out")
