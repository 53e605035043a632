"""What somebody else wrote reaches a terminal without control characters."""

from __future__ import annotations

import ast
import io
import logging
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyformer import cli
from anyformer.cli.terminal import BROKEN_PIPE, Terminal, tell
from anyformer.describe import DescriptionError, Problem, UserError, printable

CONTROLS = [*map(chr, range(32)), *map(chr, range(0x7F, 0xA0)), "\udcff"]
HOSTILE = "".join(CONTROLS)
WORDS = st.text(st.sampled_from([*CONTROLS, *"ab ä\u4e00[;m0123456789"]))


def safe(text, but="\n"):
    return not [letter for letter in text if letter in CONTROLS and letter not in but]


@given(WORDS)
def test_words_are_printable(text):
    assert safe(printable(text))
    assert safe(printable(text, tabs=True), "\n\t")
    assert printable(printable(text)) == printable(text)
    assert text.isprintable() <= (printable(text) == text)


@given(WORDS)
def test_a_terminal_gets_style_alone(text):
    stream = io.StringIO()
    Terminal(stream).write(f"\x1b[1m{text}\x1b[0m")
    assert safe(re.sub(r"\x1b\[[\d;]+m", "", stream.getvalue()), "\n\t")


def test_a_terminal_does_not_obey():
    stream = io.StringIO()
    Terminal(stream).write("a\x1b[2J\x1b[8mb\x1b]0;t\x07\x9b1A\r\x1b[31mc\x1b[0m\n")
    assert stream.getvalue() == "a\\x1b[2J\\x1b[8mb\\x1b]0;t\\x07\\x9b1A\\x0d\x1b[31mc\x1b[0m\n"
    with pytest.raises(AttributeError):
        Terminal(stream).write(b"")


@pytest.mark.parametrize("error", [UserError(HOSTILE), DescriptionError([Problem(HOSTILE, HOSTILE)], HOSTILE)])
def test_no_error_prints_a_control_character(error, monkeypatch, capsys):
    def failing(**words):
        raise error

    monkeypatch.setattr(cli, "app", failing)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert "\\x1b" in said
    assert safe(said)


def test_no_notice_prints_a_control_character(monkeypatch, capsys):
    import warnings

    from anyformer.describe import Notice

    monkeypatch.setattr(cli, "app", lambda **words: warnings.warn(HOSTILE, Notice, stacklevel=2))
    cli.main()
    tell(HOSTILE)
    said = capsys.readouterr().err
    assert said.count("\\x07") == 2
    assert safe(said)


def test_commands_say_what_they_say_in_one_way():
    """A line for people goes through `tell`."""
    for path in Path(cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [ast.unparse(each.value) for each in getattr(node, "keywords", ()) if each.arg in ("file", "err")]
            assert path.name == "terminal.py" or not {"sys.stderr", "True"} & set(names), path


def test_a_command_on_a_terminal(tmp_path):
    """A file's own words come as escapes to both streams of a real terminal."""
    (tmp_path / "x.toml").write_text('"\\u001b[2J\\u0007" = 1\n')
    above, below = pty.openpty()
    words = [sys.executable, "-m", "anyformer", "show", str(tmp_path / "x.toml")]
    process = subprocess.Popen(words, stdin=below, stdout=below, stderr=below, env=os.environ | {"COLUMNS": "80"})
    os.close(below)
    said = b""
    while process.poll() is None or said == b"":
        try:
            said += os.read(above, 65536)
        except OSError:
            break
    process.wait()
    text = said.decode().replace("\r\n", "\n")
    assert process.returncode == 2
    assert "\\x1b[2J" in " ".join(text.split())
    assert safe(text)


def test_a_reader_that_leaves_ends_the_command_quietly():
    command = f"{sys.executable} -m anyformer list | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines()[1] == str(BROKEN_PIPE)


def test_libraries_keep_to_themselves_what_they_lack(monkeypatch):
    told: list[logging.LogRecord] = []
    monkeypatch.setattr(logging.Logger, "handle", lambda logger, record: told.append(record))
    logging.getLogger("another").warning("is heard")
    monkeypatch.setattr(cli, "app", lambda **words: [logging.getLogger(name).warning("Failed to load") for name in cli.LOUD])
    cli.main()
    assert [record.name for record in told] == ["another"]
