"""`anyformer list`: whole at any width, exact in a pipe, and plain about what it does not have."""

from __future__ import annotations

import json
import re

import pytest

from anyformer.catalogue import listing
from anyformer.cli.aligned import fitting
from anyformer.cli.amounts import metric_range
from anyformer.cli.listing import filtered, page
from anyformer.cli.listing_columns import SHORT, short
from anyformer.costs.hardware import HARDWARE
from anyformer.describe import UserError


def plain(text):
    return re.sub(r"\x1b\[\d*m", "", text)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_nothing_is_cut_and_nothing_is_wider_than_the_terminal(width):
    lines = [plain(line) for line in page(listing(), width, grouped=True)]
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "…" not in text
    for entry in listing():
        row = next(line for line in lines if line.startswith(f"{entry.name} "))
        assert short(entry.columns.parameters) in row
        assert str(entry.year) in row


def test_a_wider_terminal_shows_more_columns():
    heads = [next(page(listing(), width, grouped=True)) for width in (80, 120, 200)]
    assert [len(plain(head).split()) for head in heads] == sorted({len(plain(head).split()) for head in heads})
    assert "attention" in heads[0]
    assert "position" in heads[1]


def test_every_organisation_stands_once_and_the_end_says_what_to_type():
    lines = [plain(line) for line in page(listing(), 80, grouped=True)]
    assert lines.count("Google") == 1
    assert f"{len(listing())} architectures." in lines
    assert "anyformer show NAME" in lines[-1]
    assert "Google" not in [plain(line) for line in page(listing(), 80, grouped=False)]


def test_what_is_not_public_is_marked_before_its_number(call):
    shown = [plain(line) for line in page(listing(), 80, grouped=True)]
    for name, number in (("gpt-4", "~174.6 B"), ("gemini-style-4t", "~4.331 T")):
        assert number in next(line for line in shown if line.startswith(f"{name} "))
    assert "~" not in next(line for line in shown if line.startswith("llama-3-8b "))
    assert any(line.startswith("~ is not exact") for line in shown)
    assert "no size and no detail is published" in " ".join(call("show", "gpt-4").stdout.split())
    assert "a stand-in, whose figures are not exact" in call("cost", "gpt-4").stdout
    assert "a stand-in, whose figures are not exact" not in call("cost", "gpt2").stdout
    assert "a stand-in, whose figures are not exact" in " ".join(call("plan", "gpt-4", "--gpus", "512").stdout.split())


def test_a_pipe_gets_one_exact_line_for_each(call):
    head, *rows = call("list", "gemma").stdout.splitlines()
    assert len(rows) == len(filtered([("text", "gemma")]))
    assert "27,009,346,304" in next(row for row in rows if row.startswith("gemma-3-27b"))
    assert head.split()[:4] == ["name", "year", "organisation", "parameters"]
    at = head.index("attention")
    assert {row[at - 1] for row in rows} == {" "}, "columns are aligned"


def test_a_pipe_may_ask_for_what_a_terminal_shows(call):
    short_table = call("list", "gemma", "--short", columns=80).stdout
    assert short_table == plain("\n".join(page(filtered([("text", "gemma")]), 80, grouped=True))) + "\n"


def test_json_is_everything(call):
    found = json.loads(call("list", "gpt-4", "--json").stdout)
    entry = next(each for each in found if each["name"] == "gpt-4")
    assert entry["columns"]["parameters"] == 174_604_259_328
    assert entry["stand_in"]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (["--shape", "foo"], "--shape: no architecture has 'foo' (known: encoder-decoder, encoder-only, decoder-only, latent)"),
        (["--position", "roped"], "did you mean 'rope'"),
        (["--norm", "rmsn"], None),
        (["--norm", "foo"], "sandwich"),
        (["--attention", "foo"], "mha"),
        (["--activation", "foo"], "swiglu"),
        (["--since", "3000"], "the newest architectures of the catalogue are of 2026"),
        (["--moe", "--shape", "latent"], "no architecture fits all of --shape latent, --moe: leave one of them out"),
        (["--has", "shared expertz"], "that `anyformer atlas TOPIC` names; did you mean 'shared experts'?"),
        (["--has", "qqqqqq"], "no mechanism is called 'qqqqqq'"),
        (["--has", "alibi", "--has", "NoPE"], 'fits all of --has "alibi", --has "NoPE"'),
        (["no such thing"], "in its name, organisation, summary or source"),
    ],
    ids=str,
)
def test_a_filter_that_finds_nothing_says_what_there_is(option, says, call):
    result = call("list", *option)
    assert result.returncode == (2 if says else 0)
    assert (says or "") in " ".join(result.stderr.split())


def test_filters_are_joined():
    with pytest.raises(UserError, match="fits all of --attention mla, --shape latent, --since 2017"):
        filtered([("attention", "mla"), ("shape", "latent")], since=2017)


