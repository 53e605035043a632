"""Another engine behind the server's scheduler: a text has the tokens that the engine gives its prompt alone."""

from __future__ import annotations

import gc
import random

import pytest
import torch
from zoo import DECODERS

from anyformer import checkpoint, engines
from anyformer.cli.server import _loaded
from anyformer.cli.server_options import StateOptions
from anyformer.describe import UserError
from anyformer.engines.llama_cpp import LlamaCppEngine
from anyformer.engines.llama_sequences import GAP, with_gaps
from anyformer.engines.vllm import VllmEngine
from anyformer.generation import Sampling, generate_tokens
from anyformer.generation.memory import state_bytes
from anyformer.generation.processors import FrequencyPenalty
from anyformer.loading import load
from anyformer.model.transformer import build
from anyformer.serving.engine_states import EngineStates
from anyformer.serving.memory_of_states import StateMemory
from anyformer.serving.request import ServedRequest
from anyformer.serving.scheduler import Scheduler
from anyformer.serving.states import NeverFitsError
from serving.service import running, service

PROMPTS = (tuple(b"def main():"), tuple(b"a"), tuple(b"Once upon a time there was"), tuple(b"Once upon"), tuple(b"xyz"))
CHOICES = (
    Sampling(temperature=0), Sampling(seed=1), Sampling(seed=2, temperature=0.7, top_k=5),
    Sampling(seed=3, processors=(FrequencyPenalty(penalty=1.5),)),
)  # fmt: skip
MOST, CHUNK, PLACES = 7, 4, 3


@pytest.fixture(params=["stand-in", "llama.cpp"])
def named(request):
    """The name of an engine that serves."""
    if request.param == "llama.cpp":
        pytest.importorskip("llama_cpp", reason="pip install 'anyformer[llama]'")
    else:
        request.getfixturevalue("engine")
    return request.param


@pytest.fixture
def opened(named, place):
    """Opens the model in the engine."""

    def again():
        return engines.opened(named, engines.Asked(place, engines.ModelLoading(place, lambda: load(place)), served=True))

    return again


def states(opened, count=PLACES, length=48):
    return EngineStates(opened.model, opened.sequences, count, length, CHUNK)


def finished(scheduler):
    while not scheduler.idle:
        yield from scheduler.step()


def test_tokens_do_not_depend_on_company(opened):
    """A dozen random orders of coming, going on and being cancelled."""
    alone, room = opened(), states(opened())
    known = {}

    def expected(request):
        key = request.tokens, CHOICES.index(request.sampling)
        if key not in known:
            (known[key],) = generate_tokens(
                alone.model, [request.tokens], max_tokens=MOST, sampling=request.sampling, places=alone.places
            )
        return known[key][: request.max_tokens]

    seen = 0
    for seed in range(12):
        drawn, scheduler = random.Random(seed), Scheduler(room)
        asked, given, over = {}, {}, set()

        def step(scheduler=scheduler, given=given, over=over):
            for event in scheduler.step():
                assert event.error is None
                assert event.number not in over
                given[event.number].append(event.token.number)
                over |= {event.number} if event.last else set()

        for _ in range(30):
            what = drawn.random()
            if what < 0.35:
                number = len(asked)
                asked[number] = ServedRequest(drawn.choice(PROMPTS), drawn.randint(1, MOST), drawn.choice(CHOICES))
                given[number] = []
                scheduler.submit(number, asked[number])
            elif what < 0.45 and asked:
                number = drawn.choice(sorted(asked))
                scheduler.cancel(number)
                over.add(number)
            else:
                step()
        while not scheduler.idle:
            step()
        assert set(asked) == over
        for number, request in asked.items():
            assert given[number] == expected(request)[: len(given[number])], (seed, number)
            seen += given[number] == expected(request)
    assert seen > 60, "most texts are whole"


def test_a_row_that_ends_is_free_and_the_lowest_is_taken(opened):
    room = states(opened())
    scheduler = Scheduler(room)
    for number, most in enumerate((2, 9, 9)):
        scheduler.submit(number, ServedRequest(PROMPTS[1], most))
    for _ in range(3):
        scheduler.step()
    assert sorted(room._rows.items()) == [(1, 1), (2, 2)], "text 0 has ended, and its row is free"
    scheduler.submit(3, ServedRequest(PROMPTS[4], 3))
    list(finished(scheduler))
    assert room._rows == {}
    scheduler.submit(4, ServedRequest(PROMPTS[0], 3))
    scheduler.step()
    assert room._rows == {4: 0}


def test_what_the_bytes_are_and_what_never_fits(opened):
    found = opened()
    room = states(found)
    assert room.held == room.foretold == room.total == PLACES * state_bytes(found.model, 1, room._sequences.length)
    scheduler = Scheduler(room)
    with pytest.raises(NeverFitsError, match=r"11 tokens of prompt and 38 of text are 49 positions .* has 48 here .* --length"):
        scheduler.submit(0, ServedRequest(PROMPTS[0], 38))
    memory = StateMemory(places=4, length=64, memory=1000)
    with pytest.raises(UserError, match=r"4 texts of 64 positions take [\d,]+ bytes of state, and 1,0"):
        memory.engine_states(found.model, lambda *_: pytest.fail("no memory is taken"), 64)


