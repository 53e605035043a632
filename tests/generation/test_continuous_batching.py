"""Many prompts at few places: every row gets the tokens that it gets alone, whatever the decode state holds."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from zoo import DECODERS, PAIRS, PROMPTED_DECODERS

from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import InputError, change
from anyformer.generation import (
    Sampling,
    continuations,
    generate,
    generate_tokens,
    generating,
    memory,
    recorded,
    state_rows,
    stream,
)
from anyformer.generation.continuous_batching import served
from anyformer.model.transformer import build
from anyformer.testing.comparisons import equal
from covering import covering, others_slow, remembering, rest_slow

GREEDY = Sampling(temperature=0)
EVERY = {**DECODERS, **PAIRS, **PROMPTED_DECODERS}
PROMPTS = [[3, 1, 4, 1, 5, 9, 2], [6, 5], [7], [2, 7, 1, 8, 2, 8, 1, 8, 2, 8], [1, 4], [1, 7, 3, 2], [5], [8, 1, 1, 2]]
LENGTHS = [9, 2, 5, 1, 9, 3, 7, 4]
"""Tokens after which each row ends: some before others, one at once, and some not."""


def alone(model, prompts, lengths, sampling=GREEDY):
    """So many tokens of each prompt, each computed by itself, drawn as of its number among all."""
    start = 2 if model.architecture.two_inputs else None
    found = []
    for number, (prompt, length) in enumerate(zip(prompts, lengths, strict=True)):
        # Rows are numbered: only the last of equal ones has this one's draws.
        rows = [prompt] * (number + 1 if sampling.temperature else 1)
        columns = torch.stack(list(continuations(model, rows, sampling=sampling, max_tokens=length, start=start)), 1)
        found.append(columns[-1].tolist())
    return found


def together(model, prompts, batch, lengths, most=9, sampling=GREEDY, **how):
    """The tokens of each prompt served at `batch` places."""
    rows = [[] for _ in prompts]
    start = 2 if model.architecture.two_inputs else None
    ended = lambda row: len(rows[row]) == lengths[row]  # noqa: E731
    places = state_rows.state_rows(model, prompts, batch, most, start=start, **how)
    for step in served(places, prompts, sampling=sampling, max_tokens=most, ended=ended, start=start):
        assert len(step) <= batch
        for row, token, *_ in step:
            rows[row].append(token)
    return rows


@pytest.mark.parametrize("name", others_slow(EVERY, remembering))
def test_every_row_gets_the_tokens_that_it_gets_alone(name):
    model = build(EVERY[name]).eval()
    expected = alone(model, PROMPTS, LENGTHS)
    assert together(model, PROMPTS, 3, LENGTHS) == expected


PLACES = (("llama", "window", "latent_window_gate", "delta_gated", "prefix", "prompt"), (1, 2, 8))


@pytest.mark.parametrize(("name", "batch"), rest_slow(product(*PLACES), covering(*PLACES, together=1)))
def test_any_number_of_places_and_a_state_that_grows(name, batch, monkeypatch):
    monkeypatch.setattr(memory, "BLOCK", 4)
    model = build(EVERY[name]).eval()
    assert together(model, PROMPTS, batch, LENGTHS) == alone(model, PROMPTS, LENGTHS)


@pytest.mark.parametrize("name", ["llama", "window", "streams", "delta_gated", "latent"])
def test_a_recorded_step_serves_rows_that_come_and_go(name):
    model = build(EVERY[name]).eval()
    step = recorded.RecordedDecode()
    found = together(model, PROMPTS * 3, 3, LENGTHS * 3, step=step, multiple=8)
    assert found == alone(model, PROMPTS, LENGTHS) * 3
    assert step.recording is not None
    assert step.recording.bind is not None


def test_slots_that_no_row_holds_are_given_up(monkeypatch):
    model, used = build(DECODERS["window"]).eval(), []
    plain = state_rows.decode

    def step(*given):
        used.append(given[2].slots.used)
        return plain(*given)

    prompts, lengths = PROMPTS * 20, LENGTHS * 20
    assert together(model, prompts, 3, lengths, step=step) == alone(model, PROMPTS, LENGTHS) * 20
    assert len(used) > 200
    assert max(used) <= 22, "the longest row has 19 positions"


def test_draws_are_keyed_by_the_prompt_and_not_by_the_place():
    model, sampling = build(DECODERS["llama"]).eval(), Sampling(seed=3)
    expected = alone(model, PROMPTS, LENGTHS, sampling)
    for batch in (1, 3):
        assert together(model, PROMPTS, batch, LENGTHS, sampling=sampling) == expected


def test_a_table_of_positions_is_not_left_by_places_without_a_row():
    """A row that ended first, at a place that nobody takes, goes on counting while the last one writes."""
    model = build(DECODERS["gpt2"]).eval()
    prompts, lengths = [[1] * 20, [2] * 20, [3]], [8, 11, 12]
    assert together(model, prompts, 2, lengths, most=12) == alone(model, prompts, lengths)


@pytest.mark.parametrize("name", ["llama", "window", "delta_gated", "latent"])
def test_a_row_is_replaced_by_one_of_another_length(name):
    model = build(EVERY[name]).eval()
    first, late = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [2, 7, 1, 8, 2, 8, 1]]), torch.tensor([[6, 5, 3]])
    with torch.inference_mode():
        state, other = model.state(2, 12), model.state(1, 12)
        model(first, state=state)
        model(late, state=other)
        state.put(torch.tensor([1]), other)
        found = model(torch.tensor([[4], [7]]), state=state)[:, -1]
        for row, text in enumerate(([*first[0].tolist(), 4], [6, 5, 3, 7])):
            equal(found[row], model(torch.tensor([text]))[0, -1])


@pytest.mark.parametrize("form", ["int8", "int4-32"])
def test_weights_in_few_bits(form):
    model = generating(build(DECODERS["llama"]).eval(), form)
    assert together(model, PROMPTS, 3, LENGTHS) == alone(model, PROMPTS, LENGTHS)


@pytest.fixture(scope="module")
def speaker():
    """A model over bytes and its tokenizer."""
    tokenizer = make_tokenizer(Bytes(), lambda: iter(()), lambda: iter(()))
    return build(change(DECODERS["llama"], "embedding.vocab", 257)).eval(), tokenizer


def test_texts_are_the_same_at_few_places(speaker):
    model, tokenizer = speaker
    prompts = ["def ", "x", "class Q:", "", "import"]
    for stop in ((), ("a", "\x10")):
        how = {"max_tokens": 25, "sampling": Sampling(seed=4), "stop": stop}
        whole = generate(model, tokenizer, prompts, **how)
        assert generate(model, tokenizer, prompts, batch=2, **how) == whole
        texts, told = [""] * 5, []
        for row, piece in stream(model, tokenizer, prompts, batch=2, done=told.append, **how):
            assert row not in told
            texts[row] += piece
        assert texts == whole
        assert sorted(told) == [0, 1, 2, 3, 4]
    tokens = [[3, 1], [4], [1, 5]]
    for ends in ((), (9,)):
        whole = generate_tokens(model, tokens, max_tokens=6, sampling=Sampling(seed=2), ends=ends)
        told = []
        more = {"max_tokens": 6, "sampling": Sampling(seed=2), "ends": ends}
        assert generate_tokens(model, tokens, batch=2, done=told.append, **more) == whole
        assert sorted(told) == [0, 1, 2]


def test_no_place_is_refused(speaker):
    with pytest.raises(InputError, match="batch = 0 should be at least 1"):
        generate(*speaker, ["a", "b"], batch=0)
