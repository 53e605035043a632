"""Prompts with an answer that was preferred and one that was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal

from numpy.typing import ArrayLike

from anyformer.data.columns import FLAGS, NUMBER, TOKENS, ColumnType
from anyformer.data.fields import field_of, number_field, text_field
from anyformer.data.kinds.chat_records import ChatRecords, FieldName
from anyformer.data.records import Names
from anyformer.data.row import BadRecord, RecordRow
from anyformer.data.turns import is_turns, one_turn, refuse_blank
from anyformer.text.chat import completion_tokens
from anyformer.text.completions import continued, unended
from anyformer.text.tokenizers import TokenArray, Tokenizer

ANSWERS = ("chosen", "rejected")
"""The two chats of a record, the preferred one first."""


class Preferences(ChatRecords):
    """A prompt, the answer that was chosen and the one that was rejected, texts or lists of turns.

    Both are kept whole: tokens, and whether they belong to the answer after the prompt. Texts are written one after
    the other, with what the tokenizer puts around a text, and end with its end-of-text token; turns are written by the chat
    template. Tokens are those of TRL's `DPOTrainer`.
    """

    kind: Literal["preferences"] = "preferences"
    prompt: FieldName = "prompt"
    """The field that holds the prompt; where a record has none, it is what both answers begin with."""
    chosen: FieldName = "chosen"
    """The field that holds the preferred answer; of turns, the prompt's may come first once more."""
    rejected: FieldName = "rejected"
    """The field that holds the other answer."""
    turns: bool = False
    """Take texts as what a user says and what the assistant answers."""
    margin: FieldName | None = None
    """The field that says by how much the preferred answer is better, a number (`reward`)."""
    agreement: FieldName | None = None
    """The field that says which share of judges prefer the chosen answer, from 0 to 1 (`reward`)."""

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        said = [field_of(row, name) for name in (self.chosen, self.rejected)]
        made = self._spoken(row) if self.turns or any(map(is_turns, said)) else self._written(row)
        if made["chosen"] == made["rejected"]:
            raise BadRecord(row.where, f"fields {self.chosen!r} and {self.rejected!r} are the same", "leave the record out")
        rated = {column: number_field(row, field) for column, field in self.rated.items()}
        if not 0 <= rated.get("agreement", 1.0) <= 1:
            raise BadRecord(row.where, f"field {self.agreement!r} should be from 0 to 1, got {rated['agreement']}", "mend it")
        return made | rated

    @property
    def rated(self) -> dict[str, str]:
        """The columns that say how a pair was judged, and their fields."""
        fields = {"margin": self.margin, "agreement": self.agreement}
        return {column: field for column, field in fields.items() if field is not None}

    def _spoken(self, row: RecordRow) -> dict[str, Any]:
        both = [one_turn(row, field, "assistant") for field in (self.chosen, self.rejected)]
        prompt = one_turn(row, self.prompt, "user") if self.prompt in row.values else _shared(*both)
        chosen, rejected = (_after(prompt, turns) for turns in both)
        for field, answer in ((self.chosen, chosen), (self.rejected, rejected)):
            if not answer or answer[-1]["role"] != "assistant":
                raise BadRecord(row.where, f"field {field!r} does not end with a turn of the assistant", "add the answer")
            refuse_blank(row, answer, field)
        return {"prompt": prompt, "chosen": chosen, "rejected": rejected, **self.beside(row, prompt, chosen, rejected)}

    def _written(self, row: RecordRow) -> dict[str, Any]:
        chosen, rejected = (text_field(row, field) for field in (self.chosen, self.rejected))
        if self.prompt in row.values:
            prompt = text_field(row, self.prompt)
        else:
            prompt = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(chosen, rejected, strict=False)))
            prompt = prompt.removesuffix(" ")  # the blank before a word belongs to it
            chosen, rejected = chosen[len(prompt) :], rejected[len(prompt) :]
        for field, answer in ((self.chosen, chosen), (self.rejected, rejected)):
            if not answer.strip():
                raise BadRecord(row.where, f"field {field!r} is an empty answer", "write one, or leave it out")
        return {"prompt": prompt, "chosen": chosen, "rejected": rejected}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        parts = [record[part] for part in ("prompt", *ANSWERS)]
        return parts if isinstance(record["prompt"], str) else self.spoken(*parts)

    def pieces(self, record: Mapping[str, Any], tokenizer: Tokenizer) -> list[str]:
        prompt = record["prompt"]
        if not isinstance(prompt, str):
            return []
        return [prompt, *(unended(tokenizer, prompt + record[name]) for name in ANSWERS)]

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        answers = dict.fromkeys(ANSWERS, TOKENS) | {f"{name}_answers": FLAGS for name in ANSWERS}
        return answers | dict.fromkeys(self.rated, NUMBER)

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        if isinstance(record["prompt"], str):
            found = continued(tokenizer, *tokens)
        else:
            found = completion_tokens(tokenizer, self.chat(record, record["prompt"]), [record[name] for name in ANSWERS])
        columns: dict[str, ArrayLike] = {}
        for name, each in zip(ANSWERS, found, strict=True):
            columns |= {name: each.tokens, f"{name}_answers": each.learnt}
        return columns | {column: record[column] for column in self.rated}


def _shared(chosen: list[dict[str, Any]], rejected: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The turns with which both begin."""
    return [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(chosen, rejected, strict=False))]


def _after(prompt: list[dict[str, Any]], turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Turns without the prompt's, if they begin with these."""
    return turns[len(prompt) :] if turns[: len(prompt)] == prompt else turns
