"""Chats of several turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from anyformer.data.kinds.chat_records import Dialogue, FieldName
from anyformer.data.row import BadRecord, RecordRow
from anyformer.data.turns import refuse_blank, turns_field


class Chats(Dialogue):
    """Chats of users with an assistant: `[{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]`.

    A turn may be `{"from": "human", "value": "..."}` too, as in ShareGPT, have parts as its content, `tool_calls`, or
    `reasoning_content`.
    """

    kind: Literal["chats"] = "chats"
    messages: FieldName = "messages"
    """The field that holds the turns."""

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        turns = turns_field(row, self.messages)
        if not any(turn["role"] == "assistant" for turn in turns):
            raise BadRecord(
                row.where, f"field {self.messages!r} has no turn of the assistant", "add an answer, or leave it out"
            )
        refuse_blank(row, turns, self.messages)
        return {"messages": turns, **self.beside(row, turns)}
