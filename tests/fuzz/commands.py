"""Cases of command lines, run in this process: every command and every option that there is, with hostile values."""

from __future__ import annotations

import contextlib
import io
import os
import random
from functools import cache
from pathlib import Path
from typing import Any

import typer

from anyformer.cli import app
from fuzz import hostile_files
from fuzz.guard import place
from fuzz.kind import Case, Kind

NAMES = ("gpt2", "llama-12m", "t5-small", "bert-base-uncased", "mixtral-8x7b", "deepseek-v3", "vit-base-16", "GPT2", "llama3")
VALUES = (
    "1", "2", "0", "-1", "7", "8k", "1.5", "0.5", "1e3", "1e9", "1e15", "1e400", "1e-400", "1e99999999999999999999",
    "9" * 5000, "nan", "inf", "-inf", "2147483648", "9223372036854775808", "1.3B", "70e9", "1E", "٣", "", " ", "=", "a=b",
    "none", "true",
    "ä", "x" * 5000, "..", "/", "no/such/place", "h100", "h1000", "a100", "train", "decode", "prefill", "gpt2", "params",
    "rope", "decoder", "encoder", "decoder.layer.attention.heads=" + "9" * 5000, "decoder.layer.attention.heads=2147483648",
    "decoder.layer.attention.heads=1e400", 'decoder.order="layer*2*1000000"', 'decoder.order="' + "(" * 3000 + '"',
    "decoder.order=[1]", "width=" + "[" * 3000, "width=9223372036854775808", "width=2147483647", "width=", "=1", "..=1",
    "decoder.layer.attention=none", "decoder={}", "embedding.vocab=2147483647", "head.tied=1", "data.paths=5", "steps=-1",
    "batch=1000000000", "length=1000000000", "plan.precision=fp3",
)  # fmt: skip
SLOW = {"--measure", "--help", "-h", "--install-completion", "--show-completion", "--version"}
"""Options that run something long by design, or that are not ours."""
FILES = tuple(hostile_files.FILES)
ONE_STEP = ("--tiny", "--set", "steps=1", "--set", "minutes=0.01", "--out", "out")
"""What ends a training at once, should one begin."""


def command(seed: int) -> Case:
    """One command line over a directory of hostile files."""
    draw = random.Random(seed)
    line = _line(draw)

    def run() -> None:
        with place() as inside, _inside(inside):
            hostile_files.write(inside, line)
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                _command()(args=line, prog_name="anyformer", standalone_mode=False)

    return run


@cache
def _command() -> Any:
    return typer.main.get_command(app)


def _line(draw: random.Random) -> list[str]:
    """A command, its arguments and up to three of its options; of those that train, few."""
    verbs = sorted(_command().commands)
    verb = draw.choice([each for each in verbs if each != "train"] * 3 + ["train"])
    line = [verb]
    for parameter in _command().commands[verb].params:
        if parameter.param_type_name == "argument":
            line += [_what(draw) for _ in range(draw.choice((1, 1, 1, 2)) if parameter.nargs == -1 else 1)]
    options = [each for each in _command().commands[verb].params if each.param_type_name == "option"]
    options = [each for each in options if not SLOW & set(each.opts)]
    for option in draw.sample(options, min(len(options), draw.choice((0, 1, 1, 2, 3)))):
        line.append(draw.choice(option.opts))
        if not option.is_flag:
            line.append(_what(draw) if draw.random() < 0.2 else draw.choice(VALUES))
    if draw.random() < 0.05:
        line.append(draw.choice(VALUES))
    return [*line, *ONE_STEP] if verb == "train" else line


def _what(draw: random.Random) -> str:
    """A name of the catalogue, a hostile file, or anything."""
    return draw.choice(draw.choice((NAMES, NAMES, FILES, FILES, VALUES)))


@contextlib.contextmanager
def _inside(place: Path) -> Any:
    before = Path.cwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


KINDS = {"commands": Kind(command, 1_000, 240)}
