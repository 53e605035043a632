"""Prompts and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from anyformer.data.fields import text_field
from anyformer.data.kinds.chats import Dialogue, refuse_blank
from anyformer.data.row import Row

FieldName = Annotated[str, Field(min_length=1)]


class Prompts(Dialogue):
    """A prompt and its answer in each record: a chat of one question, as instruction tuning reads pairs."""

    kind: Literal["prompts"] = "prompts"
    prompt: FieldName = "prompt"
    """The field that holds the prompt, such as `source` of pairs."""
    answer: FieldName = "answer"
    """The field that holds the answer, such as `target` of pairs."""
    system: FieldName | None = None
    """The field that holds a system's words; None: nothing is said before the prompt."""

    def record(self, row: Row) -> Mapping[str, Any]:
        said = [("system", self.system), ("user", self.prompt), ("assistant", self.answer)]
        turns = [{"role": role, "content": text_field(row, field)} for role, field in said if field is not None]
        refuse_blank(row, turns, self.answer)
        return {"messages": turns}
