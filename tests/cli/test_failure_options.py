"""`anyformer plan --mtbf`: what failures make of a training run, in words and in JSON."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from anyformer.cli import app, forecasts
from anyformer.cli.forecasts import lasting
from anyformer.cli.pages import lines
from anyformer.describe import UserError
from anyformer.planning import advice, coupling, forecast, planner
from anyformer.planning.forecast import Forecast
from anyformer.planning.goodput import Spent, expected
from anyformer.planning.simulation import Best
from failing_jobs import HOUR, job

SMALL = ["plan", "llama-3-8b", "--gpus", "64", "--length", "2k", "--batch-tokens", "1M"]
OFTEN = ["--mtbf", "200", "--tokens", "500B"]
"""One failure in three hours."""


def test_days_and_dollars_take_no_failures():
    """Without --mtbf, by the fastest layout; with it, of the same wall time as the page of failures."""
    plain = json.loads(said("--tokens", "500B", "--rate", "3", "--json"))
    whole, speed = plain["run"], plain["fastest"][0]["tokens_per_second"]
    assert whole["wall"] == pytest.approx(500e9 / speed)
    assert whole["accelerator_hours"] == pytest.approx(64 * whole["wall"] / HOUR)
    assert whole["dollars"] == pytest.approx(3 * whole["accelerator_hours"])
    assert (whole["rate"], whole["rate_assumed"], whole["with_failures"]) == (3.0, False, False)
    page = " ".join(said("--tokens", "500B", "--rate", "3").split())
    assert f"The whole run, 0.5 trillion tokens: {lasting(whole['wall'])}, if nothing fails (--mtbf)" in page
    assert f"${whole['dollars']:,.0f} at $3.00 per accelerator-hour." in page
    assert "1 trillion tokens" in said()
    assert "$2.00 per accelerator-hour (assumed: give yours with --rate)" in " ".join(said().split())
    failing = json.loads(said(*OFTEN, "--json"))
    assert failing["run"]["wall"] == failing["failures"]["wall"] > whole["wall"]
    assert failing["run"]["with_failures"]


@pytest.fixture(scope="module", autouse=True)
def planned_once():
    """Failures are told of the fastest layout, which is the same for all of these questions."""
    plan, known = planner.plan_training, {}
    assert advice.plan_training is coupling.plan_training is plan, "what holds it by name is imported before it is exchanged"

    def once(*given, **asked):
        question = repr((given, asked))
        if question not in known:
            known[question] = plan(*given, **asked)
        return known[question]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "plan_training", once)
        yield


def said(*words, columns="100"):
    result = CliRunner().invoke(app, [*SMALL, *words], env={"COLUMNS": columns})
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*words):
    with pytest.raises(UserError) as caught:
        CliRunner().invoke(app, [*SMALL, *words], catch_exceptions=False)
    return str(caught.value)


def told(*words):
    return json.loads(said(*OFTEN, "--json", *words))["failures"]


@pytest.fixture(scope="module")
def found():
    return told("--spares", "3", "--causes", "llama-3.1-405b")


def test_the_page_says_goodput_interval_and_what_time_is_lost_to():
    page = said(*OFTEN, "--spares", "3", "--causes", "llama-3.1-405b", columns="80")
    assert max(map(len, page.splitlines())) <= 80
    words = " ".join(page.split())
    data = told("--spares", "3", "--causes", "llama-3.1-405b")
    assert "one per 3.12 h of the job" in words
    assert "at 200 hours per accelerator (64)" in words
    assert f"Goodput {data['goodput']:.1%}: " in words
    assert f"({data['interval']['steps']:,} steps)" in words
    assert "for 0.5 trillion tokens instead of" in words
    for purpose in ("new progress", "saving", "work lost since the last save", "noticing failures", "restarting and loading"):
        assert f"{purpose} " in words
    assert f"waiting for repairs {data['shares']['waiting']:.2%}" in words
    assert "simulated runs: goodput" in words
    assert "3 spare nodes: the job waits" in words
    assert f"Faulty GPU {data['failures_per_day'] * 148 / 419:.2g}" in words


def test_the_figures_fit_together(found):
    assert found["goodput"] == pytest.approx(found["shares"]["useful"])
    assert sum(found["shares"].values()) == pytest.approx(1)
    assert found["wall"] == pytest.approx(found["wall_without_failures"] / found["goodput"])
    assert found["mtbf"] == {"accelerator": 200 * 3600, "job": 200 * 3600 / 64}
    running = 1 - found["shares"]["waiting"]
    assert found["failures_per_day"] == pytest.approx(86400 / found["mtbf"]["job"] * running)
    assert found["failures"] == pytest.approx(found["failures_per_day"] * found["wall"] / 86400)
    assert found["checkpoint_bytes"] == 12 * 8_030_261_248
    assert found["save"]["load"] == pytest.approx(found["checkpoint_bytes"] / (64 * 1e8))
    assert sum(found["failures_per_day_by_cause"].values()) == pytest.approx(found["failures_per_day"])
    assert (found["detect"], found["restart"], found["repair"], found["spares"]) == (600, 300, 86400, 3)
    simulated = found["simulated"]
    assert simulated["goodput"] == pytest.approx(found["goodput"], abs=5 * simulated["standard_error"])
    assert simulated["wall"]["5%"] < found["wall"] * 1.02
    assert simulated["wall"]["95%"] > found["wall"] * 0.98
    highest = max(each["goodput"] for each in simulated["goodput_by_interval"])
    (used,) = [each["goodput"] for each in simulated["goodput_by_interval"] if each["interval"] == found["interval"]["seconds"]]
    assert used <= highest < used * 1.01


def test_options_change_what_they_say():
    plain = told()
    assert told("--detect", "20")["detect"] == 1200
    assert told("--detect", "0", "--restart", "1")["detect"] == 0
    assert told("--storage", "100")["save"]["load"] == pytest.approx(plain["checkpoint_bytes"] / 1e11)
    assert told("--save", "2")["save"]["pause"] == 2
    assert told("--repair", "2")["enough_spares"] < plain["enough_spares"]
    behind = told("--background")
    assert behind["save"]["pause"] < plain["save"]["pause"] == plain["save"]["write"] == behind["save"]["write"]
    assert behind["goodput"] > plain["goodput"]
    assert behind["interval"]["seconds"] < plain["interval"]["seconds"]
    rarely = told("--save-every", "60")
    assert rarely["interval"]["seconds"] == pytest.approx(3600, rel=0.01)
    assert rarely["goodput"] < plain["goodput"]
    assert told("--spares", "0", "--repair", "2")["shares"]["waiting"] == pytest.approx(2 / (2 + 200 / 64))
    assert plain["wall_without_failures"] * 2 == pytest.approx(json.loads(said("--mtbf", "50000", "--json"))["failures"][
        "wall_without_failures"
    ])  # fmt: skip


def test_without_failures_nothing_is_said_of_them():
    assert "failures" not in json.loads(said("--json"))
    assert "Goodput" not in said()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--mtbf", "0"], "--mtbf should be above 0, got 0; leave it out"),
        (["--mtbf", "-5"], "got -5"),
        (["--mtbf", "nan"], "got nan"),
        (["--mtbf", "inf"], "got inf"),
        (["--mtbf", "9", "--detect", "-1"], "--detect should be 0 or more, got -1"),
        (["--mtbf", "9", "--storage", "0"], "--storage should be above 0, got 0"),
        (["--mtbf", "9", "--save-every", "0"], "--save-every should be above 0, got 0"),
        (["--mtbf", "9", "--spares", "-1"], "--spares should be 0 or more, got -1"),
        (["--mtbf", "9", "--repair", "-5"], "--repair should be 0 or more, got -5"),
        (["--spares", "2", "--background"], "--background, --spares is about failures: .* --mtbf HOURS"),
        (["--mtbf", "9", "--causes", "llama"], "no causes .* 'llama'"),
        (["--mtbf", "9", "--serve"], "--mtbf is about training"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(words, says, monkeypatch):
    monkeypatch.setattr(planner, "plan_training", None)
    with pytest.raises(UserError, match=says):
        CliRunner().invoke(app, [*SMALL, *words], catch_exceptions=False)


def test_a_job_that_only_recovers_is_refused():
    words = refused("--mtbf", "1")
    assert "the job fails once per 56.25 s" in words
    assert "fewer accelerators" in words
    slow = refused("--mtbf", "50000", "--background", "--storage", "0.1", "--save-every", "1")
    assert "s until the next: save less often, every 9" in slow


def test_a_run_of_too_many_failures_is_not_simulated(monkeypatch):
    monkeypatch.setattr(forecast, "FAILURES", 5)
    page = " ".join(said(*OFTEN).split())
    assert "Not simulated: a run meets" in page
    assert told()["simulated"] is None


def test_runs_of_more_than_a_thousand_failures_are_fewer():
    """At most 100,000 failures in all of the 100 runs."""
    told, spent = job(HOUR), expected(job(HOUR), 600.0)

    def planned(failures: float) -> int:
        def begun(done: int, total: int) -> None:
            raise InterruptedError(total)

        with pytest.raises(InterruptedError) as found:
            forecast.forecast(told, 1, 1.0, failures / spent.failures * spent.goodput, every=600.0, progress=begun)
        return found.value.args[0]

    assert planned(1000.01) < planned(999.999) == planned(10)


def made_up(**changes):
    """A forecast of ten hours of work whose goodput is a half, with simulated runs of 1 to 40 hours."""
    given = {
        "job": job(10 * HOUR),
        "checkpoint": 2 * 10**12,
        "step": 10.0,
        "work": 10 * HOUR,
        "interval": 600.0,
        "young": 620.0,
        "daly": 610.0,
        "spent": Spent(0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 1e-4),
        "simulated": tuple(Spent(HOUR, run * HOUR, 0.0, 0.0, 0.0, 0.0, 3) for run in range(40)),
        "best": Best(500.0, 0.51, 0.5, ((500.0, 0.51), (600.0, 0.5))),
        "enough": 4,
    }
    return Forecast(**given | changes)


def test_a_page_is_that_of_its_forecast():
    words = " ".join(" ".join(line.text for line in lines(forecasts.page(made_up(), 10**12), 100)).split())
    assert "8.64 a day, 7.2 in all" in words
    assert "Goodput 50.0%: 20 h for 1 trillion tokens instead of 10 h." in words
    assert "new progress 50.00% 10 h saving 10.00% 2 h" in words
    assert "Save every 10 min (60 steps); by Young's formula every 10.3 min, by Daly's 10.2 min, in simulated runs" in words
    assert "best every 8.33 min, where goodput is 2.00% higher." in words
    assert "40 simulated runs: goodput 4.88% " in words
    assert "nine of ten take 3 h to 38 h." in words, "two of them are shorter, and two are longer"
    assert forecasts.data(made_up())["simulated"]["wall"] == {"5%": 3 * HOUR, "95%": 38 * HOUR}
