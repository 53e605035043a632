"""Every `--help` page: whole sentences, no types, nothing cut, and examples that parse."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest
import typer

from anyformer.catalogue import listing
from anyformer.cli import COMMANDS, app
from anyformer.cli.aligned import folded
from anyformer.cli.help_page import examples

PROGRAM = typer.main.get_command(app)
NAMES = {entry.name for entry in listing()}


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_argument_and_option_has_a_help_text(verb):
    assert not [each.name for each in PROGRAM.commands[verb].params if not each.help], "say what it is: help=..."


def options(verb):
    return [each for each in PROGRAM.commands[verb].params if each.param_type_name == "option"]


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("verb", COMMANDS)
def test_nothing_is_cut(verb, columns, call):
    page = call(verb, "--help", columns=columns)
    assert page.returncode == 0
    assert "…" not in page.stdout
    assert max(map(len, page.stdout.split("Examples")[0].splitlines())) <= columns
    words = " ".join(page.stdout.split())
    for each in PROGRAM.commands[verb].params:
        assert each.help in words, "the whole sentence stands there"


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_option_is_a_sentence_that_names_no_type(verb):
    for each in PROGRAM.commands[verb].params:
        assert re.match(r"[A-Z`0-9]", each.help), each.name
        assert each.help.endswith("."), each.name
        flag = getattr(each, "is_flag", False)
        assert flag or re.fullmatch(r"\[?[A-Za-z_0-9.|=/:-]+]?", each.metavar or ""), (
            f"{each.name}: say what is typed, as metavar"
        )


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_command_has_examples_and_they_parse(verb):
    command = PROGRAM.commands[verb]
    shown = examples(command.epilog)
    assert shown
    for line in shown:
        program, said, *words = shlex.split(line)
        assert (program, said) == ("anyformer", verb)
        given = command.make_context(verb, words).params
        single = [given[name] for name in ("what", "left", "like", "name") if given.get(name) is not None]
        for value in [*single, *(given.get("names") or ()), *(given.get("others") or ())]:
            plugin = verb == "check" and value.startswith("my_")
            assert value in NAMES or "/" in value or plugin, f"{line}: no architecture is called {value!r}"


def test_the_program_says_its_exit_codes_and_where_to_start(call):
    page = call("--help").stdout
    assert "Exit codes" in page
    for code in ("  0 ", "  1 ", "  2 "):
        assert code in page
    for verb in COMMANDS:
        assert f"  {verb} " in page
    for line in examples(PROGRAM.epilog):
        words = shlex.split(line)[1:]
        assert PROGRAM.commands[words[0]].make_context(words[0], words[1:])


def test_a_wrong_option_is_one_line_that_names_the_nearest(call):
    wrong = call("cost", "gpt2", "--lenght", "4")
    assert wrong.returncode == 2
    assert wrong.stderr.splitlines()[0] == "Usage: anyformer cost NAME|PATH... [OPTIONS]"
    assert "No such option" in wrong.stderr
    assert "--length" in wrong.stderr


def test_a_terminal_breaks_no_word_of_a_message():
    text = "anyformer: run.toml:\n  optimiser.learning_rate: should be greater than 0, got -1.0 (float)\n\n  steps: is missing"
    assert folded(text, 40) == (
        "anyformer: run.toml:\n"
        "  optimiser.learning_rate: should be\n"
        "    greater than 0, got -1.0 (float)\n"
        "\n"
        "  steps: is missing"
    )
    assert folded(text, 100) == text


def test_a_question_imports_no_other_command():
    program = (
        "import sys; from anyformer.cli import COMMANDS, app; app(['list', 'llama'], standalone_mode=False)\n"
        "print([place for place, _ in COMMANDS.values() if f'anyformer.cli.{place}' in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert said.splitlines()[-1] == "['listing']"
