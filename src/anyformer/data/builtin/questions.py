"""Chats about functions: a question about one, answered by its docstring; every third has two turns, the signature first."""

from __future__ import annotations

from collections.abc import Iterator

from anyformer.data.builtin.code import functions
from anyformer.data.builtin.source import Builtin, Values, draw, standard_library
from anyformer.data.sources import SourceFile

_ASKED = ("What does `{}` do?", "What is `{}` for?", "Please explain `{}`.", "Tell me what `{}` does.")
_CALLED = ("How do I call `{}`?", "What are the arguments of `{}`?", "What is the signature of `{}`?")
_AFTER = ("And what does it do?", "What is it for?", "Thanks. What does it do?")


def _questions(source: SourceFile) -> Iterator[Values]:
    for function in functions(source):
        if not function.told:
            continue
        place = draw(f"{function.line} {function.name}", 36)
        asked = _ASKED[place % 4].format(function.name)
        if place % 3 == 0:
            called = _CALLED[place // 12].format(function.name)
            turns = [called, f"`{function.short}({function.arguments})`", _AFTER[place // 3 % 3], function.paragraph]
        else:
            turns = [asked, function.paragraph]
        yield (
            function.line,
            {"messages": [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(turns)]},
        )


QUESTIONS = Builtin(
    "python-questions",
    "Chats: questions about functions of Python's library, answered by their docstrings and signatures.",
    _questions,
    standard_library,
)
