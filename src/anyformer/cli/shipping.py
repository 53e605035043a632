"""Answers the usual questions, to be shipped with the package: `python -m anyformer.cli.shipping`, a few minutes' work."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import tempfile
from collections.abc import Iterator, Sequence

from anyformer.cache import ship
from anyformer.cache.code import SHIPPED
from anyformer.catalogue import listing
from anyformer.cli import CLASSES, COMMANDS, app
from anyformer.cli.answering import KEPT
from anyformer.cli.bars import bar
from anyformer.cli.commands import Commands
from anyformer.cli.help_page import examples
from anyformer.describe import UserError

EACH = ("show", "cost")
"""What is asked of every architecture of the catalogue."""
SHOWN = ("show", "cost", "diff", "plan", "match")
"""Commands whose examples in `--help` are asked."""


def questions() -> list[str]:
    """The usual questions."""
    of_each = [f"{verb} {entry.name}" for entry in listing() for verb in EACH]
    commands = Commands(COMMANDS, CLASSES)
    shown = [example.removeprefix("anyformer ") for verb in SHOWN for example in examples(commands[verb].epilog)]
    return list(dict.fromkeys(of_each + shown))


def answers(asked: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The answers to questions by their digests, as a cache of their own keeps them."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), _cache(folder), bar("asking", len(asked)) as done:
        for number, question in enumerate(asked):
            # Some examples name a directory of the reader's, or draw: nothing is kept of them.
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(UserError):
                app(shlex.split(question), standalone_mode=False)
            for path in KEPT.place.iterdir() if KEPT.place.is_dir() else ():
                yield path.name, path.read_text(encoding="utf-8")
                path.unlink()
            done(number + 1)


@contextlib.contextmanager
def _cache(folder: str) -> Iterator[None]:
    """Inside, this folder is the user's cache directory."""
    before = os.environ.get("ANYFORMER_CACHE")
    os.environ["ANYFORMER_CACHE"] = folder
    try:
        yield
    finally:
        del os.environ["ANYFORMER_CACHE"]
        if before is not None:
            os.environ["ANYFORMER_CACHE"] = before


def main() -> None:
    """Ask, and write the archive."""
    SHIPPED.unlink(missing_ok=True)  # what is told from there is not worked out
    found = dict(answers(questions()))
    ship(found.items())
    print(f"{SHIPPED}: {len(found):,} answers, {SHIPPED.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
