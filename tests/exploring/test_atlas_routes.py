"""The server's addresses of the atlas."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from anyformer.atlas import atlas_data, topic_data
from anyformer.exploring.desk import Desk
from anyformer.exploring.memory import MemoryDesk
from anyformer.exploring.server import application


@pytest.fixture(scope="module")
def page() -> TestClient:
    made: Starlette = application(Desk(["gpt2"]), MemoryDesk())
    return TestClient(made, base_url="http://127.0.0.1:8642")


def test_the_catalogue_as_a_whole_and_a_topic(page):
    found = page.get("/api/atlas").json()
    assert len(found["entries"]) == len(atlas_data()["entries"])
    assert page.get("/api/topics/norms").json()["sections"] == topic_data("norms")["sections"]


def test_an_unknown_topic_is_not_there(page):
    answer = page.get("/api/topics/norm")
    assert answer.status_code == 404
    assert "did you mean 'norms'?" in answer.json()["errors"][0]["text"]
