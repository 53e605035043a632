"""The explorer's server: what it answers, what it refuses, and that nothing but this machine's page is answered."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest
from starlette.testclient import TestClient

from anyformer import catalogue
from anyformer.describe import UserError
from anyformer.exploring.desk import SECTIONS, Desk
from anyformer.exploring.memory import MemoryDesk
from anyformer.exploring.server import PAGE, POLICY, application
from anyformer.exploring.serving import listening

HERE = "http://127.0.0.1:8642"
HEADS = "set=decoder.layer.attention.heads"


@dataclass
class ToldMemory:
    """A memory desk whose answer is told beforehand."""

    told: dict = field(default_factory=lambda: {"pending": False, "memory": {"total": 7}})
    asked: list = field(default_factory=list)

    def answer(self, architecture, call):
        self.asked.append((architecture, call))
        return self.told

    def start(self):
        pass

    def close(self):
        pass


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """An architecture in a file."""
    from anyformer.describe import to_toml

    path = tmp_path_factory.mktemp("small") / "small.toml"
    path.write_text(to_toml(catalogue.architecture("gpt2", tiny=True)))
    return path


@pytest.fixture(scope="module")
def page(small):
    return TestClient(application(Desk([str(small), "gpt2"]), ToldMemory()), base_url=HERE)


def problem(answer, status):
    assert answer.status_code == status
    (found,) = answer.json()["errors"]
    return found


def test_a_sheet_has_every_section_and_each_has_an_address(page):
    whole = page.get("/api/sheet?of=gpt2").json()
    for name in SECTIONS:
        one = page.get(f"/api/{name}?of=gpt2").json()
        assert one[name] == whole[name]
        assert not (SECTIONS.keys() - {name}) & one.keys()
        assert one["digest"] == whole["digest"]
    assert whole["entry"]["organisation"] == "OpenAI"
    assert whole["call"]["length"] == 1024


def test_the_start_knows_the_catalogue_the_accelerators_and_what_was_opened(page, small):
    start = page.get("/api/start").json()
    assert [entry["name"] for entry in start["catalogue"]] == [entry.name for entry in catalogue.listing()]
    assert [each["of"] for each in start["opened"]] == [str(small), "gpt2"]
    assert start["opened"][0]["title"] == "small.toml"
    assert {"h100", "b200"} <= {each["name"] for each in start["accelerators"]}
    assert start["legend"]["T"].startswith("length")
    assert {"name": "sliding windows", "topic": "attention", "column": "window", "word": "local"} in start["mechanisms"]


def test_a_file_that_was_opened_is_answered_and_no_other(page, small, tmp_path):
    assert page.get("/api/figures", params={"of": str(small)}).json()["title"] == "small.toml"
    other = tmp_path / "other.toml"
    other.write_text(small.read_text())
    for name in (str(other), f"{small.parent}/../{small.parent.name}/small.toml", "hub:openai/gpt2", "/etc/passwd", "s3://a/b"):
        assert problem(page.get("/api/figures", params={"of": name}), 404)


@pytest.mark.parametrize(
    ("query", "path", "message", "suggestions", "at"),
    [
        (f"{HEADS}=7", "decoder.layer.attention.heads", "heads must divide the width", [], 0),
        (
            "set=width=768&set=decoder.layer.atention.heads=6",
            "decoder.layer.atention.heads",
            "nothing is called",
            ["attention"],
            1,
        ),
        ("set=decoder.layer.attention.mask.kind=windo", "decoder.layer.attention.mask", "is no kind", ["window"], 0),
        (f"{HEADS}='12'", "decoder.layer.attention.heads", "valid integer", [], 0),
        ("set=nonsense", "nonsense", "expected PATH=VALUE", [], 0),
        (f"{HEADS}={'9' * 5000}", "decoder.layer.attention.heads", "too many digits", [], 0),
        (f"{HEADS}={'[' * 3000}", "decoder.layer.attention.heads", "", [], 0),
    ],
)
def test_errors_stand_in_their_place(page, query, path, message, suggestions, at):
    found = problem(page.get(f"/api/figures?of=gpt2&{query}"), 422)
    assert found["path"] == path
    assert message in found["message"]
    assert (found["suggestions"], found["set"]) == (suggestions, at)


def test_of_several_changes_the_one_at_fault_is_named(page):
    changes = "set=decoder.layer.attention.kv_heads=4&set=decoder.layer.attention.heads=7&set=decoder.dropout=0.1"
    assert problem(page.get(f"/api/figures?of=gpt2&{changes}"), 422)["set"] == 1
    both = "set=decoder.layer.attention.heads=7&set=width=771"
    assert problem(page.get(f"/api/figures?of=gpt2&{both}&set=decoder.dropout=2.0"), 422)["set"] is None


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("of=gpt2&length=0", "length"),
        ("of=gpt2&length=1e3", "length"),
        ("of=gpt2&length=%D9%A3", "length"),
        (f"of=gpt2&batch={'9' * 4000}", "batch"),
        ("of=gpt2&length=999999999999999999", ""),
        ("of=gpt2&rate=nan", "rate"),
        ("of=gpt2&rate=-1", "rate"),
        ("of=gpt2&precision=bf17", "precision"),
        ("of=gpt2&on=h1000", ""),
        ("of=gpt2&of=gpt2", "of"),
        ("length=4", "of"),
        ("of=gpt2&lenght=4", ""),
        ("of=gpt2&" + "&".join(["set=width=768"] * 101), "set"),
        ("of=gpt2&" + "&".join(f"on=x{i}" for i in range(17)), "on"),
        ("of=gpt2&set=%FF=1", ""),
    ],
)
def test_a_question_that_is_none_is_refused(page, query, path):
    found = problem(page.get(f"/api/figures?{query}"), 400)
    assert found["path"] == path
    assert found["text"]


def test_an_unknown_name_is_refused_with_the_nearest(page):
    assert problem(page.get("/api/sheet?of=gema-2-2b"), 404)["suggestions"] == ["gemma-2-2b"]
    assert problem(page.get("/api/figure?of=gpt2"), 404)


def test_huge_lengths_are_priced_at_once_and_masks_stay_small(page):
    sheet = page.get("/api/sheet?of=llama-3-8b&length=1000000000&batch=1000").json()
    assert sheet["figures"]["state"]["per_sequence"] > 10**14
    assert sheet["masks"]["length"] == 131_072


def test_memory_is_asked_apart_and_may_be_pending():
    memory = ToldMemory()
    page = TestClient(application(Desk(), memory), base_url=HERE)
    assert page.get("/api/sheet?of=gpt2").status_code == 200
    assert memory.asked == []
    found = page.get("/api/memory?of=gpt2&length=64&set=decoder.layer.attention.kv_heads=4")
    assert (found.status_code, found.json()["memory"]) == (200, {"total": 7})
    (architecture, call), *_ = memory.asked
    assert architecture.decoder.variants["layer"].branches["attention"].sublayer.kv_heads == 4
    assert call.length == 64
    memory.told = {"pending": True, "memory": None}
    assert page.get("/api/memory?of=gpt2").status_code == 202


def test_every_answer_tells_the_browser_to_load_nothing_else(page):
    for place in ("/", "/api/start", "/api/nothing", "/nothing", "/api/figures?of=nothing"):
        headers = page.get(place).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert "'unsafe" not in POLICY
    assert "http" not in POLICY.replace("'self'", "")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8642", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0", ""]
)
def test_a_foreign_name_of_this_machine_is_refused(page, host):
    """DNS rebinding: a page of elsewhere lets its own name point here, to read what is answered."""
    assert page.get("/api/start", headers={"host": host}).status_code == 400
    assert page.get("/", headers={"host": host}).status_code == 400


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9", "127.0.0.1:8642"])
def test_the_names_of_this_machine_are_answered(page, host):
    assert page.get("/api/figures?of=gpt2", headers={"host": host}).status_code == 200


def test_other_pages_and_changes_are_refused(page):
    for site in ("cross-site", "same-site"):
        assert page.get("/api/start", headers={"sec-fetch-site": site}).status_code == 403
    assert page.get("/api/start", headers={"sec-fetch-site": "same-origin"}).status_code == 200
    assert page.get("/api/start").headers.get("access-control-allow-origin") is None
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert page.request(method, "/api/figures?of=gpt2").status_code == 405


UP = ("..", "%2e%2e", "%2E%2E", "..%5c", "..%2f", "x/../..")
OUTSIDE = [*(f"/{up}/server.py" for up in UP), *(f"/{up}server.py" for up in UP[3:5]), "//etc/passwd", "/%00", "/" + "a" * 5000]


@pytest.mark.parametrize("place", OUTSIDE)
def test_no_path_leads_out_of_the_folder_of_the_page(page, place):
    answer = page.get(place)
    assert answer.status_code in (404, 400)
    assert "anyformer" not in answer.text


def test_the_page_asks_nothing_of_elsewhere(page):
    assert page.get("/").headers["content-type"].startswith("text/html")
    for file in PAGE.rglob("*"):
        if file.suffix in (".html", ".js", ".css"):
            assert not re.findall(r"""(?:src|import|url|fetch)\W{1,6}https?:""", file.read_text(encoding="utf-8")), file


def test_a_failure_of_ours_is_told_and_shows_nothing(monkeypatch):
    desk = Desk()
    monkeypatch.setattr(desk, "sections", lambda *_: 1 / 0)
    page = TestClient(application(desk, ToldMemory()), base_url=HERE, raise_server_exceptions=False)
    answer = page.get("/api/figures?of=gpt2")
    assert answer.status_code == 500
    assert "ZeroDivisionError" in answer.json()["errors"][0]["text"]


def test_the_socket_is_of_this_machine_alone():
    with listening(None, 0) as (taken, address):
        host, port = taken.getsockname()
        assert (host, address) == ("127.0.0.1", f"http://127.0.0.1:{port}")
        with pytest.raises(UserError, match=f"port {port} of this machine"), listening(port, 0):
            pass
        with listening(None, port) as (other, _):
            assert other.getsockname()[1] != port


@pytest.mark.slow
def test_the_memory_of_training_is_traced_in_a_process_of_its_own():
    import anyformer as af
    from anyformer.exploring.question import PricedCall

    desk, call = MemoryDesk(wait=120), PricedCall(length=64)
    try:
        found = desk.answer(catalogue.architecture("gpt2", tiny=True), call)
    finally:
        desk.close()
    sheet = af.cost(catalogue.architecture("gpt2", tiny=True), length=64, plan=call.plan)
    assert found["memory"]["total"] == sheet.memory.total
    assert found["devices"] == {"h100": 1}
