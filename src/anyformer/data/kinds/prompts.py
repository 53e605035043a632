"""Prompts and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from anyformer.data.fields import field_of, text_field
from anyformer.data.kinds.chat_records import Dialogue, FieldName
from anyformer.data.row import RecordRow
from anyformer.data.turns import refuse_blank


class Prompts(Dialogue):
    """A prompt and its answer per record: a chat of one question, as instruction tuning reads pairs."""

    kind: Literal["prompts"] = "prompts"
    prompt: FieldName = "prompt"
    """The field that holds the prompt, such as `source` of pairs, or Alpaca's `instruction`."""
    input: FieldName | None = None
    """The field that holds what the prompt is about, which follows it on a line of its own where it is not empty, such as
    Alpaca's `input`."""
    answer: FieldName = "answer"
    """The field that holds the answer, such as `target` of pairs, or Alpaca's `output`."""
    system: FieldName | None = None
    """The field that holds a system's words; None: nothing is said before the prompt."""

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        asked = text_field(row, self.prompt)
        about = "" if self.input is None or field_of(row, self.input) is None else text_field(row, self.input)
        said = [
            ("system", "" if self.system is None else text_field(row, self.system)),
            ("user", f"{asked}\n{about}" if about else asked),
            ("assistant", text_field(row, self.answer)),
        ]
        turns = [{"role": role, "content": text} for role, text in said if text or role != "system"]
        refuse_blank(row, turns[-1:], self.answer)
        return {"messages": turns, **self.beside(row, turns)}
