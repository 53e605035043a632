"""Commands that answer a question: what was asked before is told again, without the packages that work it out.

An answer is kept as the items of its page under a digest of everything that it depends on: the question with its defaults,
every file of this package, and the libraries whose version enters. It is not kept where more enters: a file or directory that
the question names, a model of a hub or a store, a file that is to be written, a plug-in, this machine's own speed, something
told on standard error.
"""

from __future__ import annotations

import functools
import gc
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from os.path import lexists  # which no name is too long for
from pathlib import Path
from typing import Any

import typer

from anyformer.cache import Cache, contents, digest, shipped
from anyformer.cli import screen
from anyformer.cli.elsewhere import is_elsewhere
from anyformer.cli.pages import Item, parsed, plain
from anyformer.describe.plugins import named_plugins, tried_plugins

KEPT = Cache("answers")


@dataclass(frozen=True)
class Answer:
    """The items of a page, and the code that the command exits with; `lasting`: the same whenever it is asked."""

    page: Iterable[Item]
    code: int = 0
    lasting: bool = True


Ask = Callable[..., Answer | None]
"""What works an answer out; None: it did something else, and has said so."""


def answering(*libraries: str) -> Callable[[Ask], Callable[..., None]]:
    """A command that shows its answer, the kept one if there is one. `libraries`: those whose version enters into figures."""

    def deciding(ask: Ask) -> Callable[..., None]:
        @functools.wraps(ask)
        @_uncollected()
        def command(**options: Any) -> None:
            key = key_of(ask.__module__, options, libraries)
            answer = None if key is None else kept(key)
            if answer is not None:
                screen.show(answer.page)
            else:
                answer = _shown(ask, options)
                if key is not None and answer.lasting and key == key_of(ask.__module__, options, libraries):
                    KEPT.write(key, written(answer))
            if answer.code:
                raise typer.Exit(answer.code)

        return command

    return deciding


@contextmanager
def _uncollected() -> Iterator[None]:
    """Inside, no garbage is looked for: what a question imports stays, and going through it takes a tenth of its time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def key_of(verb: str, options: dict[str, Any], libraries: Iterable[str]) -> str | None:
    """The digest under which an answer is kept; None where more enters than can be told beforehand."""
    words = [word for value in options.values() for word in (value if isinstance(value, list) else [value])]
    places = any(isinstance(word, Path) or (isinstance(word, str) and _is_place(word)) for word in words)
    if places or named_plugins():
        return None
    try:
        return digest([verb, sorted(options.items()), contents(), [_version(name) for name in libraries]])
    except OSError:
        return None


def _is_place(word: str) -> bool:
    """Whether a word names a file, or what may change elsewhere."""
    return lexists(word) or is_elsewhere(word)


def kept(key: str) -> Answer | None:
    """The answer under a digest, asked before on this machine or shipped with the package."""
    found = KEPT.read(key) or shipped(key)
    return None if found is None else Answer(tuple(parsed(*each) for each in found["page"]), found["code"])


def written(answer: Answer) -> dict[str, Any]:
    """An answer as plain data."""
    return {"page": list(map(plain, answer.page)), "code": answer.code}


def _shown(ask: Ask, options: dict[str, Any]) -> Answer:
    """The answer, worked out and shown item by item."""
    items: list[Item] = []
    with _told() as told:
        answer = ask(**options)
        if answer is None:
            return Answer((), lasting=False)
        screen.show(_noted(answer.page, items))
    return Answer(items, answer.code, answer.lasting and not told and not tried_plugins())


def _noted(page: Iterable[Item], items: list[Item]) -> Iterator[Item]:
    for item in page:
        items.append(item)
        yield item


@contextmanager
def _told() -> Iterator[list[Any]]:
    """Inside, what is told as a warning is told and noted."""
    usual, told = warnings.showwarning, list[Any]()

    def shown(*message: Any, **more: Any) -> None:
        told.append(message)
        usual(*message, **more)

    with warnings.catch_warnings():
        warnings.showwarning = shown
        yield told


def _version(library: str) -> str:
    """What a library says of its version and how it was built, read without importing it."""
    found = find_spec(library)
    (place,) = (found and found.submodule_search_locations) or ("",)
    return (Path(place) / "version.py").read_text(encoding="utf-8")
