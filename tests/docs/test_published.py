"""The page of published runs says what its data, the cost sheet and the planner say."""

from __future__ import annotations

import importlib
import re
import statistics
from pathlib import Path

import pytest

from anyformer.costs.hardware import HARDWARE
from anyformer.operations import Shape
from anyformer.plan import Plan

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "published.md").read_text() + (DOCS / "reference" / "published.md").read_text()


@pytest.fixture(scope="module")
def maker():
    return importlib.import_module("make_published")


@pytest.fixture(scope="module")
def runs(maker):
    return maker.timed()


def lines() -> list[list[str]]:
    """Cells of the lines of the tables of times."""
    rows = [[cell.strip() for cell in line.split(" | ")] for line in PAGE.splitlines()]
    return [row for row in rows if len(row) == 11 and row[9] in ("fitted", "test")]


def test_the_page_holds_what_was_judged_by_source(maker):
    """Tables from the committed result; no source is in both halves of a generation; the picture is there."""
    by_source = importlib.import_module("published_by_source")
    assert by_source.section(maker.TEXT["sources"]).strip() in PAGE, "run: python docs/make_published.py"
    halves = {}
    for row in by_source.read():
        halves.setdefault((row["generation"], row["source"]), set()).add(row["half"])
    assert halves
    assert all(len(each) == 1 for each in halves.values())
    assert "<svg" in by_source.PICTURE.read_text(encoding="utf-8")


def test_sources_are_split_by_their_names_and_long_tables_count_no_more_than_short_ones(maker, runs):
    sources = importlib.import_module("published_sources")
    of = [run for run in runs if run.generation == "hopper" and not run.whole]
    named = sorted({run.source for run in of}, key=sources.checksum)
    assert sources.fitted_sources(of) == set(named[::2])
    counted = [run.source for run in sources.counted(of)]
    assert max(map(counted.count, named)) <= sources.MOST
    assert set(counted) == set(named)


def test_goals_are_kept_by_rates_and_by_sources_alike(maker, monkeypatch):
    by_source = importlib.import_module("published_by_source")
    row = {
        "generation": "blackwell",
        "half": "test",
        "mixture": False,
        "format": "bf16",
        "attention": "one kernel",
        "active": 1.0,
    }
    made = [{**row, "source": "long", "error": 0.04} for _ in range(9)] + [{**row, "source": "short", "error": -0.2}]
    assert by_source.medians(made) == (10, 2, 0.04, pytest.approx(0.12))
    mixtures = [{**row, "source": "m", "mixture": True, "format": "fp8", "error": 0.09}]
    fitted = [{**each, "half": "fitted", "error": error} for each in (row, mixtures[0]) for error in (-0.05, 0.05)]
    monkeypatch.setattr(by_source, "read", lambda: [*made, *mixtures, *({**each, "source": "f"} for each in fitted)])
    told = by_source.goals()
    assert "| Blackwell | 10% | 3, 11 | 4.0% | 9.0% | yes |" in told
    assert "| mixtures of experts | 8% | 1, 1 | 9.0% | 9.0% | no |" in told
    assert "| interval, dense: -5% to +5% | 90% inside |  | 90% inside |  | yes |" in told


def test_every_run_has_a_source_and_something_to_hold_against(maker):
    for run in maker.RUNS:
        assert run["source"]
        assert {"hours", "rate", "tflops", "flops", "mfu"} & run.keys(), run["name"]
    for table in maker.MEASURED["table"]:
        assert table["source"]
        assert {"rate", "tflops", "seconds"} & set(table["columns"])
        assert isinstance(table["checked"], bool)
        assert {len(row) for row in table["rows"]} == {len(table["columns"])}


def test_the_page_holds_the_flops_of_today(maker):
    for run in maker.RUNS:
        assert f"| {' | '.join(maker.flops_line(run))} |\n" in PAGE, run["name"]


def test_reported_utilisation_follows_from_reported_rates(maker):
    """Where authors give both a rate and an MFU, our FLOPs lead from one to the other."""
    found = {}
    for run in maker.RUNS:
        if "mfu" in run and {"rate", "tflops"} & run.keys():
            found[run["name"], run["gpus"]] = float(maker.flops_line(run)[6].rstrip("%")) / 100 / run["mfu"] - 1
    other_convention = found.pop(("nemotron-4-340b", 128))
    assert other_convention < -0.1
    assert len(found) >= 2
    assert max(abs(gap) for gap in found.values()) < 0.02


def test_the_networks_of_llm_foundry_have_the_parameters_that_it_prints(maker):
    """Of its table: name, positions, parameters."""
    runs = importlib.import_module("published_runs")
    printed = [("mpt-125m", 2048, 125311488), ("mpt-7b", 65536, 6918905856), ("mpt-30b", 8192, 30019254272)]
    printed += [("mpt-13b", 1024, 12848711680), ("mpt-70b", 2048, 64862437376)]
    for name, length, parameters in printed:
        assert runs.architecture(name, length).cost(Shape(), Plan()).parameters == parameters


