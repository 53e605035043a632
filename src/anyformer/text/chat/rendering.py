"""A chat as the text that its template writes, with what in it was said and spells a special token."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from anyformer.text.chat.choosing import template_of
from anyformer.text.chat.conversation import Chat, Turns, flat
from anyformer.text.chat.program import Span, TemplateRefusal, marks_answers, run
from anyformer.text.errors import DataError
from anyformer.text.tokenizers import Tokenizer

_PRIVATE = range(0xE0F0, 0xF900)
_VARIABLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""The names under which a template finds special tokens, as in transformers."""


@dataclass(frozen=True)
class ChatWriter:
    """How a chat is written: its template, the special tokens' names, the chat as plain data."""

    chat: Chat
    template: str
    names: Mapping[str, str]
    spelling: re.Pattern[str]
    """The special tokens as text spells them."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, chat: Chat) -> ChatWriter:
        names = {key: value for key in _VARIABLES if (value := tokenizer.named(key)) is not None}
        found = cls(chat.plain(), template_of(tokenizer, chat), names, spelling(tuple(tokenizer.special_tokens)))
        return found._readable()

    @property
    def marks(self) -> bool:
        """Whether the template says what an answer is."""
        return marks_answers(self.template)

    @cached_property
    def letter(self) -> str:
        """A letter for private use that occurs nowhere in the chat or the template."""
        used = {letter for text in (self.template, *self.chat.texts()) for letter in text if ord(letter) >= _PRIVATE.start}
        found = next((chr(code) for code in _PRIVATE if chr(code) not in used), None)
        if found is None:
            raise DataError("a chat uses every letter for private use from U+E0F0 on, of which one must be free")
        return found

    def marked(self, prompt: bool = False) -> tuple[str, list[Span]]:
        """The text, and what the template marks as answers; `prompt`: up to where the next answer begins."""
        try:
            return self._run(self.chat, prompt)
        except TemplateRefusal as error:
            turns = "; ".join(f"{turn.get('role')}: {str(turn.get('content'))[:30]!r}" for turn in self.chat.messages[:3])
            raise DataError(f"the tokenizer's chat template refuses a chat ({error}); the chat: {turns}") from None

    def text(self, messages: Turns, prompt: bool = False) -> str | None:
        """The text of other turns; None where the template refuses them."""
        return self._other(self.chat.but(messages), prompt)

    def spelt(self, text: str, prompt: bool = False) -> tuple[int, ...]:
        """Where in a text that was written the chat's own words spell special tokens: the first character of each.

        They are found by writing the chat again with these words changed, in a way that changes nothing else.
        """
        if not any(map(self.spelling.search, self.chat.texts())):
            return ()
        for way in (self._hidden, self._followed, self._preceded):
            found = way(text, prompt)
            if found is not None:
                return found
        words = {match for said in self.chat.texts() for match in self.spelling.findall(said)}
        raise DataError(
            f"a chat spells {', '.join(map(repr, sorted(words)))}, which must not become a special token, and the template "
            "reads the contents, which hides the place of these words: leave them out of the chat, or give a template that "
            "does not look at contents"
        )

    def _hidden(self, text: str, prompt: bool) -> tuple[int, ...] | None:
        """Each word with another first letter, so that no length changes."""
        other = self._other(self.chat.changed(lambda said: self.spelling.sub(lambda m: self.letter + m[0][1:], said)), prompt)
        if other is None or len(other) != len(text):
            return None
        places = tuple(place for place, letter in enumerate(other) if letter == self.letter)
        rest = list(other)
        for place in places:
            rest[place] = text[place]
        return places if "".join(rest) == text else None

    def _followed(self, text: str, prompt: bool) -> tuple[int, ...] | None:
        """Each word with a letter behind it, so that what looks for the word finds it."""
        other = self._other(self.chat.changed(lambda said: self.spelling.sub(lambda m: m[0] + self.letter, said)), prompt)
        if other is None or other.replace(self.letter, "") != text:
            return None
        ends = [place - number for number, place in enumerate(_places(other, self.letter))]
        starts = {match.end(): match.start() for match in self.spelling.finditer(text)}
        return tuple(starts[end] for end in ends if end in starts)

    def _preceded(self, text: str, prompt: bool) -> tuple[int, ...] | None:
        """Each word with a letter before it."""
        other = self._other(self.chat.changed(lambda said: self.spelling.sub(lambda m: self.letter + m[0], said)), prompt)
        if other is None or other.replace(self.letter, "") != text:
            return None
        found = [place - number for number, place in enumerate(_places(other, self.letter))]
        starts = {match.start() for match in self.spelling.finditer(text)}
        return tuple(start for start in found if start in starts)

    def _other(self, chat: Chat, prompt: bool) -> str | None:
        try:
            return self._run(chat, prompt)[0]
        except TemplateRefusal:
            return None

    def _run(self, chat: Chat, prompt: bool) -> tuple[str, list[Span]]:
        given: dict[str, Any] = {**self.names, **chat.variables}
        return run(
            self.template,
            {
                **given, "messages": list(chat.messages), "tools": chat.tools, "documents": chat.documents,
                "add_generation_prompt": prompt,
            },
        )  # fmt: skip

    def _readable(self) -> ChatWriter:
        """The writer with parts of text joined, if its template reads contents as texts alone.

        Such a template refuses a list, or writes it as Python would.
        """
        joined = [flat(message) for message in self.chat.messages]
        if joined == list(self.chat.messages):
            return self
        text = self._other(self.chat, False)
        lists = [str(turn["content"]) for turn in self.chat.messages if isinstance(turn.get("content"), list)]
        if text is not None and not any(each in text for each in lists):
            return self
        return ChatWriter(self.chat.but(joined), self.template, self.names, self.spelling)


@lru_cache(maxsize=32)
def spelling(words: tuple[str, ...]) -> re.Pattern[str]:
    """Finds any of some words, the longest first."""
    return re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)")


def _places(text: str, letter: str) -> list[int]:
    return [place for place, each in enumerate(text) if each == letter]
