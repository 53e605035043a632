"""What kinds of records of a prompt and what follows it share: texts or turns, and their tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyformer.data.fields import field_of, text_field
from anyformer.data.kinds.chat_records import ChatRecords, FieldName
from anyformer.data.row import BadRecord, RecordRow
from anyformer.data.turns import one_turn, refuse_blank
from anyformer.text.chat import completion_tokens
from anyformer.text.completions import continued, unended
from anyformer.text.learnt import Learnt
from anyformer.text.tokenizers import TokenArray, Tokenizer


class Prompted(ChatRecords):
    """A prompt and its completion per record, texts or lists of turns. The base of such kinds.

    Two texts are written one after the other, with what the tokenizer puts around a text, and end with its end-of-text token;
    turns are written by the chat template.
    """

    prompt: FieldName = "prompt"
    """The field that holds the prompt."""
    completion: FieldName = "completion"
    """The field that holds what follows it."""
    turns: bool = False
    """Take two texts as what a user says and what the assistant answers."""

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        prompt, completion = (field_of(row, name) for name in (self.prompt, self.completion))
        if not self.turns and not isinstance(prompt, list) and not isinstance(completion, list):
            said = {"prompt": text_field(row, self.prompt), "completion": text_field(row, self.completion)}
            if not said["completion"]:
                raise BadRecord(row.where, f"field {self.completion!r} is empty", "write a completion, or leave it out")
            return said
        asked, answered = one_turn(row, self.prompt, "user"), one_turn(row, self.completion, "assistant")
        refuse_blank(row, answered, self.completion)
        return {"prompt": asked, "completion": answered, **self.beside(row, asked, answered)}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        both = [record["prompt"], record["completion"]]
        return both if isinstance(record["prompt"], str) else self.spoken(*both)

    def pieces(self, record: Mapping[str, Any], tokenizer: Tokenizer) -> list[str]:
        prompt, completion = record["prompt"], record["completion"]
        return [prompt, unended(tokenizer, prompt + completion)] if isinstance(prompt, str) else []

    def learnt(self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer) -> Learnt:
        """The tokens of a record, and which are the completion's; `tokens`: those of its `pieces`."""
        if isinstance(record["prompt"], str):
            (found,) = continued(tokenizer, *tokens)
        else:
            (found,) = completion_tokens(tokenizer, self.chat(record, record["prompt"]), [record["completion"]])
        return found
