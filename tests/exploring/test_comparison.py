"""Architectures side by side: what differs, what it costs, and stairs whose steps add up."""

from __future__ import annotations

from itertools import pairwise
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

import anyformer as af
from anyformer.catalogue import architecture
from anyformer.cli.stairs_page import climbed
from anyformer.describe import change_all, parse_assignment
from anyformer.exploring.comparison import step_costs
from anyformer.exploring.desk import Desk
from anyformer.exploring.figures import sheet_of
from anyformer.exploring.memory import MemoryDesk
from anyformer.exploring.question import PricedCall
from anyformer.exploring.server import application

CALL = PricedCall(length=512)


@pytest.fixture(scope="module")
def ask():
    page = TestClient(application(Desk(), MemoryDesk()), base_url="http://127.0.0.1")

    def asked(of, status=200, **query):
        answer = page.get(f"/api/compare?{urlencode({'of': of, **query}, doseq=True)}")
        assert answer.status_code == status, answer.text
        return answer.json()

    return asked


@pytest.mark.parametrize(
    "names", [("llama-3-8b", "qwen3-8b"), ("gpt2", "gemma-2-2b", "bert-base-cased"), ("gpt2", "llama-3-8b")]
)
def test_the_steps_of_the_stairs_lead_from_one_to_the_next_and_add_up(ask, names):
    found = ask(names, length=512)
    assert [(stairs["from"], stairs["to"]) for stairs in found["staircases"]] == [*pairwise(names)]
    for stairs in found["staircases"]:
        start = architecture(stairs["from"])
        here, costs = start.resolved(), stairs["start"]
        assert costs == step_costs(sheet_of(here, CALL), CALL)
        for step in stairs["steps"]:
            here = change_all(here, dict(parse_assignment(f"{each['path']}={each['to']}") for each in step["changes"]))
            if step["alone"] is not None:
                alone = change_all(start, dict(parse_assignment("=".join(each)) for each in step["alone"]))
                assert alone != start
            for key, new in step["costs"].items():
                delta = None if new is None or costs[key] is None else new - costs[key]
                assert step["deltas"][key] == delta
            costs = step["costs"]
        assert here == architecture(stairs["to"]).resolved()
        assert costs == step_costs(sheet_of(here, CALL), CALL)


def test_figures_side_by_side_are_those_of_diff(ask):
    found = ask(("gpt2", "llama-3-8b"), length=512)
    told = af.difference("gpt2", "llama-3-8b", length=512)
    assert [(row["what"], *row["values"]) for row in found["costs"]] == [
        (each.what, each.left, each.right) for each in told.costs
    ]
    assert [row["ratios"][1] for row in found["costs"]] == [each.ratio for each in told.costs]
    assert [row["what"] for row in found["details"]] == [each.what for each in told.details]
    assert "differs" in found["diagram"]["svg"]


def test_stairs_are_those_of_diff(ask):
    """One computation: the page has the terminal's steps and figures, and prices beside them."""
    (stairs,) = ask(("gpt2", "llama-3-8b"))["staircases"]
    named = [(name, architecture(name)) for name in ("gpt2", "llama-3-8b")]
    told = climbed(named, batch=1, length=1024)[0].data()
    assert [step["name"] for step in stairs["steps"]] == [step["label"] for step in told["steps"]]
    for step, own in zip(stairs["steps"], told["steps"], strict=True):
        assert step["words"] == own["words"]
        assert {name: step["deltas"][name] for name in own["deltas"]} == own["deltas"]


def test_a_change_is_of_the_architecture_whose_number_it_says(ask):
    found = ask(("gpt2", "gpt2"), set=["1:decoder.layer.attention.kv_heads=4"])
    assert found["of"] == ["gpt2", "gpt2, changed"]
    ((step,),) = (stairs["steps"] for stairs in found["staircases"])
    assert step["changes"] == [{"path": "decoder.layer.attention.kv_heads", "from": "12", "to": "4"}]
    assert step["name"] == "attention kv heads"
    assert step["alone"] == [["decoder.layer.attention.kv_heads", "4"]]
    assert step["deltas"]["state_per_token"] == -24_576
    assert step["deltas"]["parameters"] < 0


def test_the_same_twice_has_no_steps(ask):
    found = ask(("gpt2", "gpt2"))
    assert len(set(found["of"])) == 2
    assert found["staircases"][0]["steps"] == found["details"] == []


@pytest.mark.parametrize(
    ("of", "query", "status"),
    [
        (["gpt2"], {}, 400),
        (["gpt2"] * 4, {}, 400),
        (["gpt2", "gpt2"], {"set": "decoder.layer.attention.kv_heads=4"}, 400),
        (["gpt2", "gpt2"], {"set": "2:width=8"}, 400),
        (["gpt2", "gpt2"], {"set": "1:width=7"}, 422),
        (["gpt2", "nothing"], {}, 404),
    ],
)
def test_what_cannot_be_compared_is_refused(ask, of, query, status):
    assert ask(of, status, **query)["errors"][0]["text"]