@pytest.mark.parametrize("apart", [24, pytest.param(1, marks=pytest.mark.slow)])
def test_the_page_holds_the_predictions_of_today(maker, runs, apart):
    """Those in layouts of their authors, or one in so many; the others take the planner seconds."""
    for run in [each for each in runs if each.layout][::apart]:
        row = maker.Row(run, run.best(run.on, run.layouts(run.on)))
        assert f"| {' | '.join(maker.time_line(row))} |\n" in PAGE, (run.source, run.name, run.row)


def test_every_run_stands_in_the_page_in_the_half_of_its_checksum(maker, runs):
    assert len(lines()) == len(runs) >= 530
    assert sorted(row[9] for row in lines()) == sorted("fitted" if run.fitted else "test" for run in runs)
    assert len({(run.source, run.name, run.row) for run in runs}) == len(runs)


def test_the_median_error_on_runs_not_fitted_to_is_as_the_page_says():
    errors = [abs(float(re.match(r"[+-]\d+", row[7])[0])) for row in lines() if row[9] == "test"]
    (said,) = re.findall(r"the median error over all is ([\d.]+)%", PAGE)
    assert abs(statistics.median(errors) - float(said)) <= 0.5
    assert float(said) <= 6.5


def test_mixtures_come_out_as_the_page_says(runs):
    of_mixtures = {run.name for run in runs if run.mixture}
    assert {"deepseek-v3", "gpt-oss-120b", "deepseek-v2-4"} <= of_mixtures
    assert "llama-3-70b-12" not in of_mixtures
    errors = [
        abs(float(re.match(r"[+-]\d+", row[7])[0])) for row in lines() if row[9] == "test" and row[0].strip("| ") in of_mixtures
    ]
    (said,) = re.findall(r"Of mixtures of experts alone it is (\d+)%", PAGE)
    assert abs(statistics.median(errors) - int(said)) <= 0.5
    assert int(said) <= 15


@pytest.mark.parametrize(("title", "mixture"), [("dense", False), ("mixtures of experts", True)])
def test_nine_in_ten_are_where_the_page_says(runs, title, mixture):
    """Of rates, by the errors that the page shows of every run, to a whole percent."""
    of_mixtures = {run.name for run in runs if run.mixture}
    rates = [row for row in lines() if row[4] == "rate" and (row[0].strip("| ") in of_mixtures) is mixture]
    errors = {
        half: sorted(int(re.match(r"[+-]\d+", row[7])[0]) for row in rates if row[9] == half) for half in ("fitted", "test")
    }
    said = re.search(rf"\| {title} \| ([+-]\d+)% to ([+-]\d+)% \| (\d+) \| (\d+)% \|", PAGE)
    least, most, count, kept = map(int, said.groups())
    fitted, test = errors["fitted"], errors["test"]
    assert (fitted[round(0.05 * (len(fitted) - 1))], fitted[round(0.95 * (len(fitted) - 1))]) == (least, most)
    assert count == len(test)
    assert abs(100 * sum(least <= error <= most for error in test) / count - kept) <= 3


def test_experts_wait_for_hosts_as_long_as_fits_best(maker, runs):
    errors = importlib.import_module("published_fit").waits(runs)
    assert min(errors, key=errors.get) == 1000 * importlib.import_module("anyformer.planning.step").WAITS


def test_the_page_holds_the_memory_of_today(maker):
    ratios = {}
    for source, name, reported, found in maker.memories():
        assert f"| {' | '.join(maker.memory_line(source, name, reported, found))} |\n" in PAGE
        ratios.setdefault(source.split(",")[0], []).append(found.memory.total / reported)
    eager, compiled = ratios["torchtitan"][::2], ratios["torchtitan"][1::2]
    assert all(0.88 < ratio < 1 for ratio in eager), "torchtitan keeps logits in fp32"
    assert all(0.95 < ratio < 1 for ratio in compiled), "a compiler keeps less"
    megatron = [abs(ratio - 1) for ratio in ratios["SimuMax 1.2"]]
    assert len(megatron) == 36
    assert statistics.median(megatron) < 0.03
    assert max(megatron) < 0.06


def test_every_outlier_has_a_remark():
    for row in lines():
        assert ("outlier" in row[7]) <= bool(row[10].strip("| ")), row
        assert abs(int(re.match(r"[+-]\d+", row[7])[0])) <= 15 or "outlier" in row[7]


@pytest.mark.parametrize("generation", ["tpu-v4", "tpu-v5p", "hopper", "blackwell"])
def test_shares_are_those_that_fit_best(maker, runs, generation):
    fit = importlib.import_module("published_fit")
    of = [run for run in runs if run.generation == generation and run.layout]
    assert fit.fitted(of, of[0].on.efficiency) == of[0].on.efficiency
    assert {each.efficiency for each in HARDWARE.values() if each.generation == generation} == {
        HARDWARE[of[0].on.name].efficiency
    }
