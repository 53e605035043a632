"""What stands around a text that a model reads as a whole, to say something of it."""

from __future__ import annotations

from anyformer.text.frame import Frame
from anyformer.text.specials import END_OF_TEXT, FRAMING, ROLES
from anyformer.text.tokenizers import Tokenizer


def row_frame(tokenizer: Tokenizer) -> Frame:
    """The tokenizer's own frame; `[CLS] A [SEP]` of one that was made here for several objectives, and has these tokens."""
    keys = {"eos_token": END_OF_TEXT} | {ROLES[role].key: ROLES[role].own for role in FRAMING}
    if tokenizer.frame.single.count or any(tokenizer.named(key) != name for key, name in keys.items()):
        return tokenizer.frame
    first, last = (tokenizer.special(role) for role in FRAMING)
    return Frame.plain([first], [last])
