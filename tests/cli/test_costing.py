"""`anyformer cost` as a user meets it."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from anyformer.cli import app
from anyformer.describe import UserError


def call(*arguments):
    result = CliRunner().invoke(app, ["cost", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def lines(output):
    return dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in output.splitlines() if "  " in line.strip())


def test_one_architecture_says_where_the_time_goes():
    output = call("llama-3-8b", "--mode", "decode", "--batch", "8", "--hardware", "a100")
    assert "A100 SXM 80 GB: 312 TFLOP/s" in output
    assert "one more token for each of 8 sequences of 4,096" in output
    rows = lines(output)
    assert rows["parameters"] == "8,030,261,248"
    # 16.06 GB of weights but the table, and 4.3 GB of cache, at 85 % of 2,039 GB/s
    number, unit = rows["time of one step on one"].split()
    assert unit == "ms"
    assert 11 < float(number) < 12
    assert "feedforward products" in output
    assert "decoder." not in output


def test_several_stand_side_by_side():
    output = call("gpt2", "mixtral-8x7b", "--length", "512")
    header = next(line for line in output.splitlines() if "gpt2" in line)
    assert header.split() == ["gpt2", "mixtral-8x7b"]
    assert "12,879,925,248" in next(line for line in output.splitlines() if "used by one token" in line)
    assert "where the time goes" not in output
    assert "mixtral-8x7b: does not fit into one H100" in output


def test_json_says_the_same_in_numbers():
    (found,) = json.loads(call("t5-small", "--json", "--batch", "2", "--length", "64", "--source-length", "128"))
    assert found["shape"]["source"] == 128
    time = found["time"]
    assert time["hardware"] == "h100"
    assert time["tokens_per_second"] == pytest.approx(128 / time["seconds"])
    assert sum(operation["seconds"] for operation in time["operations"]) == pytest.approx(time["seconds"])
    assert {operation["bound"] for operation in time["operations"]} <= {"compute", "memory", "launch"}


def test_pictures(tmp_path):
    place = tmp_path / "cost.png"
    assert str(place) in call("gpt2", "--plot", str(place))
    assert place.read_bytes()[:4] == b"\x89PNG"


def test_unknown_hardware_is_named():
    with pytest.raises(UserError, match="no hardware is called 'h1000'; did you mean 'h100'"):
        call("gpt2", "--hardware", "h1000")
