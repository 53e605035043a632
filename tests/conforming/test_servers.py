"""Engines over HTTP: every protocol, golden vectors in a file, and what is wrong with a server in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.engines.distorted import CHUNK

from anyformer.conforming import (
    CompletionRequest,
    EngineError,
    GoldenFileError,
    GoldenVectors,
    ModelFacts,
    Reference,
    TokenLogProbs,
    chosen,
    conform,
    golden_cases,
    open_server,
    read_golden,
    write_golden,
)
from anyformer.conforming.servers.http_json import KEY
from anyformer.conforming.servers.llama_cpp import _places
from anyformer.text.conventions import Conventions
from conforming import engines
from conforming.engines import LONGEST, built, described
from conforming.http_stand_in import VLLM, Echoing, LlamaCpp, Protocol, serving

FEW = chosen(["plain", "reset", "prompt", "decode", "text", "ends", "temperature", "batch", "cached"])
TEXT = "nine words"


@pytest.fixture(scope="module")
def model():
    return built(described())


@pytest.fixture(scope="module")
def golden(model):
    conventions = Conventions(begin=engines.BEGIN, ends=(engines.END, engines.END + 1))
    facts = ModelFacts.of(model.architecture, None, conventions, longest=LONGEST, chunk=CHUNK)
    facts = replace(facts, texts={TEXT: (engines.BEGIN, *facts.drawn("text", 9))})
    return GoldenVectors("tiny", facts.vocabulary, "fp32", golden_cases(FEW, facts, Reference(model)))


@pytest.fixture(scope="module")
def texts(golden):
    (case,) = [case for case in golden.cases if case.name == "text"]
    return {TEXT: case.rounds[0][0].request.tokens}


@pytest.mark.parametrize("protocol", [LlamaCpp, VLLM, Echoing])
def test_a_right_server_passes_and_a_wrong_one_does_not(protocol, model, golden, texts, monkeypatch):
    monkeypatch.setattr(LlamaCpp, "odd", 200)
    pieces = {f"w{number}": number for number in range(golden.vocabulary)}
    with serving(protocol(engines.RightEngine(model), texts)) as url:
        report = conform(open_server(f"{url}/v1", served="tiny", pieces=lambda: pieces), golden, FEW)
    assert report.conforms, report.departing
    skipped = {case.name for case in report.cases if case.state == "not asked"}
    assert skipped == ({"prompt"} if protocol is LlamaCpp else set())
    with serving(protocol(engines.OtherNorm(model), texts)) as url:
        wrong = conform(open_server(url, served="tiny", pieces=lambda: pieces), golden, FEW[:1])
    assert not wrong.conforms


def test_vllm_goes_on_from_other_requests_only_where_it_may(model, texts):
    protocol = VLLM(engines.RightEngine(model), texts)
    with serving(protocol) as url:
        server = open_server(url)
        for cached in (True, True, False, False):
            server.ask(CompletionRequest("", (5, 6), cached=cached), 2)
    first, second, *others = protocol.asked
    assert first == second
    assert len({first, *others}) == 3


def test_vectors_in_a_file_are_the_same(model, golden, tmp_path):
    write_golden(tmp_path / "golden.json", golden)
    read = read_golden(tmp_path / "golden.json")
    report = conform(engines.RightEngine(model), read, FEW)
    assert report.conforms
    assert [each.figures.compared for each in report.cases] == [
        each.figures.compared for each in conform(engines.RightEngine(model), golden, FEW).cases
    ]
    assert not conform(engines.OtherNorm(model), read, FEW).conforms
    (tmp_path / "golden.json").write_text("{}")
    with pytest.raises(GoldenFileError, match="no golden vectors of form 1"):
        read_golden(tmp_path / "golden.json")


def test_errors_in_words(model, golden, texts, monkeypatch):
    with pytest.raises(EngineError, match="no address of a server"):
        open_server("localhost:8000")
    with pytest.raises(EngineError, match="is the server running"):
        open_server("http://127.0.0.1:9")
    with serving(Protocol(engines.RightEngine(model), texts)) as url, pytest.raises(EngineError, match="lists no model"):
        open_server(url)
    with serving(Echoing(engines.RightEngine(model), texts)) as url:
        with pytest.raises(EngineError, match="serves 2 models: name one with --served"):
            open_server(url)
        with pytest.raises(EngineError, match="did you mean 'tiny'"):
            open_server(url, served="tinny")
        with pytest.raises(EngineError, match="no single token of the model"):
            conform(open_server(url, served="tiny"), golden, FEW[:1])
    with serving(VLLM(engines.RightEngine(model), texts, key="secret")) as url:
        with pytest.raises(EngineError, match=f"put the server's key into {KEY}"):
            open_server(url)
        monkeypatch.setenv(KEY, "secret")
        assert conform(open_server(url), golden, FEW[:1]).conforms
    with serving(LlamaCpp(engines.RightEngine(model), texts)) as url, pytest.raises(EngineError, match="the same model"):
        conform(open_server(url), replace(golden, vocabulary=300), FEW)


def test_tokens_that_are_not_shown_leave_their_places():
    first, second, third = (TokenLogProbs(token, -1.0, {token: -1.0}) for token in (5, 6, 7))
    assert _places([5, 6, 7], [second, third]) == (None, second, third)
    assert _places([5, 6, 7], [second]) == (None, second, None)
    assert _places([5, 5, 6], [first, third]) == (None, None, None), "no such tokens"
    again = [first, second]
    assert _places([5, 5, 6], again) == (None, None, second), "which of the two it is cannot be told"
