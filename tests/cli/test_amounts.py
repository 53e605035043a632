"""Numbers as people write them: read exactly, and bounded in words before anything is priced."""

from __future__ import annotations

import pytest
import typer

from anyformer.cli.amounts import metric, tokens
from anyformer.cli.arguments import check_counts
from anyformer.describe import UserError
from anyformer.dims import LONGEST


@pytest.mark.parametrize(
    ("text", "number"),
    [("8k", 8192), ("4M", 4 * 2**20), ("4_000", 4000), ("1e3", 1000), ("1.5k", 1536), ("9007199254740992", 2**53)],
)
def test_tokens(text, number):
    assert tokens(text) == number


@pytest.mark.parametrize(("text", "number"), [("1.3B", 13 * 10**8), ("70e9", 7 * 10**10), ("1e30", 10**30), ("0.1E", 10**17)])
def test_metric(text, number):
    assert metric(text) == number


@pytest.mark.parametrize("read", [tokens, metric])
@pytest.mark.parametrize("text", ["1e400", "1e31", "0", "0.2", "9" * 5000, "1e99999999999999999999", "1e999999999"])
def test_what_is_too_much_or_too_little(read, text):
    with pytest.raises(typer.BadParameter, match=r"should be at least 1 and at most [0-9,]+$"):
        read(text)


@pytest.mark.parametrize("read", [tokens, metric])
@pytest.mark.parametrize("text", ["", "nan", "inf", "-1", "1e-5", "k", "1kk", "1 2"])
def test_what_is_no_number(read, text):
    with pytest.raises(typer.BadParameter, match="is not a number like"):
        read(text)


@pytest.mark.parametrize("value", ["2e15", "5e15"])
@pytest.mark.parametrize("line", [("cost", "llama-12m"), ("match", "llama-12m", "--params", "1M")])
def test_a_length_that_cannot_be_priced_is_refused_at_once(call, line, value):
    done = call(*line, "--length", value)
    assert done.returncode == 2
    assert f"should be a whole number from 1 to {LONGEST:,}" in done.stderr


@pytest.mark.parametrize("line", [("cost", "llama-4-scout", "--mode", "decode"), ("diff", "gemma-3-27b", "qwen3-8b")])
def test_a_length_of_a_quadrillion_is_arithmetic(call, line):
    done = call(*line, "--length", "1e15")
    assert done.returncode == 0, done.stderr
    assert "1,000,000,000,000,000" in done.stdout


@pytest.mark.parametrize("name", ["steps", "batch", "length", "accumulation"])
def test_a_count_of_a_run_below_1_is_refused_before_torch_is_loaded(name):
    with pytest.raises(UserError, match=f"--set {name}: should be at least 1, got 0"):
        check_counts({name: 0})
    check_counts({name: 1, "other": 0})
