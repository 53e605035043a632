"""`Frame`: what a tokenizer puts around texts: `<s> A`, `[CLS] A [SEP] B [SEP]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import tokenizers
from tokenizers import models, pre_tokenizers


class Framed(NamedTuple):
    """The tokens of one text or two with what stands around them, and the segment of each."""

    tokens: list[int]
    types: list[int]


@dataclass(frozen=True)
class Around:
    """The special tokens of a row, each with its segment: before the first text, and behind each.

    `texts`: which text stands in a place (0 the first, 1 the second), and its segment.
    """

    parts: tuple[tuple[tuple[int, int], ...], ...]
    texts: tuple[tuple[int, int], ...]

    def framed(self, texts: Sequence[Sequence[int]]) -> Framed:
        """The row of these texts."""
        tokens, types = [number for number, _ in self.parts[0]], [segment for _, segment in self.parts[0]]
        for (place, segment), behind in zip(self.texts, self.parts[1:], strict=True):
            tokens += [*texts[place], *(number for number, _ in behind)]
            types += [*([segment] * len(texts[place])), *(segment for _, segment in behind)]
        return Framed(tokens, types)

    def ending(self, end: int) -> Around:
        """With one more token behind all, in the segment of what stands before it."""
        segment = self.parts[-1][-1][1] if self.parts[-1] else self.texts[-1][1]
        return replace(self, parts=(*self.parts[:-1], (*self.parts[-1], (end, segment))))

    def begins(self, lengths: Sequence[int]) -> list[int]:
        """The place in the row at which each text begins; `lengths`: their tokens."""
        found, at = [0] * len(self.texts), len(self.parts[0])
        for (place, _), behind in zip(self.texts, self.parts[1:], strict=True):
            found[place] = at
            at += lengths[place] + len(behind)
        return found

    @property
    def before(self) -> tuple[int, ...]:
        """The special tokens before the first text."""
        return tuple(number for number, _ in self.parts[0])

    @property
    def behind(self) -> tuple[int, ...]:
        """The special tokens behind the last text."""
        return tuple(number for number, _ in self.parts[-1])

    @property
    def count(self) -> int:
        """Special tokens in the row."""
        return sum(map(len, self.parts))


@dataclass(frozen=True)
class Frame:
    """What the post-processor of a `tokenizer.json` adds to one text, and to a pair."""

    single: Around
    pair: Around

    @classmethod
    def of(cls, inner: tokenizers.Tokenizer, unused: int) -> Frame:
        """The frame of a tokenizer, found by letting its post-processor frame two letters. No token has the number `unused`, or
        the next one."""
        return cls.plain((), ()) if inner.post_processor is None else cls(_around(inner, unused, 1), _around(inner, unused, 2))

    @classmethod
    def plain(cls, first: Sequence[int], last: Sequence[int]) -> Frame:
        """`first A last`, `first A last B last`: of the pair the second text and what stands behind it have segment 1."""
        before, own, other = (tuple((each, segment) for each in side) for side, segment in ((first, 0), (last, 0), (last, 1)))
        return cls(Around((before, own), ((0, 0),)), Around((before, own, other), ((0, 0), (1, 1))))


def _around(inner: tokenizers.Tokenizer, unused: int, count: int) -> Around:
    """What is put around `count` texts of one token each, which is a number that the post-processor cannot add."""
    letters = _letters(unused)
    encodings = [letters.encode(letter, add_special_tokens=False) for letter in ("a", "b")[:count]]
    first, *second = encodings
    whole = inner.post_process(first, second[0] if second else None, True)
    texts = {encoding.ids[0]: place for place, encoding in enumerate(encodings)}
    parts: list[list[tuple[int, int]]] = [[]]
    places = []
    for number, segment in zip(whole.ids, whole.type_ids, strict=True):
        if number in texts:
            places.append((texts[number], segment))
            parts.append([])
        else:
            parts[-1].append((number, segment))
    return Around(tuple(map(tuple, parts)), tuple(places))


def _letters(first: int) -> tokenizers.Tokenizer:
    """A tokenizer of two letters, numbered from `first`, so that a text is one token whatever the other one does to text."""
    letters = tokenizers.Tokenizer(models.WordLevel({"a": first, "b": first + 1}, unk_token="a"))
    letters.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return letters
