"""Chats as tokens, by the chat template of their tokenizer.

A template is a program in Jinja that writes a chat as one text (`chat_template` of a `tokenizer_config.json`). It runs in a
sandbox and never sees what was said: a placeholder stands for each content. So special tokens come from the template alone,
and text that spells `<|turn_end|>` stays text. What a template does to a content is not done, except that it may remove white
space at its ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyformer.text.errors import DataError
from anyformer.text.marked import encode_marked
from anyformer.text.tokenizers import TokenArray, Tokenizer

Turns = Sequence[Mapping[str, str]]
"""What was said, in order: `role` and `content` of each turn."""
Owners = NDArray[np.int64]
"""For each token the turn whose answer it belongs to; -1: none's."""
_OPEN, _CLOSE, _BEGIN, _END = "\ue0f0", "\ue0f1", "\ue0f2", "\ue0f3"
"""Letters for private use: around the number of a turn whose content stands here, and around an answer."""
_ANSWERING = "assistant"


@dataclass(frozen=True)
class Piece:
    """A part of a chat: one special token, or text in which there is none. `turn`: whose answer it belongs to; -1: none's."""

    text: str
    special: bool
    turn: int


def pieces_of(tokenizer: Tokenizer, turns: Turns) -> list[Piece]:
    """A chat in pieces; each answer begins with what the model is to say, and ends with the token that ends its turn.

    Of a template with `{% generation %}` marks these say what an answer is. `DataError` names a template that refuses the chat,
    leaves a turn out, or ends an answer with no special token.
    """
    parts = list(_parts(tokenizer, _rendered(tokenizer, turns, prompt=False)))
    shown = {int(text) for kind, text in parts if kind == _OPEN}
    missing = [place for place, turn in enumerate(turns) if turn["content"].strip() and place not in shown]
    if missing:
        place = missing[0]
        raise DataError(f"the tokenizer's chat template leaves out what {turns[place]['role']} says in turn {place}: mend it")
    owners = _marked(parts) if any(kind == _BEGIN for kind, _ in parts) else _unmarked(parts, turns)
    return _joined(parts, owners, turns)


def tokens_of(pieces: Sequence[Piece], texts: Sequence[TokenArray], tokenizer: Tokenizer) -> tuple[TokenArray, Owners]:
    """The tokens of a chat, and for each the turn whose answer it belongs to; `texts`: tokens of its texts."""
    specials, rest = tokenizer.special_tokens, iter(texts)
    arrays = [np.array([specials[piece.text]], dtype=np.uint32) if piece.special else next(rest) for piece in pieces]
    owners = [np.full(len(array), piece.turn, dtype=np.int64) for array, piece in zip(arrays, pieces, strict=True)]
    return np.concatenate([*arrays, np.zeros(0, np.uint32)]), np.concatenate([*owners, np.zeros(0, np.int64)])


def prompt_tokens(tokenizer: Tokenizer, turns: Turns, *, marked: bool = False) -> list[int]:
    """The tokens of a chat up to where the next answer begins: what a model is given to go on with.

    `marked`: special tokens that a content spells are these tokens, such as those for images.
    """
    parts = list(_parts(tokenizer, _rendered(tokenizer, turns, prompt=True)))
    pieces = _joined(parts, [-1] * len(parts), turns)
    texts = [piece.text for piece in pieces if not piece.special]
    read = [np.array(encode_marked(tokenizer, text), np.uint32) for text in texts] if marked else tokenizer.encode_batch(texts)
    tokens, _ = tokens_of(pieces, read, tokenizer)
    return [int(token) for token in tokens]


def first_question(tokenizer: Tokenizer, tokens: NDArray[Any]) -> str:
    """What the user says first, in a chat as a tokenizer made here writes it; empty for other templates."""
    begin, end, line = tokenizer.find("user"), tokenizer.find("turn_end"), tokens.tolist()
    if begin is None or end is None or begin not in line:
        return ""
    asked = line[line.index(begin) + 1 :]
    return tokenizer.decode(asked[: asked.index(end)]) if end in asked else ""


def answer_end(tokenizer: Tokenizer) -> int:
    """The token that ends an answer: the last of the answer of a chat of one question."""
    turns = ({"role": "user", "content": "a"}, {"role": _ANSWERING, "content": "b"})
    last = [piece for piece in pieces_of(tokenizer, turns) if piece.turn >= 0 and piece.special]
    if not last:
        raise DataError("the tokenizer's chat template ends no answer with a special token")
    return tokenizer.special_tokens[last[-1].text]


def _rendered(tokenizer: Tokenizer, turns: Turns, prompt: bool) -> str:
    template = tokenizer.chat_template
    if template is None:
        raise DataError(
            "this tokenizer has no chat template: give a directory whose tokenizer_config.json has `chat_template`, or learn a "
            "tokenizer here, which then has one"
        )
    if any(mark in template for mark in (_OPEN, _CLOSE, _BEGIN, _END)):
        raise DataError("the tokenizer's chat template holds one of U+E0F0 to U+E0F3, which mark contents here: leave it out")
    messages = [{"role": turn["role"], "content": _placeholder(place, turn["content"])} for place, turn in enumerate(turns)]
    named = {key: value for key in tokenizer.config if key.endswith("_token") and (value := tokenizer.named(key)) is not None}
    compiled, errors = _compiled(template)
    try:
        text: str = compiled.render(messages=messages, add_generation_prompt=prompt, tools=None, documents=None, **named)
    except errors as error:
        said = "; ".join(f"{turn['role']}: {turn['content'][:30]!r}" for turn in turns[:3])
        raise DataError(f"the tokenizer's chat template refuses a chat ({error}); the chat: {said}") from None
    return text


