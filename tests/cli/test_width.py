"""What prints tables of costs fits into a terminal of 80 columns, words and figures whole."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from anyformer.cli import answering, app
from anyformer.cli.aligned import blocks
from anyformer.cli.answering import key_of
from anyformer.costs.figures import count
from anyformer.costs.narrow_pages import narrow
from anyformer.costs.rows import FigureRow, Section
from anyformer.costs.text import lines

ASKED = (
    "plan llama-3-8b llama-3-70b --serve --users 8",
    "plan llama-3-8b --finetune",
    "cost t5-11b",
    "cost gpt2 llama-3-8b --length 1k",
    "cost gpt2 --explain attention --length 1k",
    "match mixtral-8x7b --like llama-3-8b",
    "atlas",
)


@pytest.fixture
def keeping(monkeypatch):
    """Answers are kept: `test_answering.py` asks that they are told again at any width as anew."""
    monkeypatch.setattr(answering, "key_of", key_of)
    monkeypatch.setattr(answering, "contents", lambda: "these files")
    monkeypatch.setattr(answering, "shipped", lambda key: None)


def said(command, **environment):
    result = CliRunner().invoke(app, command.split(), env=environment)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("command", ASKED)
def test_no_line_is_wider_than_the_terminal(command, keeping):
    output = said(command, COLUMNS="80")
    assert max(map(len, output.splitlines())) <= 80
    assert output.strip("\n") + "\n" == output, "neither begins nor ends with an empty line"
    wide = said(command, COLUMNS="400")
    assert set(wide.split()) <= set(output.split()), "nothing is left out"


def test_a_table_of_years_stands_in_equal_blocks():
    columns = [("", lambda row: row)] + [(str(year), lambda row: "1/2") for year in range(2020, 2026)]
    for width, parts in ((100, [6]), (41, [6]), (40, [3, 3]), (18, [2, 2, 2]), (11, [1] * 6), (1, [1] * 6)):
        made = blocks(columns, ["rows "], width)
        assert [len(block) - 1 for block in made] == parts
        assert [head for block in made for head, _ in block[1:]] == [head for head, _ in columns[1:]]


def test_columns_without_room_stand_below():
    section = Section(
        "Size", ("one", "two", "three"), (FigureRow("first", tuple(map(count, (1, 2, 3)))), FigureRow("other", (count(4),)))
    )
    assert [line.text for line in narrow(section, 20)] == [
        "Size     one  two",
        "  first    1    2",
        "  other    4",
        "",
        "Size     three",
        "  first      3",
    ]
    assert [line.text for line in lines((section,), 80)] == [line.text for line in lines((section,))]


def test_names_without_room_stand_above():
    section = Section("Sums", ("each", "all"), (FigureRow("so long a name of what is counted", (count(1000), count(20000))),))
    assert [line.text for line in narrow(section, 36)] == [
        "Sums   each     all",
        "  so long a name of what is counted",
        "      1,000  20,000",
    ]


@pytest.mark.parametrize("question", ["--serve", "--finetune --rank 4", "--gpus 1"])
def test_a_length_beyond_the_table_is_told_first(question):
    first = said(f"plan gpt2 {question} --length 2k").splitlines()[0]
    assert first == "gpt2: the decoder's position table ends at 1,024, so it cannot be run at 2,048"


def test_attention_is_explained_by_its_pairs_first():
    output = said("cost gpt2 --explain attention --length 1k")
    assert output.index("attention.scores") < output.index("attention.mix") < output.index("attention.query")
    assert output.index("attention.query") < output.index("Parameters")
    assert output.count("exact pairs: 1,024 x 1,025 / 2 = 524,800 of 1,048,576") == 2


def test_positions_have_a_row_of_the_decode_state():
    output = said("cost gpt2 --mode decode --length 1k")
    rows = {line.split("  ")[1]: line.split()[-6:] for line in output.splitlines() if line.startswith("  ")}
    assert rows["positions of tokens"] == ["8", "B", "8,192", "B", "8.192", "kB"]
    assert rows["all layers"][-2:] == ["37.75", "MB"]
    assert rows["together"][:2] == ["36,872", "B"]
    assert rows["together"][-2:] == ["37.76", "MB"]


def test_a_pipe_is_as_wide_as_is_easy_to_read():
    output = said("cost gpt2 llama-3-8b --length 1k --mode prefill")
    assert 80 < max(map(len, output.splitlines())) <= 100
