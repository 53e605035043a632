"""The engine room: a text gets the tokens that `generate` gives its prompt alone, whatever comes, ends or is cancelled."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from zoo import DECODERS, PAIRS, PROMPTED_DECODERS

from anyformer.describe import UserError
from anyformer.generation import Sampling, generate_tokens
from anyformer.generation.decode import decode
from anyformer.generation.memory import state_bytes
from anyformer.generation.processors import FrequencyPenalty, Suppress
from anyformer.generation.recorded import MULTIPLE, RecordedDecode
from anyformer.model.transformer import build
from anyformer.serving.own_states import OwnStates
from anyformer.serving.prompt_prefixes import PromptPrefixes
from anyformer.serving.request import ServedRequest
from anyformer.serving.scheduler import QueueFullError, Scheduler
from anyformer.serving.shared_rows import SharedRows
from anyformer.serving.states import NeverFitsError, request_bytes, side_by_side

KINDS = {
    "full": DECODERS["llama"], "ring": DECODERS["window"], "latent": DECODERS["latent"], "recurrent": DECODERS["delta_gated"],
    "index": DECODERS["latent_indexed"], "prefix": DECODERS["prefix"], "cross": PAIRS["original"],
}  # fmt: skip
"""An architecture of every kind of decode state, and one that reads its prompt both ways."""
WAYS = [(kind, way) for kind in KINDS for way in ("own", "shared", "recorded") if kind != "cross" or way == "own"]
"""`recorded`: shared rows whose steps are recorded, as the server has them."""
PROMPTS = ((3, 1, 4, 1, 5, 9, 2), (6, 5), (7,), (2, 7, 1, 8, 2, 8, 1, 8, 2, 8), (2, 7, 1, 8, 2, 8, 5), (2, 7, 1, 4))
CHOICES = (
    Sampling(temperature=0), Sampling(seed=1), Sampling(seed=2, temperature=0.7, top_k=5),
    Sampling(seed=3, processors=(FrequencyPenalty(penalty=1.5),)),
)  # fmt: skip
MOST, CHUNK, PLACES = 6, 3, 3


@cache
def model(kind):
    return build(KINDS[kind]).eval()


def start(kind):
    return 2 if kind == "cross" else None


@cache
def alone(kind, prompt, choice, row):
    """The tokens of a prompt by itself; as answer number `row` where it is drawn."""
    more = {} if start(kind) is None else {"start": start(kind)}
    answers = {} if choice.greedy else {"answers": row + 1}
    found = generate_tokens(model(kind), [prompt], max_tokens=MOST, sampling=choice, **more, **answers)
    return tuple(found[-1])


def states(kind, way):
    if way == "own":
        largest = max(request_bytes(model(kind), ServedRequest(each, MOST, start=start(kind))) for each in PROMPTS)
        return OwnStates(model(kind), 2 * largest, CHUNK, prefixes(kind))
    step, multiple = (RecordedDecode(), MULTIPLE) if way == "recorded" else (decode, 1)
    return SharedRows(model(kind), PLACES, 16, CHUNK, step, multiple, prefixes(kind))


def prefixes(kind):
    """Room for the beginnings of two or three prompts."""
    return PromptPrefixes(model(kind), CHUNK, 3 * request_bytes(model(kind), ServedRequest((1,) * 10, MOST)))


class Schedules(RuleBasedStateMachine):
    """Requests come, go on and are cancelled in any order."""

    kind, way, tried = "full", "own", []

    def __init__(self):
        super().__init__()
        self.scheduler = Scheduler(states(self.kind, self.way), most_waiting=1000)
        self.asked, self.given, self.over, self.cancelled = {}, {}, set(), set()

    @rule(
        prompt=st.sampled_from(PROMPTS), choice=st.sampled_from(CHOICES), most=st.integers(1, MOST), row=st.integers(0, 1),
        ends=st.sampled_from([(), (5,), (1, 8, 9)]),
    )  # fmt: skip
    def come(self, prompt, choice, most, row, ends):
        number = len(self.asked)
        request = ServedRequest(prompt, most, choice, row=row, ends=ends, start=start(self.kind))
        self.scheduler.submit(number, request)
        self.asked[number], self.given[number] = request, []

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def cancel(self, data):
        number = data.draw(st.sampled_from(sorted(self.asked)))
        self.scheduler.cancel(number)
        self.cancelled.add(number)

    @rule(count=st.integers(1, 4))
    def step(self, count):
        for _ in range(count):
            told = [event.number for event in self.scheduler.step() if self.taken(event)]
            assert len(told) == len(set(told)), "one token in a step"

    def taken(self, event):
        assert event.error is None
        assert event.number not in self.cancelled, "a cancelled text goes on"
        assert event.number not in self.over
        self.given[event.number].append(event.token.number)
        if event.last:
            self.over.add(event.number)
        return True

    @invariant()
    def memory_is_as_foretold(self):
        assert self.scheduler.states.held == self.scheduler.states.foretold <= self.scheduler.states.total

    @invariant()
    def every_text_is_that_of_its_prompt_alone(self):
        for number, request in self.asked.items():
            given = tuple(self.given[number])
            wanted = expected(self.kind, request)
            assert given == wanted[: len(given)]
            assert (number not in self.over) or given == wanted

    def teardown(self):
        steps = 0
        while not self.scheduler.idle:
            self.step(1)
            steps += 1
            assert steps < 1000, "every text ends"
        self.every_text_is_that_of_its_prompt_alone()
        assert set(self.asked) == self.over | self.cancelled
        assert self.scheduler.states.held == self.scheduler.states.foretold
        assert self.way != "own" or self.scheduler.states.held == 0
        self.tried.append(len(self.asked))


def expected(kind, request):
    """The tokens of a request, its end among them."""
    whole = alone(kind, request.tokens, request.sampling, request.row)[: request.max_tokens]
    ends = [place for place, token in enumerate(whole) if token in request.ends]
    return whole[: ends[0] + 1] if ends else whole


def try_schedules(kind, way, count, steps):
    machine = type("Schedules_" + kind + way, (Schedules,), {"kind": kind, "way": way, "tried": []})
    how = settings(
        max_examples=count, stateful_step_count=steps, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=how)
    return len(machine.tried)


@pytest.mark.parametrize(("kind", "way"), WAYS)
def test_tokens_do_not_depend_on_company(kind, way):
    try_schedules(kind, way, 8, 6)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("kind", "way"), WAYS)
def test_ten_thousand_schedules(kind, way):
    tried = try_schedules(kind, way, 10_000 // len(WAYS) + 1, 20)
    assert tried > 10_000 // len(WAYS)
    print(f"{tried} schedules")


EVERY = {**DECODERS, **PAIRS, **PROMPTED_DECODERS}


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_every_architecture_gives_every_text_as_alone(name):
    made = build(EVERY[name]).eval()
    begins = {"start": 2} if made.architecture.two_inputs else {}
    ways = [OwnStates(made, 10**6, CHUNK)] + ([] if side_by_side(made) else [SharedRows(made, PLACES, 24, CHUNK)])
    for held in ways:
        scheduler, found = Scheduler(held), [[] for _ in PROMPTS]
        for number, prompt in enumerate(PROMPTS):
            scheduler.submit(number, ServedRequest(prompt, 9, Sampling(seed=number), **begins))
        while not scheduler.idle:
            assert held.held == held.foretold
            for event in scheduler.step():
                found[event.number].append(event.token.number)
        for number, prompt in enumerate(PROMPTS):
            how = {"max_tokens": 9, "sampling": Sampling(seed=number), **begins}
            assert found[number] == generate_tokens(made, [prompt], **how)[0]


def run(scheduler):
    """The events until nothing is left."""
    found = []
    while not scheduler.idle:
        found += scheduler.step()
    return found


def test_states_of_their_own_give_the_same_bits_in_any_company():
    request = ServedRequest(PROMPTS[0], MOST, logprobs=3)
    several = [request, *(ServedRequest(each, 4, CHOICES[1]) for each in PROMPTS)]
    found = []
    for company in ([request], several, several[::-1]):
        scheduler = Scheduler(OwnStates(model("full"), 10**6, CHUNK))
        for number, each in enumerate(company):
            scheduler.submit(number, each)
        own = company.index(request)
        found.append([event.token.chances for event in run(scheduler) if event.number == own])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("prefix", "cross")])
def test_a_prompt_that_begins_as_another_goes_on_from_it_with_the_same_bits(kind):
    kept = prefixes(kind)
    texts = [ServedRequest(tokens, 4, logprobs=3) for tokens in (PROMPTS[3], PROMPTS[3], PROMPTS[4], PROMPTS[5], PROMPTS[3])]
    found = []
    for shared in (None, kept):
        scheduler = Scheduler(OwnStates(model(kind), 10**6, CHUNK, shared))
        given = [[] for _ in texts]
        for number, text in enumerate(texts):
            scheduler.submit(number, text)
        for event in run(scheduler):
            given[event.number].append(event.token[1:])
        found.append(given)
    assert found[0] == found[1]
    assert kept.reused >= 9, "of the second prompt nine tokens, of later ones if there is room"
    assert 0 < kept.held <= kept.total


@pytest.mark.parametrize("kind", ["prefix", "cross"])
def test_nothing_is_kept_where_a_beginning_depends_on_what_follows(kind):
    assert prefixes(kind).total == 0


def test_a_running_text_gets_a_token_between_all_chunks_of_a_prompt():
    scheduler = Scheduler(SharedRows(model("full"), 2, 60, CHUNK))
    scheduler.submit(0, ServedRequest((3, 1), 40))
    scheduler.step()
    scheduler.submit(1, ServedRequest(tuple([4] * 20), 3))
    for _ in range(6):
        assert [event.number for event in scheduler.step()] == [0], "20 tokens are seven chunks of 3"
    assert [event.number for event in scheduler.step()] == [0, 1]


def test_short_prompts_share_a_chunk():
    scheduler = Scheduler(SharedRows(model("full"), 6, 20, CHUNK))
    for number, count in enumerate((2, 1, 1, 4, 3)):
        scheduler.submit(number, ServedRequest(tuple([4] * count), 9))
    told = [[event.number for event in scheduler.step()] for _ in range(4)]
    assert told == [[0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2, 3]], "2 + 1 tokens; 1, and 4 do not fit beside it; 3 of 4; the last"
    assert [event.number for event in scheduler.step()] == [0, 1, 2, 3, 4]


def test_a_first_token_does_not_wait_for_the_next_prompt():
    scheduler = Scheduler(SharedRows(model("full"), 2, 20, CHUNK))
    for number in range(2):
        scheduler.submit(number, ServedRequest((4,), 9))
    events = scheduler.events()
    assert (next(events).number, scheduler.waiting) == (0, 1), "it is told before the second prompt is read"
    assert (next(events).number, scheduler.waiting) == (1, 0)


def test_what_never_fits_is_refused_with_its_bytes_and_what_fits_waits_in_order():
    small, large = ServedRequest((3, 1), 2), ServedRequest((3, 1), 30)
    total = request_bytes(model("full"), large)
    scheduler = Scheduler(OwnStates(model("full"), total), most_waiting=3)
    with pytest.raises(NeverFitsError, match=rf"2 tokens of prompt and 31 of text take [\d,]+ bytes.* has {total:,}: ask"):
        scheduler.submit(9, ServedRequest((3, 1), 31))
    scheduler.submit(0, small)
    scheduler.step()
    for number, request in ((1, large), (2, small), (3, small)):
        scheduler.submit(number, request)
    with pytest.raises(QueueFullError, match=r"3 requests wait and 3 may"):
        scheduler.submit(4, small)
    order = [event.number for event in run(scheduler) if event.last]
    assert order == [0, 1, 2, 3], "the small ones do not overtake the large one"
    with pytest.raises(NeverFitsError, match=r"are 17 positions .* and a text has 16 here"):
        Scheduler(SharedRows(model("full"), 2, 16)).submit(0, ServedRequest((1,), 16))


def test_a_text_that_is_cancelled_frees_its_room_at_once():
    states = OwnStates(model("full"), 10**6, CHUNK)
    scheduler = Scheduler(states)
    for number in range(3):
        scheduler.submit(number, ServedRequest(PROMPTS[3], 5))
    for _ in range(6):
        scheduler.step()
    before = states.held
    scheduler.cancel(0)
    assert states.held == before - request_bytes(model("full"), ServedRequest(PROMPTS[3], 5))
    scheduler.cancel(1)
    scheduler.cancel(2)
    assert (scheduler.idle, states.held) == (True, 0)


def test_what_cannot_be_chosen_ends_one_text_alone():
    nothing = Sampling(temperature=0, processors=(Suppress(tokens=tuple(range(100))),))
    scheduler = Scheduler(SharedRows(model("full"), 2, 16))
    scheduler.submit(0, ServedRequest((3, 1), 3, nothing))
    scheduler.submit(1, ServedRequest((3, 1), 3))
    events = run(scheduler)
    assert [event.error is None for event in events if event.number == 0] == [False]
    assert [event.token.number for event in events if event.number == 1] == list(alone("full", (3, 1), CHOICES[0], 0)[:3])


@pytest.mark.parametrize("name", ["delta_gated", "prompt", "pair_prefix", "virtual_tokens"])
def test_the_bytes_of_a_state_are_foretold_in_either_format(name):
    """Parts that stay in fp32, slots in front of the first token, sources."""
    described = {**DECODERS, **PAIRS, **PROMPTED_DECODERS}[name]
    for dtype in (torch.float32, torch.bfloat16):
        made, source = build(described).eval().to(dtype), 5 if described.two_inputs else 0
        assert state_bytes(made, 2, 9, source) == made.state(2, 9, source=source).nbytes


def test_rows_that_would_change_one_another_are_refused():
    with pytest.raises(UserError, match="a source of its own length; give every text its own"):
        SharedRows(model("cross"), 2, 16)


def test_the_log_probabilities_of_a_prompt_are_those_of_the_whole():
    tokens = PROMPTS[3]
    for chunk in (None, CHUNK):
        scheduler = Scheduler(OwnStates(model("full"), 10**6, chunk))
        scheduler.submit(0, ServedRequest(tokens, 1, logprobs=2, echo=True))
        (event,) = run(scheduler)
        with torch.inference_mode():
            logs = model("full")(torch.tensor([tokens]))[0].log_softmax(-1)
        assert len(event.prompt) == len(tokens) - 1
        for place, each in enumerate(event.prompt):
            assert each.logprob == pytest.approx(float(logs[place, tokens[place + 1]]), abs=1e-5)
            assert [token for token, _ in each.likeliest] == logs[place].topk(2).indices.tolist()
