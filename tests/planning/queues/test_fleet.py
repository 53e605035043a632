"""The cheapest fleet, by trying all, and what `anyformer plan --serve --arrivals` says of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import anyformer as af
from anyformer.cli import app
from anyformer.costs.named_hardware import hardware_of
from anyformer.describe import UserError
from anyformer.plan import Plan
from anyformer.planning.queues.distributions import lengths
from anyformer.planning.queues.engine import EngineRules
from anyformer.planning.queues.fleet import FleetSearch
from anyformer.planning.queues.outcome import Limits
from anyformer.planning.queues.requests import Traffic
from anyformer.planning.serving import LayoutSearch

GPUS, RULES = hardware_of("l40s"), EngineRules()
NONE = Limits()
TRAFFIC = Traffic(40.0, lengths("lognormal(400, 0.7)", 900), lengths("lognormal(50, 0.5)", 120))


def search(limits=NONE, disaggregated=False, count=600, traffic=TRAFFIC, name="llama-3.2-1b"):
    requests = traffic.draw(count)
    layouts = LayoutSearch(af.architecture(name), 256, requests.longest, GPUS, "bf16", Plan(precision="bf16"))
    return FleetSearch(layouts, requests, RULES, limits, disaggregated=disaggregated)


def said(*arguments, code=0):
    result = CliRunner().invoke(app, ["plan", *arguments], env={"COLUMNS": "1000"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def test_the_cheapest_fleet_is_the_least_of_all_that_keep_the_limits():
    asked = search(Limits(ttft=0.4, tpot=0.03), count=250, traffic=replace(TRAFFIC, rate=240.0))
    best = asked.offers()[0]
    assert asked._kept(best.outcome)
    fewer = [offer for count in range(1, best.accelerators) for offer in asked.offers(count) if asked._kept(offer.outcome)]
    assert fewer == []
    assert best.accelerators > 1
    loose = search(Limits(ttft=4.0)).offers()[0]
    assert loose.accelerators <= best.accelerators


def test_the_price_is_hours_of_accelerators_over_tokens_that_are_asked_for():
    asked = search(Limits(ttft=0.5))
    offer = asked.offers()[0]
    tokens = asked.requests.rate * asked.requests.output.mean()
    assert offer.price(3.0) == pytest.approx(offer.accelerators * 3.0 / 3600 / tokens * 1e6)
    few = search(traffic=replace(TRAFFIC, rate=4000.0)).offers(1)[0]
    assert few.outcome.overloaded
    assert few.price(3.0) == pytest.approx(3.0 / 3600 / few.outcome.tokens_per_second * 1e6)


def test_engines_that_read_stand_apart():
    offer = search(Limits(ttft=0.5, tpot=0.03), disaggregated=True).offers()[0]
    assert offer.fleet.readers >= 1
    assert offer.accelerators == offer.layout.ranks * (offer.fleet.readers + offer.fleet.engines)
    assert offer.outcome.within(Limits(ttft=0.5, tpot=0.03)) >= 0.95


def test_limits_that_nothing_keeps_are_refused_with_what_can_be_kept():
    with pytest.raises(UserError, match=r"no number of engines on L40S.*first token within 0\.0\d+ s and every further one"):
        search(Limits(ttft=1e-4)).offers()
    with pytest.raises(UserError, match=r"llama-3-70b: 141.1 GB of weights and a text of .* have no room on 2 L40S"):
        said("llama-3-70b", "--serve", "--arrivals", "1", "--gpus", "2", "--hardware", "l40s")


def test_the_page_says_the_fleet_first_and_json_says_the_same(tmp_path):
    asked = ("llama-3.2-1b", "--serve", "--arrivals", "60/min", "--limit-ttft", "300ms", "--simulated", "100")
    asked += ("--prompt-tokens", "uniform(100, 200)")
    asked += ("--output-tokens", "8", "--rate", "1.5")
    lines = said(*asked, "--plot", str(tmp_path / "load.png")).splitlines()
    told = json.loads(said(*asked, "--json"))[0]
    best = told["offers"][0]
    assert lines[0].startswith(f"llama-3.2-1b: {best['accelerators']} H100 (1 engine of 1: one rank) for ")
    assert f"{best['within_limits']:.1%} of them keep the first token within 300 ms" in lines[0]
    assert lines[1] == "at $1.50 per accelerator-hour"
    assert told["requests_per_second"] == pytest.approx(1.0)
    assert best["ttft"]["p50"] <= best["ttft"]["p95"] <= best["ttft"]["p99"]
    assert (tmp_path / "load.png").stat().st_size > 10_000


def test_requests_of_a_file(tmp_path):
    file = tmp_path / "requests.csv"
    file.write_text("arrived,prompt,output\n0.0,100,5\n2.5,300,7\n1.0,50,1\n")
    told = json.loads(said("llama-3.2-1b", "--serve", "--requests", str(file), "--json"))[0]
    assert told["requests_per_second"] == pytest.approx(2 / 2.5)
    file.write_text("arrived,prompt,output\n0.0,100,5\n2.5,300,0\n")
    with pytest.raises(UserError, match=r"row 3 has .*: arrived is in seconds, prompt and output are whole tokens from 1 on"):
        said("llama-3.2-1b", "--serve", "--requests", str(file))
    file.write_text("arrived,promt,output\n0.0,100,5\n2.5,300,1\n")
    with pytest.raises(UserError, match=r"has no column 'prompt'.*did you mean .promt.*give arrived,prompt,output"):
        said("llama-3.2-1b", "--serve", "--requests", str(file))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--arrivals", "20/s"), "--arrivals is about serving: add --serve, or leave it out"),
        (("--serve", "--limit-ttft", "1s"), "--limit-ttft is about requests that come at random: add --arrivals 20/s, say"),
        (
            ("--serve", "--arrivals", "2", "--users", "3"),
            "--users serves as many at once, and --arrivals lets them come and go",
        ),
        (("--serve", "--arrivals", "2", "--length", "1k"), "--length is that of users served at once; with --arrivals give"),
        (
            ("--serve", "--arrivals", "2", "--prompt-tokens", "lognormal(700)"),
            "lognormal takes median and sigma, got 1 numbers",
        ),
        (
            ("--serve", "--arrivals", "2", "--prompt-tokens", "logarithmic(7, 1)"),
            "'logarithmic' is no distribution.*give 512, ",
        ),
        (
            ("--serve", "--arrivals", "2", "--prompt-tokens", "uniform(900, 100)"),
            "ends before it begins: give uniform.100, 900",
        ),
        (("--serve", "--arrivals", "2", "--prompt-tokens", "0"), "tokens is 0, and should be from 1 on"),
        (("--serve", "--arrivals", "2", "--places", "4096"), "a step of 2,048 tokens cannot give each of 4,096 texts 1"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments, error):
    with pytest.raises(UserError, match=error):
        said("gpt2", *arguments)


def test_a_rate_of_requests_is_told_from_a_price():
    assert "requests a second are --arrivals" in said("gpt2", "--serve", "--rate", "20/s", code=2)


@pytest.mark.parametrize("text", ["700", "uniform(10, 30)", "exponential(300)", "lognormal(700, 1.1)"])
def test_lengths_have_their_mean_and_are_written_as_they_are_read(text):
    import numpy as np

    drawn = lengths(text).draw(np.random.default_rng(0), 200_000)
    assert drawn.mean() == pytest.approx(lengths(text).mean(), rel=0.02)
    assert lengths(str(lengths(text))) == lengths(text)
    assert (lengths(text, 100).draw(np.random.default_rng(0), 1000) <= 100).all()