def test_the_log_probabilities_of_a_prompt_are_those_of_the_whole(opened, place):
    found, (own, _) = opened(), load(place)
    scheduler = Scheduler(states(found))
    tokens = PROMPTS[0]
    scheduler.submit(0, ServedRequest(tokens, 1, logprobs=2, echo=True))
    (event,) = finished(scheduler)
    with torch.inference_mode():
        logs = own(torch.tensor([tokens]))[0].log_softmax(-1)
    assert len(event.prompt) == len(tokens) - 1
    for at, each in enumerate(event.prompt):
        assert each.logprob == pytest.approx(float(logs[at, tokens[at + 1]]), abs=1e-4)
    assert event.token.chances.logprob == pytest.approx(float(logs[-1].max()), abs=1e-4)


def test_the_memory_is_given_up_with_the_states(opened, named):
    if named != "llama.cpp":
        pytest.skip("the stand-in holds tensors")
    found = opened()
    file, room = found.places, states(found)
    context = room._sequences._context
    reading = room.enter(0, ServedRequest(PROMPTS[0], 2))
    reading.step()
    memory, last = context._memory, context._library.llama_memory_seq_pos_max
    assert last(memory, 0) == CHUNK - 1
    room.leave(0)
    assert last(memory, 0) == -1, "a text that is cancelled while it is read holds nothing"
    del reading, room, found
    gc.collect()
    assert context._context is None
    assert file._model is None


def test_it_answers_over_http_as_the_own_engine_does_and_embeds_nothing(opened, place):
    found, (own, tokenizer) = opened(), load(place)
    body = {"prompt": "Once upon", "max_tokens": 9, "seed": 3, "temperature": 1.0, "logprobs": 1, "n": 3}
    answers = []
    for made in (service(own, tokenizer), service(found.model, tokenizer, sequences=found.sequences)):
        with running(made) as client:
            choices = client.post("/v1/completions", json=body).json()["choices"]
            answers.append([choice["text"] for choice in choices])
            embedded = client.post("/v1/embeddings", json={"input": "a"})
    assert answers[0] == answers[1]
    assert len(set(answers[0])) == 3
    assert embedded.status_code == 400
    assert "start the server with --engine own" in embedded.json()["error"]["message"]


def test_the_command_takes_it_where_it_does_what_is_asked(place, engine):
    no = {"images": False, "audio": False}
    assert _loaded(place, {}, StateOptions(), no)[0].sequences is None
    loaded, tokenizer, line = _loaded(place, {}, StateOptions(engine="auto"), no)
    assert loaded.sequences is not None
    assert tokenizer is not None
    assert line.startswith("engine: stand-in 1.0, proved on 3 rows")
    loaded, _, line = _loaded(place, {}, StateOptions(engine="auto", own_states=True), no)
    assert (loaded.sequences, line) == (None, "engine: own (others do not do --own-states)")
    with pytest.raises(engines.EngineRefusedError, match=r"it does not do --images and --prefix-memory$"):
        _loaded(place, {}, StateOptions(engine="stand-in", prefix_memory=9), {"images": True, "audio": False})
    assert not engines.opened("auto", engines.Asked(place, engines.ModelLoading(place, lambda: load(place)))).sequences


def test_an_engine_that_reads_groups_of_texts_is_refused(place, engine):
    engine.serves = False
    asked = engines.Asked(place, engines.ModelLoading(place, lambda: pytest.fail("nothing is loaded")), served=True)
    with pytest.raises(engines.EngineRefusedError, match=r"--engine stand-in: it takes a group of texts until all have ended"):
        engines.opened("stand-in", asked)
    assert not VllmEngine.serves


def test_an_architecture_that_the_format_does_not_express_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(LlamaCppEngine, "installed", True)
    checkpoint.save(build(DECODERS["latent_indexed"]).eval(), tmp_path / "other")
    asked = engines.Asked(
        tmp_path / "other", engines.ModelLoading(tmp_path / "other", lambda: load(tmp_path / "other")), served=True
    )
    with pytest.raises(engines.EngineRefusedError, match=r"^--engine llama.cpp: .* under none of the \d+ model types"):
        engines.opened("llama.cpp", asked)


class Rows:
    """Which rows of a context hold something."""

    def __init__(self, *held):
        self.lengths = [int(row in held) for row in range(20)]


@pytest.mark.parametrize(
    ("rows", "held", "computed"),
    [
        ([0, 1, 2], (), [0, 1, 2]),
        ([0, 2], (), [0, 1, 2]),
        ([0, 2], (1,), [0, 2]),
        ([1, 2 + GAP], (), list(range(1, 3 + GAP))),
        ([1, 3 + GAP], (), [1, 3 + GAP]),
        ([0, 2, 9, 11], (10,), [0, 1, 2, 9, 11]),
    ],
)
def test_free_rows_between_texts_are_computed_along(rows, held, computed):
    """A row that is being read holds tokens, and none of another text may come among them."""
    assert with_gaps(rows, Rows(*rows, *held)) == computed
