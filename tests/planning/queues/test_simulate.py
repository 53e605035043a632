"""The simulation against a naive twin, against formulas of queues, and against what can be neither lost nor made."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyformer.describe import UserError
from anyformer.planning.queues.distributions import Lengths, lengths
from anyformer.planning.queues.drafts import Drafts
from anyformer.planning.queues.engine import EngineRules
from anyformer.planning.queues.outcome import Limits
from anyformer.planning.queues.requests import ArrivingRequests, Traffic
from anyformer.planning.queues.simulate import Fleet, simulate
from anyformer.planning.queues.steps import PromptChunk


@dataclass
class Clock:
    """Steps by a formula: `token` seconds per token of a prompt, `text` per text and `key` per cached token."""

    token: float = 0.0
    text: float = 0.0
    key: float = 0.0
    step_: float = 0.0
    room: float = math.inf
    lanes: int = 1

    def step(self, decoding, cached, chunks, ended, positions=1):
        pairs = sum(chunk.tokens * (chunk.past + chunk.tokens / 2) for chunk in chunks)
        read = sum(chunk.tokens for chunk in chunks)
        return self.step_ + self.token * read + self.text * decoding * positions + self.key * (cached + pairs) + 1e-4 * ended

    def held(self, length):
        return length


CLOCK = Clock(token=0.001, text=0.002, key=1e-5, step_=0.01)
RULES = EngineRules(places=4, budget=64)


def drawn(rate=2.0, count=200, seed=0, prompt="lognormal(60, 0.9)", output="exponential(12)", **more):
    return Traffic(rate, lengths(prompt, 400), lengths(output, 200), **more).draw(count, seed)


def tick_by_tick(requests, clock, rules):
    """First and last token of every request on one engine: lists of texts, every one of them visited in every step."""
    now, texts, waiting = float(requests.arrived[0]), [], list(range(requests.count))
    first, last = np.full(requests.count, np.nan), np.full(requests.count, np.nan)
    known = set()

    def whole(request):
        return int(requests.prompt[request] + requests.output[request])

    def start(request):
        return int(requests.shared[request]) if int(requests.group[request]) in known else 0

    def fits(request):
        held = sum(whole(text["request"]) for text in texts)
        return len(texts) < rules.places and held + whole(request) <= clock.room

    def begun():
        request = waiting.pop(0)
        place = min(set(range(rules.places)) - {each["place"] for each in texts})
        texts.append(
            {"request": request, "prompt": int(requests.prompt[request]), "read": start(request), "told": 0, "place": place}
        )
        return texts[-1]

    def seconds(under_way, chunks, ended):
        cached = sum(text["prompt"] + text["told"] - 1 for text in under_way)
        decoding = len(under_way)
        if rules.padded and under_way:  # rows of 1, 2, 4, 8: those of the last place that holds a text, as long as the longest
            rows = next(2**i for i in range(9) if 2**i > max(text["place"] for text in under_way))
            decoding = max(decoding, {1: 1, 2: 2, 4: 3, 8: 5}[rows])
            cached = decoding * max(text["prompt"] + text["told"] - 1 for text in under_way)
        return clock.step(decoding, cached, chunks, ended)

    def told(under_way, read):
        for text in under_way:
            text["told"] += 1
        for text, tokens in read:
            text["read"] += tokens
            if text["read"] == text["prompt"]:
                text["told"] = 1
                first[text["request"]] = now
                if requests.shared[text["request"]]:
                    known.add(int(requests.group[text["request"]]))
        for text in [text for text in texts if text["told"] == requests.output[text["request"]]]:
            last[text["request"]] = now
            texts.remove(text)

    while waiting or texts:
        if not texts and requests.arrived[waiting[0]] > now:
            now = float(requests.arrived[waiting[0]])
        came = sum(requests.arrived[request] <= now for request in waiting)
        under_way = [text for text in texts if text["told"]]
        if rules.apart:  # texts, and behind them one prompt, or as many whole ones as the budget holds
            if under_way:
                now += seconds(under_way, [], 0)
                told(under_way, [])
            left = rules.budget
            while left > 0:
                text = next((text for text in texts if not text["told"]), None)
                if text is None:
                    if not came or not fits(waiting[0]):
                        break
                    if left < rules.budget and int(requests.prompt[waiting[0]]) - start(waiting[0]) > left:
                        break
                    came, text = came - 1, begun()
                tokens = min(left, text["prompt"] - text["read"])
                ends = text["read"] + tokens == text["prompt"]
                now += seconds([], [PromptChunk(tokens, text["read"])], ends)
                told([], [(text, tokens)])
                if not ends:
                    break
                left -= tokens
            continue
        left, chunks, read = rules.budget - len(under_way), [], []
        while left > 0:
            text = next((text for text in texts if not text["told"] and text not in [each for each, _ in read]), None)
            if text is None:
                if not came or not fits(waiting[0]):
                    break
                came, text = came - 1, begun()
            tokens = min(left, text["prompt"] - text["read"])
            chunks.append(PromptChunk(tokens, text["read"]))
            read.append((text, tokens))
            left -= tokens
        now += seconds(under_way, chunks, sum(text["read"] + tokens == text["prompt"] for text, tokens in read))
        told(under_way, read)
    return first, last


@settings(deadline=None, max_examples=40)
@given(
    st.floats(0.5, 20),
    st.integers(0, 2**32),
    st.booleans(),
    st.booleans(),
    st.integers(1, 8),
    st.integers(8, 200),
    st.sampled_from([math.inf, 700.0]),
    st.sampled_from([0, 40]),
)
def test_every_token_comes_when_it_comes_tick_by_tick(rate, seed, apart, padded, places, budget, room, shared):
    if room < math.inf:
        shared = 0  # the twin counts no beginnings that stay
    requests = drawn(rate, 60, seed, shared=shared, groups=3)
    rules, clock = EngineRules(places=places, budget=budget, apart=apart, padded=padded), replace(CLOCK, room=room)
    found = simulate(Fleet(clock, rules), requests)
    first, last = tick_by_tick(requests, clock, rules)
    assert found.first == pytest.approx(first, rel=1e-9)
    assert found.last == pytest.approx(last, rel=1e-9)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
@pytest.mark.parametrize(("prompt", "squares"), [("constant", 1.0), ("exponential", 2.0)])
def test_one_place_waits_as_pollaczek_and_khinchine_say(load, prompt, squares):
    """M/D/1 and M/M/1: W = load s E[S^2] / E[S]^2 / 2 (1 - load), within four standard errors of ten seeded runs.

    A prompt takes its tokens' seconds, many of them, and ends with its first token.
    """
    mean, seconds = 20_000.0, 1e-4
    clock, rules = Clock(token=seconds), EngineRules(places=1, budget=2**24)
    waits = []
    for seed in range(10):
        traffic = Traffic(load / (mean * seconds + 1e-4), Lengths(prompt, (mean,)), Lengths("constant", (1,)))
        requests = traffic.draw(8_000, seed)
        found = simulate(Fleet(clock, rules), requests)
        own = requests.prompt * seconds + 1e-4
        waits.append(float((found.ttft - own)[1000:].mean()))
    service = mean * seconds + 1e-4
    expected = load * service * squares / 2 / (1 - load)
    assert np.mean(waits) == pytest.approx(expected, abs=4 * np.std(waits, ddof=1) / math.sqrt(len(waits)))
    assert np.std(waits, ddof=1) / math.sqrt(len(waits)) < 0.08 * expected, "the interval says something"


@pytest.mark.parametrize("readers", [0, 2])
@pytest.mark.parametrize("engines", [1, 3])
def test_littles_law_and_nothing_is_lost(engines, readers):
    """Requests in the service on average are their arrivals a second times their mean latency; tokens come in and go out."""
    requests = drawn(30.0, 3000, shared=0)
    found = simulate(Fleet(CLOCK, RULES, engines, readers, transfer=1e4), requests)
    assert found.area == pytest.approx(found.latency.sum(), rel=1e-9)
    assert found.inside == pytest.approx(found.requests_per_second * found.latency.mean(), rel=1e-9)
    assert found.read == requests.prompt.sum()
    assert not np.isnan(found.last).any()
    assert (found.first > requests.arrived).all()
    assert (found.last >= found.first).all()
    assert max(found.busy) <= found.span * (1 + 1e-9)
    assert found.tokens_per_second * found.span == pytest.approx(requests.output.sum())


def test_more_requests_wait_longer():
    """The same requests, ever closer together."""
    requests = drawn(1.0, 4000)
    tried = [simulate(Fleet(CLOCK, RULES), requests.at_rate(rate)) for rate in (0.5, 2, 4, 6, 8, 9)]
    means = [each.latency.mean() for each in tried]
    assert means == sorted(means)
    assert [each.utilisation for each in tried] == sorted(each.utilisation for each in tried)
    assert tried[0].within(Limits(ttft=0.5)) > tried[-1].within(Limits(ttft=0.5))
    assert not tried[0].overloaded
    assert simulate(Fleet(CLOCK, RULES), requests.at_rate(40)).overloaded


def test_one_request_alone_takes_its_steps():
    """A prompt in chunks of 64, the last of them with its first token; then a step for every token."""
    alone = ArrivingRequests(*(np.array([each]) for each in (3.0, 150, 4, 0, 0, 3)))
    found = simulate(Fleet(CLOCK, RULES), alone)
    chunks = [CLOCK.step(0, 0, [PromptChunk(*each)], ends) for each, ends in (((64, 0), 0), ((64, 64), 0), ((22, 128), 1))]
    assert found.ttft[0] == pytest.approx(sum(chunks))
    steps = [CLOCK.step(1, 150 + i, [], 0) for i in range(3)]
    assert found.latency[0] == pytest.approx(sum(chunks) + sum(steps))
    assert found.tpot[0] == pytest.approx(sum(steps) / 3)


def test_a_state_on_its_way_comes_before_the_second_token():
    alone = ArrivingRequests(*(np.array([each]) for each in (0.0, 60, 3, 0, 0, 2)))
    near, far = (simulate(Fleet(CLOCK, RULES, readers=1, transfer=speed), alone) for speed in (math.inf, 6.0))
    assert near.ttft[0] == far.ttft[0]
    assert far.last[0] - near.last[0] == pytest.approx(60 / 6.0)


def test_beginnings_in_common_are_read_once():
    requests = drawn(2.0, 400, prompt="uniform(200, 300)", shared=150, groups=4)
    found = simulate(Fleet(CLOCK, RULES), requests)
    again = requests.prompt.sum() - found.read
    assert 0.9 * 396 * 150 <= again <= 396 * 150, "all but the first of each group, and who comes while it is read"
    apart = simulate(Fleet(CLOCK, RULES), replace(requests, shared=requests.shared * 0))
    assert found.ttft.mean() < 0.8 * apart.ttft.mean()


def test_what_is_proposed_makes_fewer_steps():
    """As many steps as tokens over the mean of a step, within four standard errors; a chance of 1 takes all."""
    requests = drawn(1.0, 500, output="200")
    drafts = Drafts(3, 0.7)
    assert drafts.mean == pytest.approx((1 - 0.7**4) / 0.3)
    steps = drafts.of(requests).steps
    assert steps.mean() == pytest.approx(200.5 / drafts.mean, rel=0.02)
    assert (Drafts(3, 1.0).of(requests).steps == 50).all()
    assert (Drafts(3, 0.0).of(requests).steps == 199).all()
    fast = simulate(Fleet(CLOCK, replace(RULES, drafts=drafts)), drafts.of(requests).at_rate(0.1))
    assert fast.tpot.mean() < simulate(Fleet(CLOCK, RULES), requests.at_rate(0.1)).tpot.mean() / 1.6


def test_what_never_fits_is_refused_before_any_work():
    with pytest.raises(UserError, match=r"longest request has 410 tokens.*410 bytes.*room for 300: use more accelerators"):
        simulate(Fleet(replace(CLOCK, room=300.0), RULES), drawn(prompt="400", output="10"))
    with pytest.raises(UserError, match="a step of 8 tokens cannot give each of 4 texts 3: give a budget of 12"):
        EngineRules(places=4, budget=8, drafts=Drafts(2, 0.5))
    with pytest.raises(UserError, match="without speculative decoding"):
        EngineRules(padded=True, drafts=Drafts(2, 0.5))


def test_the_same_seed_gives_the_same_times():
    one, two, other = (simulate(Fleet(CLOCK, RULES), drawn(seed=seed)) for seed in (1, 1, 2))
    assert (one.last == two.last).all()
    assert (one.last != other.last).any()
