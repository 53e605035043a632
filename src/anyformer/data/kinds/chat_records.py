"""What kinds of chats share: the tokenizer's chat template writes them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.columns import FLAGS, TOKENS, ColumnType
from anyformer.data.description import Data, usual_tokenizer
from anyformer.data.recognising import recognised_table
from anyformer.data.records import Names, Records
from anyformer.data.row import BadRecord, RecordRow, shown
from anyformer.data.tokenizer_specs import TokenizerFile
from anyformer.data.turns import tools_field
from anyformer.describe.named import Named
from anyformer.text.chat import Chat, Turns, chat_tokens
from anyformer.text.chat.conversation import said
from anyformer.text.specials import SPEAKING, Specials
from anyformer.text.tokenizers import TokenArray, Tokenizer

if TYPE_CHECKING:
    from anyformer.model import Architecture

FieldName = Annotated[str, Field(min_length=1)]
_VARIABLES = "chat_template_kwargs"
"""The field of a record with variables of the template, as TRL calls it."""


class ChatRecords(Records):
    """What was said in turns, written by the tokenizer's chat template. The base of kinds of chats.

    A tokenizer made here writes `<|user|>` text `<|turn_end|>` `<|assistant|>` text `<|turn_end|>`; a file's has a
    `chat_template` of its own. No text that anybody said can become a special token.
    """

    template: FieldName | None = None
    """The chat template: a name among the tokenizer's, the path of one, or a name of TRL's if it is installed; `training` is
    TRL's changed form of the tokenizer's own. None: the tokenizer's."""
    template_set: Named[bool | int | float | str] = Named()
    """Variables of the template, as in `{ enable_thinking = false }`; a record's `chat_template_kwargs` come before these."""
    tools: FieldName = "tools"
    """The field that holds the JSON schemas of functions which a chat may call; it may be absent."""

    @classmethod
    def usual(cls, architecture: Architecture, paths: tuple[str, ...]) -> Self:
        """The kind of chats that the first record is; `DataError` lists its fields, and what there is."""
        table, tokenizer = recognised_table(cls, paths), usual_tokenizer(architecture)
        made = Data.kinds[table["kind"]].model_validate({**table, "paths": list(paths), "tokenizer": tokenizer.plain()})
        assert isinstance(made, cls), "forms are those of this family"
        return made

    @property
    def special(self) -> Specials:
        return Specials() if isinstance(self.tokenizer, TokenizerFile) else Specials(roles=SPEAKING)

    def content(self) -> dict[str, Any]:
        file = Path(self.template or "")
        text = {"template_text": hashlib.sha256(file.read_bytes()).hexdigest()} if self.template and file.is_file() else {}
        return super().content() | text

    def beside(self, row: RecordRow, *chats: Turns) -> dict[str, Any]:
        """What a record gives its template beside turns, where it gives anything."""
        if not isinstance(self.tokenizer, TokenizerFile):
            known = SPEAKING[:3]
            for role in (turn["role"] for turns in chats for turn in turns):
                if role not in known:
                    reason = f"somebody's role is {shown(role)}, and a tokenizer learnt here has special tokens for others"
                    raise BadRecord(row.where, reason, f"name one of {', '.join(known)}, or give a tokenizer with a template")
        tools, variables = tools_field(row, self.tools), row.values.get(_VARIABLES)
        if variables is not None and not isinstance(variables, Mapping):
            raise BadRecord(row.where, f"field {_VARIABLES!r} should be a table, got {shown(variables)}", "mend it")
        return ({"tools": tools} if tools else {}) | ({"variables": dict(variables)} if variables else {})

    def chat(self, record: Mapping[str, Any], turns: Turns) -> Chat:
        """Turns of a record, with all that its template is given."""
        variables = {**self.template_set, **record.get("variables", {})}
        return Chat(turns, record.get("tools"), variables=variables, template=self.template)

    def pieces(self, record: Mapping[str, Any], tokenizer: Tokenizer) -> list[str]:
        return []  # a chat's tokens are those of the whole of it

    @staticmethod
    def spoken(*chats: Turns) -> list[str]:
        """Everything that is said in some chats."""
        return [text for turns in chats for turn in turns for text in said(turn)]


class Dialogue(ChatRecords):
    """A chat per record: its tokens, and whether they belong to an answer, the end of its turn included."""

    @property
    def plain_texts(self) -> bool:
        """Whether prompts and answers are texts one behind the other, and no turns."""
        return False

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return self.spoken(record["messages"])

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"tokens": TOKENS, "answers": FLAGS}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        found = chat_tokens(tokenizer, self.chat(record, record["messages"]))
        return {"tokens": found.tokens, "answers": found.learnt}
