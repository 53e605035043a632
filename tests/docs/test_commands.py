"""Every command line on a page, in a block or in a sentence, is one that the program takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from anyformer.cli import app

ROOT = Path(__file__).parents[2]
PROGRAM = typer.main.get_command(app)
LINE = re.compile(r"^\s*(?:\$ )?(anyformer [^#\n]*?)\s*(?:#.*)?$", re.M)
SPAN = re.compile(r"`(anyformer [^`]+)`")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
ENDS = re.compile(r"\s(?:[|>&]|&&)(?:\s|$).*", re.S)


def lines() -> list[tuple[str, str]]:
    found: dict[tuple[str, str], None] = {}
    for path in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs" / "reference").glob("*.md")),
    ]:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        blocks = BLOCK.findall(text)
        shown = [block for language, block in blocks if language in ("", "text", "bash", "console")]
        typed = [line for block in shown for line in LINE.findall(block)] + SPAN.findall(BLOCK.sub("", text))
        found |= dict.fromkeys((path.name, " ".join(ENDS.sub("", each).split())) for each in typed)
    return list(found)


def options(verb: str) -> set[str]:
    return {"-h", "--help"} | {name for each in PROGRAM.commands[verb].params for name in (*each.opts, *each.secondary_opts)}


@pytest.mark.parametrize(("page", "line"), lines(), ids=str)
def test_it_is_a_line_that_the_program_takes(page, line):
    verb, *words = ("1" if re.fullmatch("[A-Z]+", word) else word for word in shlex.split(line.replace("...", ""))[1:])
    if verb == "1" or verb.startswith("-"):  # any command, or the program itself
        return
    assert {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)} <= options(verb)
    whole = [word for word in words if not word.startswith("-") and word not in ("inspect", "prepare")]
    if whole and "--help" not in words and not words[-1].startswith("-"):  # else it only names the command, or its option
        PROGRAM.commands[verb].make_context(verb, words)


def test_pages_have_many():
    assert len(lines()) > 120