@pytest.mark.parametrize(
    ("option", "words"),
    [("attention", ("gqa", "local")), ("norm", ("sandwich", "rms")), ("position", ("rope", "nope"))],
)
def test_a_filter_given_twice_asks_for_both(option, words, call):
    def names(*asked):
        return set(call("list", "--names", *(part for word in asked for part in (f"--{option}", word))).stdout.split())

    assert names(*words) == names(words[0]) & names(words[1]) != names(words[1])


def test_all_mechanisms_that_are_asked_for_are_there(call):
    both = {each.name for each in filtered({}, has=["shared experts", "MLA"])}
    shared, latent = ({each.name for each in filtered({}, has=[name])} for name in ("shared experts", "latent attention"))
    assert both == shared & latent
    assert "deepseek-v3" in both
    assert shared - latent
    assert call("list", "--has", "shared experts", "--has", "MLA", "--names").stdout.split() == [
        each.name for each in listing() if each.name in both
    ]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("1B..10B", 10**9, 10**10), ("..4B", 0, 4 * 10**9), ("1e12..", 10**12, 10**30), ("7B..7B", 7e9, 7e9)],
)
def test_sizes_are_from_one_to_the_other(text, low, high):
    for option, column in (("params", "parameters"), ("active", "active")):
        wanted = {each.name for each in listing() if low <= getattr(each.columns, column) <= high}
        found = {each.name for each in filtered([], sizes={column: metric_range(text)})} if wanted else set()
        assert found == wanted, option


def test_sizes_are_asked_on_the_command_line(call):
    names = call("list", "--params", "1B..10B", "--active", "..4B", "--moe", "--names").stdout.split()
    found = {each.name: each.columns for each in listing() if each.name in names}
    assert len(found) == len(names) > 3
    assert all(10**9 <= each.parameters <= 10**10 and each.active <= 4 * 10**9 and each.experts for each in found.values())
    for text, says in (
        ("7B", "'7B' is not a range like 1B..10B, ..4B or 70B.."),
        ("..", "'..' is not a range"),
        ("10B..1B", "'10B..1B' begins above its end: give 1B..10B"),
        ("1B..many", "'many' is not a number like 1.3B"),
    ):
        refused = call("list", "--params", text)
        assert refused.returncode == 2
        assert says in " ".join(refused.stderr.split())
    nothing = call("list", "mamba", "--params", "1T..")
    assert "no architecture fits all of 'mamba', --params 1T..: leave one of them out" in " ".join(nothing.stderr.split())


def test_counts_in_short():
    assert [short(number) for number in (8_030_261_248, 124_439_808, 1_026_408_232_448, 19_096)] == [
        "8.03 B", "124.4 M", "1.026 T", "19.1 k",
    ]  # fmt: skip


def test_columns_that_do_not_fit_or_say_nothing_are_left_out():
    cells = {"name": "abc", "empty": "", "wide": "x" * 30, "b": "y"}
    columns = [(head, lambda item, head=head: item[head]) for head in cells]

    def heads(width):
        return [head for head, _ in fitting(columns, [cells], width)]

    assert heads(20) == ["name", "b"]
    assert heads(60) == ["name", "wide", "b"]
    assert heads(1) == ["name"]
    assert SHORT[0][0] == "name"


def test_every_peak_of_the_table_can_be_asked_for(call):
    """Of every accelerator, as hardware.toml has them, and it is said which of them times come from."""
    printed = call("list", "--hardware").stdout
    head, *rows = printed.split("\n\n")[0].splitlines()
    told = json.loads(call("list", "--hardware", "--json").stdout)
    assert {item["name"]: item["peaks"] for item in told} == {name: dict(item.peaks) for name, item in HARDWARE.items()}
    formats = {name for item in HARDWARE.values() for name in item.peaks}
    assert formats == set(head.split()) & formats, "a format without a column"
    for item, row in zip(HARDWARE.values(), rows, strict=True):
        assert row.startswith(f"{item.name} ")
        figures = row.split()
        assert all(f"{peak / 1e12:,.4g}" in figures for peak in item.peaks.values()), item.name
    assert "no time is computed from them" in " ".join(printed.split())


def test_a_chip_without_bf16_is_priced_in_fp16_and_says_so(call):
    page = call("cost", "gpt2", "--hardware", "v100", "--length", "512").stdout
    assert page.startswith("gpt2: batch 1 x 512 tokens, fp16, on V100")
    assert "counted on: 125 TFLOP/s (fp16, as it has no bf16)" in page
    assert "Decode state in fp16" in page
    assert "125 TFLOP/s (fp16, as it has no bf16)" in call("plan", "gpt2", "--hardware", "v100", "--gpus", "8").stdout
    assert "fp16" not in call("cost", "gpt2", "--length", "512").stdout
