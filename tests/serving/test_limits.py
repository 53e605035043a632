"""What a server refuses, frees and ends: keys, sizes, rates, clients that go away, signals."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace

import pytest
from zoo import DECODERS

from anyformer.describe import UserError
from anyformer.generation import GREEDY, generate_tokens
from anyformer.model.transformer import build
from anyformer.serving.guard import Rates, ServingLimits
from anyformer.serving.inquiry import TextInquiry
from anyformer.serving.loop_post import LoopPost
from anyformer.serving.protocol_error import ProtocolError
from anyformer.serving.request import ServedRequest
from anyformer.serving.serve import listening
from anyformer.serving.worker import StoppingError
from serving.service import running, service

COMPLETIONS = "/v1/completions"
BODY = {"prompt": [3, 1], "max_tokens": 2, "temperature": 0}


@pytest.fixture(scope="module")
def model():
    return build(DECODERS["llama"]).eval()


def test_a_key_is_wanted_where_there_is_one(model):
    with running(service(model, None, limits=ServingLimits(keys=("right", "also")))) as made:
        for headers, status in (
            ({}, 401), ({"authorization": "Bearer wrong"}, 401), ({"authorization": "right"}, 401),
            ({"authorization": "Bearer right"}, 200), ({"authorization": "bearer also"}, 200),
        ):  # fmt: skip
            assert made.post(COMPLETIONS, json=BODY, headers=headers).status_code == status
        assert made.get("/health").status_code == 200
        assert made.get("/metrics").status_code == 401


def test_bodies_rates_and_pages(model):
    with running(service(model, None, limits=ServingLimits(body=100, rate=4))) as made:
        long = made.post(COMPLETIONS, json={"prompt": [1] * 100})
        assert (long.status_code, "100 are the most" in long.text) == (413, True)
        piecewise = made.post(COMPLETIONS, content=iter([b" " * 60, b" " * 60]))
        assert piecewise.status_code == 413
        assert made.post(COMPLETIONS, json=BODY, headers={"sec-fetch-site": "cross-site"}).status_code == 403
        answers = [made.post(COMPLETIONS, json=BODY) for _ in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 429]
        assert int(answers[-1].headers["retry-after"]) > 0
        assert answers[0].headers["x-content-type-options"] == "nosniff"


def test_another_name_of_the_host_is_refused_in_the_protocols_form(model):
    with running(service(model, None)) as made:
        for name in ("evil.example", "", "[", "127.0.0.1.evil.example", "::1"):
            foreign = made.get("/health", headers={"host": name})
            assert (foreign.status_code, foreign.json()["error"]["type"]) == (400, "invalid_request_error")
            assert "the server does not answer as" in foreign.json()["error"]["message"]
        for name in ("localhost", "LOCALHOST:9", "[::1]:8000", "127.0.0.1"):
            assert made.get("/health", headers={"host": name}).status_code == 200
        assert 'anyformer_refusals_total{status="400"} 5.0' in made.get("/metrics").text


def test_a_log_says_nothing_of_what_was_written(model):
    lines = []
    with running(replace(service(model, None), log=lines.append)) as made:
        made.post(COMPLETIONS, json=BODY)
        made.get("/v1/models/a secret")
    first, second = map(json.loads, lines)
    assert (first["address"], first["status"]) == (COMPLETIONS, 200)
    assert (second["address"], second["status"]) == ("another address", 404)
    assert set(first) == {"time", "address", "status", "seconds", "bytes"}
    assert "secret" not in "".join(lines)


def test_a_log_that_cannot_be_written_fails_no_request(model):
    def full(line):
        raise OSError(28, "No space left on device")

    with running(replace(service(model, None), log=full)) as made:
        assert made.post(COMPLETIONS, json=BODY).status_code == 200
        assert "anyformer_log_lines_lost_total 1.0" in made.get("/metrics").text


def test_a_rate_comes_back_evenly():
    rates = Rates(6)
    assert [rates.wait("a", 0.0) for _ in range(7)] == [0.0] * 6 + [10.0]
    assert rates.wait("b", 0.0) == 0
    assert rates.wait("a", 5.0) == pytest.approx(5)
    assert rates.wait("a", 10.0) == 0


def held_worker(made):
    """A worker of a service whose steps wait until they are let go."""
    gate, step = threading.Event(), made.worker.scheduler.events

    def waits():
        assert gate.wait(20)
        return step()

    made.worker.scheduler.events = waits
    return gate


def test_a_queue_that_is_full_refuses_with_its_length(model):
    made = service(model, None, waiting=3)
    gate = held_worker(made)
    with running(made) as client:
        made.worker.submit([(ServedRequest((3, 1), 2), lambda event: None) for _ in range(3)])
        answer = client.post(COMPLETIONS, json=BODY)
        gate.set()
    assert answer.status_code == 429
    assert "and 3 may (--queue)" in answer.json()["error"]["message"]
    assert "retry-after" in answer.headers


def test_a_client_that_goes_away_frees_its_texts(model):
    made = service(model, None)
    worker = made.worker
    worker.start()

    async def leave():
        inquiry = TextInquiry(
            worker, LoopPost(asyncio.get_running_loop()), [ServedRequest((3, 1), 50), ServedRequest((4,), 50)]
        )
        events = inquiry.events()
        await anext(events)
        await events.aclose()

    asyncio.run(leave())
    worker.close(20)
    text = worker.metrics.text().decode()
    assert 'anyformer_texts_total{reason="cancelled"} 2.0' in text
    assert worker.scheduler.idle


def test_a_text_has_its_time(model):
    made = service(model, None)
    gate = held_worker(made)
    made.worker.start()

    async def wait():
        async for _ in TextInquiry(
            made.worker, LoopPost(asyncio.get_running_loop()), [ServedRequest((3, 1), 3)], 0.05
        ).events():
            pass

    with pytest.raises(ProtocolError, match=r"not whole after 0\.05 seconds") as caught:
        asyncio.run(wait())
    assert caught.value.status == 504
    gate.set()
    made.worker.close(20)


def test_a_server_that_stops_ends_its_texts_and_takes_no_more(model):
    made, events = service(model, None), []
    worker = made.worker
    worker.start()
    worker.submit([(ServedRequest((3, 1), 20), events.append)])
    worker.drain()
    with pytest.raises(StoppingError, match="takes no more requests"):
        worker.submit([(ServedRequest((3, 1), 20), events.append)])
    worker.close(20)
    assert [event.token.number for event in events] == generate_tokens(model, [(3, 1)], max_tokens=20, sampling=GREEDY)[0]
    assert not worker.alive


def test_after_its_grace_texts_end_as_they_are(model):
    made, events = service(model, None), []
    gate = held_worker(made)
    worker = made.worker
    worker.start()
    worker.submit([(ServedRequest((3, 1), 50), events.append), (ServedRequest((3, 1), 50), events.append)])
    threading.Timer(0.1, gate.set).start()
    worker.close(0.02)
    assert [event.last for event in events if event.number in (0, 1)].count(True) == 2
    assert all(event.reason == "time" or event.error for event in events if event.last)


def test_a_step_that_fails_ends_its_texts_and_not_the_server(model, capsys):
    made, events = service(model, None), []
    worker, step = made.worker, made.worker.scheduler.events

    def fails():
        worker.scheduler.events = step
        raise RuntimeError("out of memory")

    worker.scheduler.events = fails
    with running(made) as client:
        broken = client.post(COMPLETIONS, json=BODY)
        assert broken.status_code == 500
        assert "out of memory" not in broken.text
        assert client.post(COMPLETIONS, json=BODY).status_code == 200
    assert events == []
    assert "out of memory" in capsys.readouterr().err


def test_an_address_that_cannot_be_had():
    refused = pytest.raises(UserError, match=r"cannot be taken .* give another --port")
    with listening("127.0.0.1", 0) as taken, refused, listening("127.0.0.1", taken.getsockname()[1]):
        pass
    with pytest.raises(UserError, match="no address of this machine"), listening("no.such.host.invalid", 0):
        pass
