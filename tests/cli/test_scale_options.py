"""`anyformer plan` in pods and regions, in words and in JSON."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from anyformer.cli import app
from anyformer.cli.training_plan import usual_batch
from anyformer.describe import UserError

SMALL = ["plan", "pythia-410m", "--gpus", "70", "--length", "1k", "--pod", "8", "--region", "32"]


def said(*words, start=SMALL, columns="100"):
    result = CliRunner().invoke(app, [*start, *words], env={"COLUMNS": columns})
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*words, start=("plan", "gpt2")):
    with pytest.raises(UserError) as caught:
        CliRunner().invoke(app, [*start, *words], catch_exceptions=False)
    return str(caught.value)


@pytest.fixture(scope="module")
def found():
    return json.loads(said("--json"))


def test_accelerators_stand_in_equal_regions_of_whole_pods(found):
    scale = found["scale"]
    assert scale["accelerators"] == {"given": 70, "used": 64}
    assert found["gpus"] == 64
    assert [(tier["name"], tier["size"], tier["units"]) for tier in scale["tiers"]] == [("pod", 8, 8), ("region", 32, 2)]
    assert scale["extrapolated"] is False
    assert found["sequences"] == 64, "1,024 tokens for each"


def test_ways_agree_with_one_another(found):
    together, diloco, streaming = found["scale"]["ways"]
    assert together["step"] == found["fastest"][0]["seconds"]["total"]
    assert (together["outer_steps"], diloco["outer_steps"]["every"], streaming["outer_steps"]["bits"]) == (None, 500, 4)
    for each in (together, diloco, streaming):
        tokens = found["scale"]["tokens"]
        assert each["wall"] == pytest.approx(tokens / each["tokens_per_second"] / each["goodput"])
        assert each["accelerator_hours"] == pytest.approx(64 * each["wall"] / 3600)
        assert each["watt_hours"] == pytest.approx(each["accelerator_hours"] * 700 * 1.1)
        assert each["dollars"] == pytest.approx(each["accelerator_hours"] * 2)
    assert together["goodput"] < diloco["goodput"], "half the accelerators stop for a failure"


def test_the_page_says_where_they_stand_and_what_is_published():
    page = " ".join(said(columns="80").split())
    assert "2 regions of 32, out of each 1 Tbit/s (assumed: give yours with --between-regions)" in page
    assert "8 pods of 8, out of each 457.1 Gbit/s" in page
    assert "6 of 70 are left over and stand by" in page
    assert "as published (Douillard et al. 2023, arXiv 2311.08105, table 2)" in page
    assert "2.66 instead of 2.67" in page
    assert "not known here" in page
    assert "between regions" in page
    assert "Extrapolation" not in page
    assert "at 50,000 hours per accelerator" in page
    assert "(assumed: give yours with --rate)" in page
    assert max(map(len, said(columns="80").splitlines())) <= 80


def test_options_count():
    words = "--rate 3 --power 1000 --pue 1.3 --between-regions 8 --between-pods 1 --inner-steps 20 --mtbf 1000 --tokens 1B"
    page = " ".join(said(*words.split()).split())
    assert "1,000 W per accelerator all the time, PUE 1.3" in page
    assert "$3.00 per accelerator-hour." in page
    assert "out of each 8 Gbit/s;" in page
    assert "8 pods of 8, out of each 64 Gbit/s" in page
    assert "DiLoCo, every 20 " in page
    assert "at 1,000 hours per accelerator" in page
    assert "simulated runs: goodput" in page, "with --mtbf the page of failures too"


def test_one_network_has_no_such_page():
    page = said(start=["plan", "gpt2", "--gpus", "8"])
    assert "regions" not in page
    assert "scale" not in json.loads(said("--json", start=["plan", "gpt2", "--gpus", "8"]))


def test_fewer_accelerators_than_a_pod_are_one_network():
    scale = json.loads(said("--json", start=["plan", "gpt2", "--gpus", "8", "--pod", "16"]))["scale"]
    assert (scale["tiers"], scale["ways"]) == ([], [])
    assert "Network: 400 Gbit/s per accelerator" in said(start=["plan", "gpt2", "--gpus", "8", "--pod", "16"])


def test_a_hundred_thousand_accelerators_are_extrapolation():
    words = ["plan", "llama-3-70b", "--gpus", "100000", "--show", "1"]
    page = " ".join(said(start=words).split())
    assert "Extrapolation: no run above 16,384 accelerators is published" in page
    assert "4 regions of 24,576" in page
    assert "32 pods of 3,072" in page
    assert "1,696 of 100,000 are left over and stand by" in page


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--region", "64"), "--region: 8 accelerators stand in one pod unless --pod says how many one has"),
        (("--pod", "8", "--gpus", "64", "--region", "20"), "--region 20 is no number of pods of 8 accelerators: try 16"),
        (("--pod", "8", "--pue", "0.5"), "--pue is energy of all over energy of a part, 1 or more, got 0.5"),
        (("--pod", "8", "--between-regions", "0"), "--between-regions should be above 0, got 0"),
        (("--pod", "8", "--gpus", "64", "--between-pods", "90"), "90 GB/s between pods is more than the 50 GB/s"),
        (("--pod", "8", "--gpus", "64", "--inner-steps", "1"), "--inner-steps 1: Streaming DiLoCo sends the model in 8 parts"),
        (("--pod", "8", "--serve"), "--pod is about training in pods"),
        (("--tokens", "1T", "--serve"), "--tokens is the length of a training run"),
    ],
)
def test_what_cannot_be_is_refused_by_the_name_of_its_option(words, told):
    assert told in refused(*words)


@pytest.mark.parametrize(
    ("ranks", "length", "sequences"), [(98304, 8192, 12288), (98304, 1024, 98304), (64, 256, 256), (1, 8192, 1)]
)
def test_a_step_in_pods_has_about_as_many_tokens_for_each_as_llama_3(ranks, length, sequences):
    assert usual_batch(ranks, length, in_pods=True) == sequences * length
    assert usual_batch(ranks, 8192, in_pods=False) == 2**22