def _placeholder(place: int, content: str) -> str:
    """The number of a turn in the white space of its content; white space alone stays as it is."""
    core = content.strip()
    if not core:
        return content
    before, after = content.split(core, 1)
    return f"{before}{_OPEN}{place}{_CLOSE}{after}"


def _parts(tokenizer: Tokenizer, text: str) -> Iterator[tuple[str, str]]:
    """(what it is, text): plain text (`""`), a special token (`"special"`), a content's number (`_OPEN`), or marks."""
    at, pattern = 0, _pattern(tuple(tokenizer.strips.items()))
    for found in pattern.finditer(text):
        if found.start() > at:
            yield "", text[at : found.start()]
        at = found.end()
        if found["turn"] is not None:
            yield _OPEN, found["turn"]
        elif found["mark"] is not None:
            yield found["mark"], ""
        else:
            word = found["special"]
            yield "special", word if word in tokenizer.strips else word.strip()
    if at < len(text):
        yield "", text[at:]


@lru_cache(maxsize=16)
def _pattern(specials: tuple[tuple[str, tuple[bool, bool]], ...]) -> re.Pattern[str]:
    """Contents' numbers, marks and special tokens, the longest first; some of these take the white space beside them."""
    words = "|".join(
        (r"\s*" if before else "") + re.escape(name) + (r"\s*" if after else "")
        for name, (before, after) in sorted(specials, key=lambda each: len(each[0]), reverse=True)
    )
    return re.compile(f"{_OPEN}(?P<turn>[0-9]+){_CLOSE}|(?P<mark>[{_BEGIN}{_END}])|(?P<special>{words or '(?!)'})")


def _marked(parts: Sequence[tuple[str, str]]) -> list[int]:
    """Whose answer each part belongs to, as the template marks them: that of the content between the marks."""
    owners, inside = [-1] * len(parts), -1
    for place, (kind, _) in enumerate(parts):
        if kind == _BEGIN:
            stop = next((n for n in range(place, len(parts)) if parts[n][0] == _END), len(parts))
            said = [int(text) for what, text in parts[place:stop] if what == _OPEN]
            before = [int(text) for what, text in parts[:place] if what == _OPEN]
            inside = said[0] if said else (before[-1] if before else 0)
        elif kind == _END:
            inside = -1
        else:
            owners[place] = inside
    return owners


def _unmarked(parts: Sequence[tuple[str, str]], turns: Turns) -> list[int]:
    """Whose answer each part belongs to: an answer is a content of the assistant's, up to the special token behind it."""
    owners = [-1] * len(parts)
    for place, (kind, text) in enumerate(parts):
        if kind != _OPEN or turns[int(text)]["role"] != _ANSWERING:
            continue
        stop = next((n for n in range(place + 1, len(parts)) if parts[n][0] in ("special", _OPEN)), len(parts))
        if stop == len(parts) or parts[stop][0] == _OPEN:
            raise DataError(
                "the tokenizer's chat template ends an answer with no special token, so that a model would not learn where to "
                "stop: mark its answers with {% generation %} and {% endgeneration %}, or end them with one"
            )
        owners[place : stop + 1] = [int(text)] * (stop + 1 - place)
    return owners


def _joined(parts: Sequence[tuple[str, str]], owners: Sequence[int], turns: Turns) -> list[Piece]:
    """Pieces as long as may be, since tokens cross from a template's text into a content; they end where an answer does."""
    pieces: list[Piece] = []
    for (kind, text), owner in zip(parts, owners, strict=True):
        if kind in (_BEGIN, _END):
            continue
        if kind == "special":
            pieces.append(Piece(text, True, owner))
            continue
        plain = turns[int(text)]["content"].strip() if kind == _OPEN else text
        if pieces and not pieces[-1].special and pieces[-1].turn == owner:
            pieces[-1] = Piece(pieces[-1].text + plain, False, owner)
        elif plain:
            pieces.append(Piece(plain, False, owner))
    return pieces


@lru_cache(maxsize=16)
def _compiled(template: str) -> tuple[Any, tuple[type[Exception], ...]]:
    """The template as transformers compiles it, and the errors that it may raise."""
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %} ... {% endgeneration %}`: what a model is to say, between two marks."""

        tags = {"generation"}  # noqa: RUF012 (the library's own form)

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_answer"), [], [], body).set_lineno(line)

        def _answer(self, caller: Any) -> str:
            return f"{_BEGIN}{caller()}{_END}"

    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    environment.globals["raise_exception"] = refuse
    errors = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError)
    try:
        return environment.from_string(template), errors
    except TemplateError as error:
        raise DataError(f"the tokenizer's chat template is no Jinja ({error}); mend it") from None
