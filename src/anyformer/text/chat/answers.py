"""Where the answers stand in a chat whose template does not mark them.

The answer of a turn is what a model has to write there: from behind the header of its turn, which the template writes to ask
for it (`add_generation_prompt`), to the end of what the template writes for the turn, whatever comes next. So it is what
`{% generation %}` would mark around the turn.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from anyformer.describe import Notice
from anyformer.text.chat.conversation import ANSWERING, replaced, said
from anyformer.text.chat.program import Span
from anyformer.text.chat.rendering import ChatWriter
from anyformer.text.errors import DataError


@dataclass(frozen=True)
class TokenSpelling:
    """What becomes a token of its own wherever a template writes it, and which of that is special."""

    added: re.Pattern[str]
    special: re.Pattern[str]


def answers(writer: ChatWriter, text: str, tokens: TokenSpelling) -> list[Span]:
    """The span of each of the assistant's turns in the text of a chat.

    `DataError` where an answer cannot be told from the text around it, or where nothing says that it ends.
    """
    found = [
        _plain_answer(writer, text, place, tokens) or _changed_answer(writer, text, place, tokens)
        for place, turn in enumerate(writer.chat.messages)
        if turn["role"] == ANSWERING
    ]
    if any(after[0] < before[1] for before, after in pairwise(found)):
        raise _unclear()
    for begin, end in found:
        if not _ends(text, begin, end, tokens.added):
            raise DataError(
                "the tokenizer's chat template ends an answer with no special token, and a model would not learn where to "
                "stop: mark its answers with {% generation %} and {% endgeneration %}, or end them with one"
            )
    return found


def check_said(writer: ChatWriter, text: str) -> None:
    """Refuse a template that leaves a turn out; what a system says some published ones leave out, of which a warning tells."""
    for place, turn in enumerate(writer.chat.messages):
        words = [each.strip() for each in said(turn) if each.strip()]
        if words and not any(each in text for each in words) and _without(writer, place) == text:
            left = f"the tokenizer's chat template leaves out what {turn['role']} says in turn {place}"
            if turn["role"] != "system":
                raise DataError(f"{left}: mend it")
            warnings.warn(left, Notice, stacklevel=3)


def end_of(writer: ChatWriter, text: str, place: int, tokens: re.Pattern[str]) -> str | None:
    """The token that ends the answer of a turn: the first behind what it says; None if there is none."""
    _, stop = _region(writer, text, place)
    found = tokens.search(text, stop)
    return None if found is None else found[0]


def _plain_answer(writer: ChatWriter, text: str, place: int, tokens: TokenSpelling) -> Span | None:
    """The answer, if the text begins with the chat up to it, and with the chat up to its end."""
    messages = writer.chat.messages
    before = writer.text(messages[:place], prompt=True) if place else None
    through = text if place == len(messages) - 1 else writer.text(messages[: place + 1])
    if not before or through is None or not text.startswith(through) or not through.startswith(before):
        return None
    return _header(before, tokens), len(through)


def _header(asking: str, tokens: TokenSpelling) -> int:
    """Where the header ends in a text that asks for an answer: it may go on with the answer's first words, such as `<think>`.

    These begin with an ordinary token behind the last special one.
    """
    opened = max((match.end() for match in tokens.special.finditer(asking)), default=0)
    ordinary = tokens.added.search(asking, opened)
    return len(asking) if ordinary is None else ordinary.start()


def _changed_answer(writer: ChatWriter, text: str, place: int, tokens: TokenSpelling) -> Span:
    """The answer around what changes in the text when the turn says something else."""
    messages = writer.chat.messages
    first, stop = _region(writer, text, place)
    alone = writer.text([*messages[:place], replaced(messages[place], writer.letter)]) or ""
    closing = alone[alone.rfind(writer.letter) + 1 :] if writer.letter in alone else ""
    tail = _common(text[stop:], closing, tokens.added)
    if closing and not tail:  # the last turn of a chat ends otherwise than others
        following = tokens.added.search(text, stop)
        tail = "" if following is None else text[stop : following.end()]
    return _begin(writer, text, place, first, tokens), stop + len(tail)


def _begin(writer: ChatWriter, text: str, place: int, first: int, tokens: TokenSpelling) -> int:
    """Where an answer whose words begin at `first` does: behind the header of its turn."""
    messages, earlier = writer.chat.messages, 0
    before = writer.text(messages[:place], prompt=True) if place else None
    if place:
        earlier = _region(writer, text, place - 1)[1]
    shared = _common(text[:first], before or "", tokens.added)
    if before and len(shared) > earlier:
        return _header(shared, tokens)
    # Its beginning is written otherwise when it is asked for: only what follows the turn before it is compared.
    said = writer.text([*messages[: place - 1], replaced(messages[place - 1], writer.letter)], prompt=True) if place else None
    asking = (said or "").rpartition(writer.letter)[2]
    return earlier + _header(_common(text[earlier:first], asking, tokens.added), tokens) if asking else first


def _region(writer: ChatWriter, text: str, place: int) -> Span:
    """The part of a text that changes when a turn says something else."""
    other = _without(writer, place)
    if other is None or other == text:
        raise _unclear()
    first = _shared(text, other)
    behind = _shared(text[first:][::-1], other[first:][::-1])
    return first, len(text) - behind


def _without(writer: ChatWriter, place: int) -> str | None:
    """The text of the chat when a turn says one letter in the place of everything."""
    messages = list(writer.chat.messages)
    messages[place] = replaced(messages[place], writer.letter)
    return writer.text(messages)


def _common(text: str, other: str, tokens: re.Pattern[str]) -> str:
    """What both texts begin with, without a part of a token."""
    cut = _shared(text, other)
    for whole in (text, other):
        cut = min((match.start() for match in tokens.finditer(whole) if match.start() < cut < match.end()), default=cut)
    return text[:cut]


def _shared(one: str, other: str) -> int:
    """How many characters both begin with, by bisection: comparing slices is faster than characters."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _ends(text: str, begin: int, end: int, tokens: re.Pattern[str]) -> bool:
    """Whether a token says that an answer is over: its last one, or the one with which the next turn begins, which that of the
    answer's own role then shows."""
    closed, opened = text[begin:end].rstrip(), text[:begin].rstrip()
    return any(_ends_with(each, tokens) for each in (closed, opened)) or tokens.match(text, end) is not None


def _ends_with(text: str, tokens: re.Pattern[str]) -> bool:
    matches: Sequence[re.Match[str]] = list(tokens.finditer(text))
    return bool(matches) and matches[-1].end() == len(text)


def _unclear() -> DataError:
    return DataError(
        "it cannot be told where the answers of a chat stand in the text that its template writes: mark them in the template "
        "with {% generation %} and {% endgeneration %}, or name such a template (template = 'training', or a path)"
    )
