"""What a chat asks first, read off its tokens."""

from __future__ import annotations

from collections.abc import Iterable

from anyformer.text.chat.conversation import Chat
from anyformer.text.chat.encoding import reading
from anyformer.text.chat.rendering import ChatWriter
from anyformer.text.errors import DataError
from anyformer.text.tokenizers import Tokenizer


def first_question(tokenizer: Tokenizer, tokens: Iterable[int], template: str | None = None) -> str:
    """What the user says first; empty where the text is no chat of the template's."""
    letter = "\ue0f0"
    try:
        writer = ChatWriter.of(tokenizer, Chat([{"role": "user", "content": letter}], template=template))
        before, found, after = writer.marked(prompt=True)[0].partition(letter)
    except DataError:
        return ""
    opened = [match.start() for match in reading(tokenizer).added.finditer(before)]
    header = before[opened[-1] :] if opened else before
    text = tokenizer.decode(tokens, special=True)
    begin = text.find(header) + len(header)
    end = text.find(after, begin)
    return text[begin:end].strip() if found and header in text and after and end >= 0 else ""
