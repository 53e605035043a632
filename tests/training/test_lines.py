"""Lines of a run on a terminal: folded at blanks, but for those that are copied."""

from __future__ import annotations

import io

import pytest

from anyformer.training.lines import Lines, unbroken

HINT = (
    "this model is so small (23,744 parameters) that one thread may be faster [bold]: set OMP_NUM_THREADS=1 :smile: and go on"
)


def said(terminal: bool) -> Lines:
    return Lines(file=io.StringIO(), width=40, force_terminal=terminal, color_system=None)


def test_a_terminal_breaks_no_word():
    console = said(terminal=True)
    console.out(HINT, highlight=False)
    lines = console.file.getvalue().splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 40
    assert " ".join(line.rstrip() for line in lines) == HINT, "and what looks like markup is text"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_pipe_gets_lines_and_a_command_stays_whole(terminal):
    console = said(terminal)
    if not terminal:
        console.out(HINT, highlight=False)
    unbroken(console, HINT)
    assert console.file.getvalue() == f"{HINT}\n" * (2 - terminal)
