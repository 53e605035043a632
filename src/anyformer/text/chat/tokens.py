"""Chats as tokens, by the chat template of their tokenizer, and which of them a model is to learn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from anyformer.text.chat.answers import TokenSpelling, answers, check_said, end_of
from anyformer.text.chat.conversation import ANSWERING, Chat, Turns
from anyformer.text.chat.encoding import Encoded, reading
from anyformer.text.chat.program import one_moment
from anyformer.text.chat.rendering import ChatWriter
from anyformer.text.errors import DataError
from anyformer.text.learnt import Learnt, shared
from anyformer.text.tokenizers import Tokenizer


def chat_tokens(tokenizer: Tokenizer, chat: Chat | Turns) -> Learnt:
    """The tokens of a chat as transformers' `apply_chat_template` gives them, and its answers.

    These are what the template marks by `{% generation %}`; of one without marks, what `answers` finds. Text that spells a
    special token stays text. `DataError` names a template that refuses the chat, leaves a turn out, or ends no answer.
    """
    with one_moment():
        writer, read = ChatWriter.of(tokenizer, Chat.of(chat)), reading(tokenizer)
        text, spans = writer.marked()
        check_said(writer, text)
        encoded = read.encode(text, writer.spelt(text))
        return Learnt(
            encoded.tokens,
            encoded.mask(spans if writer.marks else answers(writer, text, TokenSpelling(read.added, read.special))),
        )


def completion_tokens(tokenizer: Tokenizer, chat: Chat | Turns, completions: Sequence[Turns]) -> list[Learnt]:
    """The tokens of a chat with each of some completions, of which the completions are learnt.

    A completion begins where the tokens of the chat that asks for it, and of the chat with each completion, first differ (as in
    TRL): some templates write the end of a chat otherwise when it goes on.
    """
    asked = Chat.of(chat)
    with one_moment():
        prompt = _encoded(tokenizer, asked, prompt=True).tokens
        found = [_encoded(tokenizer, asked.but([*asked.messages, *more])).tokens for more in completions]
    begin = min(shared(prompt, tokens) for tokens in found)
    return [Learnt(tokens, np.arange(len(tokens)) >= begin) for tokens in found]


def prompt_tokens(tokenizer: Tokenizer, chat: Chat | Turns, *, marked: bool = False) -> list[int]:
    """The tokens of a chat up to where the next answer begins: what a model is given to go on with.

    `marked`: special tokens that a content spells are these tokens, such as those for images.
    """
    with one_moment():
        found: list[int] = _encoded(tokenizer, Chat.of(chat), prompt=True, marked=marked).tokens.tolist()
    return found


def answer_end(tokenizer: Tokenizer, template: str | None = None) -> int:
    """The token that ends an answer: the first behind what is said in a chat of one question."""
    turns = ({"role": "user", "content": "a"}, {"role": ANSWERING, "content": "b"})
    writer, read = ChatWriter.of(tokenizer, Chat(turns, template=template)), reading(tokenizer)
    text, _ = writer.marked()
    word = end_of(writer, text, 1, read.special)
    if word is None:
        raise DataError("the tokenizer's chat template ends no answer with a special token")
    return tokenizer.special_tokens[word]


def _encoded(tokenizer: Tokenizer, chat: Chat, prompt: bool = False, marked: bool = False) -> Encoded:
    writer = ChatWriter.of(tokenizer, chat)
    text, _ = writer.marked(prompt)
    if not prompt:
        check_said(writer, text)
    return reading(tokenizer).encode(text, () if marked else writer.spelt(text, prompt))


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
