"""A chat template as a program: Jinja in a sandbox, with the names that transformers gives a template."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from anyformer.text.chat.budget import TemplateLimit, budget_for
from anyformer.text.errors import DataError

if TYPE_CHECKING:
    from jinja2 import Template

Span = tuple[int, int]
"""Characters of a text, from the first to behind the last."""
_LONGEST = 100_000
"""Characters of a template: three times those of the longest published one."""
_LONGEST_REFUSAL = 1_000
"""Characters of a template's own words in an error."""
_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")


class TemplateRefusal(DataError):  # noqa: N818 (what happened, not what failed)
    """A template refuses a chat, or does with it what the sandbox does not allow."""


@dataclass
class _Marks:
    """What a template marks by `{% generation %}`, while it writes: `blocks` is what it has written so far."""

    blocks: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)


_marks: ContextVar[_Marks | None] = ContextVar("marks", default=None)
_now: ContextVar[datetime | None] = ContextVar("now", default=None)


@contextmanager
def one_moment() -> Iterator[None]:
    """Inside, `strftime_now` gives one time, so that a chat that is written twice is written alike."""
    token = _now.set(_now.get() or datetime.now())
    try:
        yield
    finally:
        _now.reset(token)


def marks_answers(template: str) -> bool:
    """Whether a template says by `{% generation %}` what an answer is."""
    return _GENERATION.search(template) is not None


def run(template: str, variables: Mapping[str, Any]) -> tuple[str, list[Span]]:
    """The text that a template writes, and the spans that it marks by `{% generation %}`, counted as transformers counts them.

    Raises `TemplateRefusal` with the template's own words.
    """
    program = compiled(template)
    marks = _Marks()
    token = _marks.set(marks)
    try:
        with budget_for(variables) as budget:
            for block in program.generate(**variables):
                budget.take(len(block))
                marks.blocks.append(block)
            text = "".join(marks.blocks)  # a TypeError where a block is no text, as of a filter over a block
    except TemplateLimit:
        raise
    except Exception as error:  # whatever Python says of what a template does
        raise TemplateRefusal(_words(error)) from None
    finally:
        _marks.reset(token)
    return text, marks.spans


def _words(error: Exception) -> str:
    """What an error says; the name of its class where its words are none, as a template can make them."""
    try:
        words = str(error)
    except Exception:
        words = ""
    return (words or type(error).__name__)[:_LONGEST_REFUSAL]


@lru_cache(maxsize=32)
def compiled(template: str) -> Template:
    """The template; `DataError` if it is no Jinja."""
    if len(template) > _LONGEST:
        raise DataError(f"the tokenizer's chat template has {len(template):,} characters, and at most {_LONGEST:,} are read")
    from jinja2 import TemplateError, nodes
    from jinja2.exceptions import SecurityError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.utils import Namespace

    from anyformer.text.chat.sandbox import Bounded

    class Generation(Extension):
        """`{% generation %} ... {% endgeneration %}`: what a model is to say."""

        tags = {"generation"}  # noqa: RUF012 (the library's own form)

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_answer"), [], [], body).set_lineno(line)

        def _answer(self, caller: Any) -> str:
            said: str = caller()
            marks = _marks.get()
            if marks is not None:
                begin = sum(map(len, marks.blocks))
                marks.spans.append((begin, begin + len(said)))
            return said

    def public(name: str) -> None:
        if name.startswith("_"):
            raise SecurityError(f"a namespace takes no name that begins with _, such as {name!r}")

    class PublicNamespace(Namespace):
        """A namespace whose names cannot reach Python's own attributes."""

        def __init__(*args: Any, **more: Any) -> None:
            own, *rest = args
            table = dict(*rest, **more)
            for name in table:
                public(name)
            Namespace.__init__(own, table)

        def __setitem__(self, name: str, value: Any) -> None:
            public(name)
            super().__setitem__(name, value)

    def refuse(message: Any) -> None:
        raise TemplateError(str(message))

    environment = Bounded(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    environment.add_filter("tojson", _to_json)
    environment.globals |= {
        "raise_exception": refuse, "strftime_now": _strftime_now, "dict": _Tables(), "namespace": PublicNamespace
    }  # fmt: skip
    try:
        return environment.from_string(environment.bounded(template))
    except Exception as error:  # also those of Python's own parser, which Jinja writes for
        raise DataError(f"the tokenizer's chat template is no Jinja ({error}); mend it") from None


class _Tables:
    """`dict` without what hangs on the class."""

    def __call__(self, *args: Any, **more: Any) -> dict[Any, Any]:
        return dict(*args, **more)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    # Jinja's own filter writes HTML, with < as an escape.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _strftime_now(form: str) -> str:
    return (_now.get() or datetime.now()).strftime(form)
