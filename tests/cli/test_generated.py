"""Text of a model on a terminal and in a pipe."""

from __future__ import annotations

import pytest

from anyformer.cli.generated import safe, shown

HOSTILE = "a\x00\x07\x1b[2J\x7f\x9b\r\tb\né"


def test_control_characters_are_written_out_but_tab_and_newline():
    assert safe(HOSTILE) == "a\\x00\\x07\\x1b[2J\\x7f\\x9b\\x0d\tb\né"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_is_never_steered_and_a_pipe_gets_the_text_itself(monkeypatch, terminal):
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    assert shown(HOSTILE) == (safe(HOSTILE) if terminal else HOSTILE)
    assert shown("def", bold=True) == ("\x1b[1mdef\x1b[0m" if terminal else "def")


def test_generate_and_the_sample_show_what_a_model_makes_safely(monkeypatch, capsys):
    from types import SimpleNamespace

    from rich.console import Console

    from anyformer import generation
    from anyformer.cli import ending, generate

    monkeypatch.setattr(generation, "stream", lambda *a, **k: iter([(0, "\x1b[2J\x07")]))
    monkeypatch.setattr("anyformer.loading.load", lambda *a, **k: (None, None))
    monkeypatch.setattr(generation, "generating", lambda model, *a, **k: model)
    ending.print_sample(
        SimpleNamespace(before=None, prompts=("x\x00",), chat=False, model=None, tokenizer=None, deadline=None),
        Console(quiet=True),
    )
    assert capsys.readouterr().out == "x\\x00\\x1b[2J\\x07\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    generate.run("model", ["p"], max_tokens=1, temperature=0.0, seed=[0])
    assert capsys.readouterr().out == "\x1b[1mp\x1b[0m\\x1b[2J\\x07\n"
