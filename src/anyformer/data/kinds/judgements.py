"""Prompts with an answer each, and whether it is as it should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike

from anyformer.data.columns import FLAGS, LABEL, TOKENS, ColumnType
from anyformer.data.fields import truth_field
from anyformer.data.kinds.chat_records import FieldName
from anyformer.data.kinds.prompted import Prompted
from anyformer.data.records import Names
from anyformer.data.row import RecordRow
from anyformer.text.tokenizers import TokenArray, Tokenizer


class Judgements(Prompted):
    """A prompt, an answer and whether it is desirable per record; no answer needs another to be compared with.

    Texts or lists of turns, written as `completions` are. The rows are those of TRL's `KTOTrainer`.
    """

    kind: Literal["judgements"] = "judgements"
    label: FieldName = "label"
    """The field that says whether the answer is desirable: true or false."""

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        return {**super().record(row), "desirable": truth_field(row, self.label)}

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"tokens": TOKENS, "answers": FLAGS, "desirable": LABEL}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        found = self.learnt(record, tokens, tokenizer)
        return {"tokens": found.tokens, "answers": found.learnt, "desirable": int(record["desirable"])}
