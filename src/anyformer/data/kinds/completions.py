"""Prompts and what follows them, as text or as turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike

from anyformer.data.kinds.chat_records import Dialogue
from anyformer.data.kinds.prompted import Prompted
from anyformer.data.records import Names
from anyformer.text.tokenizers import TokenArray, Tokenizer


class Completions(Prompted, Dialogue):
    """A prompt and its completion per record, texts or lists of turns; the completion is learnt, to its end.

    Two texts are written one after the other, with what the tokenizer puts around a text, and end with its end-of-text token;
    turns are written by the chat template. Tokens and what is learnt of them are those of TRL's `SFTTrainer`.
    """

    kind: Literal["completions"] = "completions"

    @property
    def plain_texts(self) -> bool:
        return not self.turns

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        found = self.learnt(record, tokens, tokenizer)
        return {"tokens": found.tokens, "answers": found.learnt}
