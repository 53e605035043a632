"""The benchmark of queues: what it finds in the steps of a server is what they were made of."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from benchmarks.queues import rounds
from benchmarks.queues.calibration import KEYS, LENGTHS, TEXTS, Sitting, fitted
from benchmarks.queues.client import Answered
from benchmarks.queues.server import CHUNK, letters
from benchmarks.queues.speed import even_time, replayed
from benchmarks.queues.timed_server import ServedStep, StepWriter
from benchmarks.queues.ways import RULES, Ways, came, finding_others, foretold, ways

from anyformer.planning.queues.simulate import Fleet
from anyformer.planning.queues.steps import PromptChunk


def _decoding(alike, keys):
    return 4e-3 + 7e-4 * alike + 1e-6 * alike * keys


def _reading(tokens, past, last):
    return 1e-3 + 5e-5 * tokens + 2e-7 * tokens * past + 3e-3 * (past == 0) + 4e-4 * last


def _steps(seed=0, noise=0.0):
    random = np.random.default_rng(seed)
    for _ in range(2000):
        alike, keys = int(random.integers(1, 9)), int(random.integers(10, 400))
        length = int(random.integers(1, 300))
        past = CHUNK * int(random.integers(0, -(-length // CHUNK)))
        tokens = min(CHUNK, length - past)
        last, between = past + tokens == length, float(random.uniform(1e-4, 3e-4))
        own = _decoding(alike, keys) * float(random.normal(1, noise)) - between
        yield ServedStep(between, own, alike, alike, keys, _reading(tokens, past, last), [(tokens, past, last)])


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_steps_are_found_as_they_were_made(noise):
    steps, _ = fitted(list(_steps(noise=noise)))
    off = 1e-9 if noise == 0 else 0.02
    for texts in TEXTS:
        for keys in (40, 100, 280):
            assert steps.step(texts, texts * keys, (), 0) == pytest.approx(_decoding(texts, keys), rel=off)
    whole = _reading(64, 0, False) + _reading(64, 64, False) + _reading(10, 128, True)
    assert steps.step(0, 0.0, [PromptChunk(138, 0)], 1) == pytest.approx(whole, rel=0.02), "between lengths it is a line"
    assert steps.prompt(129) == pytest.approx(_reading(64, 0, False) + _reading(64, 64, False) + _reading(1, 128, True))


def test_numbers_of_texts_that_never_were_are_between_their_neighbours():
    without = [each for each in _steps() if each.alike != 5]
    steps, record = fitted(without)
    assert steps.step(5, 5 * 64, (), 0) == pytest.approx(_decoding(5, 64), rel=1e-6)
    assert (record["texts"], record["keys"], record["lengths"]) == (TEXTS, KEYS, LENGTHS)


def test_prompts_of_whole_chunks_and_one_more_are_on_the_curve():
    assert LENGTHS == (1, 64, 65, 128, 129, 192, 193, 256)


def test_every_token_shows_as_letters():
    made = letters(2048)
    assert made.get_vocab_size() == 2048
    assert all(made.decode([number]).isalpha() for number in range(2048))


def test_the_way_of_requests_is_what_their_first_tokens_are_late():
    """Of those that find others it is another than of those that find nobody."""
    steps, _ = fitted(list(_steps()))
    sent = [0.0, 0.01, 0.02, 5.0, 9.0]
    plain = foretold([Answered(70, at, (0.0,) * 6) for at in sent], steps)
    assert finding_others(plain).tolist() == [False, True, True, False, False]
    seen = Ways(alone=0.002, beside=0.007).on(plain)
    answered = [Answered(70, at, (first, *[last] * 5)) for at, first, last in zip(sent, seen.first, seen.last, strict=True)]
    found = ways([answered, answered[::-1]], steps)
    assert (found.alone, found.beside) == pytest.approx((0.002, 0.007))
    assert (seen.ttft - plain.ttft).tolist() == pytest.approx([0.002, 0.007, 0.007, 0.002, 0.002])


def test_a_chunk_that_no_text_is_beside_takes_the_time_since_the_step_before_too():
    steps = [each._replace(texts=0, alike=0, between=1e-3) if number % 2 else each for number, each in enumerate(_steps())]
    behind, _ = fitted(steps)
    alone, _ = fitted(list(_steps()))
    assert behind.prompt(64) == pytest.approx(alone.prompt(64) + 0.5e-3, rel=0.02), "half of them are"


@pytest.mark.parametrize("slower", [1.0, 1.2])
def test_a_round_is_as_far_off_as_the_server_is_slower_than_in_the_sittings(tmp_path, monkeypatch, slower):
    """A server that is the simulation itself: nothing is off, but for what it is slower in the load than beside it."""

    def seconds(each):
        return each._replace(between=each.between * slower, advancing=each.advancing * slower, reading=each.reading * slower)

    plain = list(_steps())
    loaded = [seconds(each) for each in plain]
    truth, _ = fitted(loaded)

    async def answers(port, sent, token, begin):
        asked = [Answered(each.prompt, each.at, (0.0,) * each.output) for each in sent]
        found = foretold(asked, truth)
        return [
            Answered(each.prompt, each.sent, tuple(np.linspace(first, last, len(each.times))))
            for each, first, last in zip(asked, found.first, found.last, strict=True)
        ]

    log = tmp_path / "steps"
    log.write_text("")
    monkeypatch.setattr(rounds, "open_loop", answers)
    monkeypatch.setattr(rounds, "sat", lambda *asked: Sitting(tuple(plain), ()))
    monkeypatch.setattr(rounds, "steps_since", lambda log, begun: loaded)
    row, behind = rounds.load(0, log, 0.5, Sitting(tuple(plain), ()))
    assert behind.served == tuple(plain)
    assert (row["share"], len(row["rounds"])) == (0.5, rounds.ROUNDS)
    for name, value in row["measured"].items():
        assert row["replayed"][name] == pytest.approx(value, rel=1e-6)
        if slower == 1 or name == "tokens_per_second":
            assert row["foretold"][name] == pytest.approx(value, rel=0.02)
        else:
            assert row["foretold"][name] < 0.9 * value, "a slower server than the sittings say is found out"


def _served_at(begin, slow):
    """Steps of a server, one behind the other, twice as slow in some seconds."""
    at = begin
    for each in _steps():
        factor = 2.0 if int(at - begin) in slow else 1.0
        yield each._replace(
            between=each.between * factor, advancing=each.advancing * factor, reading=each.reading * factor, at=at
        )
        at += each.seconds * factor


def test_a_second_in_which_steps_take_twice_as_long_is_half_a_second_of_an_even_machine():
    steps, _ = fitted(list(_steps()))
    slow = even_time(list(_served_at(100.0, {2, 3})), steps, 100.0)
    clock = np.array([-5.0, 0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 1000.0])
    assert slow.of(clock) == pytest.approx([-5.0, 0.0, 1.0, 2.0, 2.5, 3.0, 5.0, 999.0], rel=0.03)
    assert slow.back(slow.of(clock)) == pytest.approx(clock)
    asked = [Answered(70, at, (0.0,) * 10) for at in (0.2, 2.2, 5.2)]
    plain, found = foretold(asked, steps), replayed(Fleet(steps, RULES), came(asked), slow)
    assert found.latency / plain.latency == pytest.approx([1, 2, 1], rel=0.05)
    assert found.ttft / plain.ttft == pytest.approx([1, 2, 1], rel=0.05)
    assert found.span == pytest.approx(found.last[-1] - 0.2)


def test_what_texts_take_longer_behind_a_chunk_is_counted_to_the_chunk():
    behind = [bool(np.random.default_rng(i).integers(2)) for i in range(2000)]
    steps = [
        each._replace(behind=late, advancing=each.advancing + 8e-4 * late) for each, late in zip(_steps(), behind, strict=True)
    ]
    found, _ = fitted(steps)
    assert found.step(3, 300.0, (), 0) == pytest.approx(_decoding(3, 100), rel=1e-6)
    assert found.prompt(64) == pytest.approx(_reading(64, 0, True) + 8e-4, rel=0.02)


def test_a_server_writes_its_steps(tmp_path):
    """A scheduler of a tiny model with two texts: steps of one text and of two, a prompt of two chunks and one of one."""
    import anyformer as af
    from anyformer.generation.sampling import Sampling
    from anyformer.serving.request import ServedRequest
    from anyformer.serving.scheduler import Scheduler
    from anyformer.serving.several_states import SeveralStates
    from anyformer.serving.shared_rows import SharedRows

    model = af.build(af.architecture("llama-12m", tiny=True), seed=0).eval()
    writer = StepWriter(str(tmp_path / "steps"))
    scheduler = Scheduler(SeveralStates(SharedRows(model, 4, 128, chunk=CHUNK)))
    for number, length in enumerate((70, 5)):
        scheduler.submit(number, ServedRequest(tuple(range(1, length + 1)), 3, Sampling(temperature=0.0)))
    while not scheduler.idle:
        writer.advancing(Scheduler._advance, scheduler)
        writer.reading(Scheduler._read, scheduler)
    steps = [ServedStep(*json.loads(line)) for line in (tmp_path / "steps").read_text().splitlines()]
    assert [each.chunks for each in steps] == [[[64, 0, False]], [[6, 64, True], [5, 0, True]], [], []]
    assert [(each.texts, each.alike) for each in steps] == [(0, 0), (0, 0), (2, 2), (2, 2)]
    assert [each.keys for each in steps if each.texts] == [71, 72]
    assert [each.behind for each in steps] == [False, True, True, False]
    assert all(one.at + one.advancing + one.reading <= two.at for one, two in pairwise(steps))
