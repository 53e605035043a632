"""Text of a model on a terminal and in a pipe."""

from __future__ import annotations

import pytest

from anyformer.cli.text_on_screen import safe, shown

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
    from anyformer.engines import Opened

    monkeypatch.setattr(generation, "stream", lambda *a, **k: iter([(0, "\x1b[2J\x07")]))
    monkeypatch.setattr("anyformer.engines.opened", lambda *a, **k: Opened(None, None))
    model = SimpleNamespace(architecture=SimpleNamespace(output_stack=SimpleNamespace(max_length=None)))
    ending.print_sample(
        SimpleNamespace(before=None, prompts=("x\x00",), chat=False, model=model, tokenizer=None, deadline=None, divided=False),
        Console(quiet=True),
    )
    assert capsys.readouterr().out == "x\\x00\\x1b[2J\\x07\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    generate.run("model", prompts=["p"], max_tokens=1, temperature=0.0, seed=[0])
    assert capsys.readouterr().out == "\x1b[1mp\x1b[0m\\x1b[2J\\x07\n"


@pytest.fixture(scope="module")
def filler():
    """A model that fills masks, with a table of 64 positions, and a tokenizer of its own."""
    from anyformer.catalogue import architecture
    from anyformer.data import Bytes
    from anyformer.data.vocabulary import make_tokenizer
    from anyformer.describe import change
    from anyformer.model.transformer import build
    from anyformer.text import Specials

    tokenizer = make_tokenizer(Bytes(), tuple, tuple, Specials(roles=("mask",)))
    described = change(architecture("bert-base-uncased", tiny=True), "embedding.vocab", tokenizer.vocab_size)
    assert described.output_stack.max_length == 64
    return build(described, seed=0).eval(), tokenizer


@pytest.mark.parametrize(("prompt", "fits"), [("def f", True), ("word " * 20, False)])
def test_a_sample_longer_than_the_position_table_is_shortened_or_left_out(filler, capsys, prompt, fits):
    """A run of docs/training.md was trained and saved, and ended with an error."""
    from types import SimpleNamespace

    from rich.console import Console

    from anyformer.cli.ending import print_sample

    model, tokenizer = filler
    trained = SimpleNamespace(
        before=None, prompts=(prompt,), chat=False, model=model, tokenizer=tokenizer, deadline=None, divided=False
    )
    assert print_sample(trained, Console(width=200)) == fits
    said = capsys.readouterr().out
    assert ("no sample: prompt and text reach 132 positions, and the position table ends at 64" in said) == (not fits)
    assert ("def f" in said) == fits


def test_wrong_arguments_are_refused_by_the_call_itself(filler):
    from anyformer.describe import InputError
    from anyformer.generation import stream

    model, tokenizer = filler
    with pytest.raises(InputError, match="position table ends at 64"):
        stream(model, tokenizer, ["def f"], max_tokens=160)
