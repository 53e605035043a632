"""Texts as rows of one decode state: how many of them a step computes."""

from __future__ import annotations

from zoo import DECODERS

from anyformer.generation import GREEDY, generate_tokens
from anyformer.generation.decode import decode
from anyformer.model.transformer import build
from anyformer.serving.request import ServedRequest
from anyformer.serving.scheduler import Scheduler
from anyformer.serving.shared_rows import SharedRows


def test_a_step_computes_the_rows_that_hold_texts():
    llama, seen = build(DECODERS["llama"]).eval(), []

    def step(model, tokens, state):
        seen.append(len(tokens))
        return decode(model, tokens, state)

    scheduler = Scheduler(SharedRows(llama, 6, 16, 3, step))
    for number, most in enumerate((13, 5, 5, 5, 5)):
        scheduler.submit(number, ServedRequest((3 + number, 1, 4), most))
    events = []
    while not scheduler.idle:
        events += scheduler.step()
    assert sorted(set(seen)) == [1, 2, 4, 6], "powers of two, and all places at most"
    assert seen[0] == seen[-1] == 1
    tokens = [event.token.number for event in events if event.number == 0]
    assert tokens == generate_tokens(llama, [(3, 1, 4)], max_tokens=13, sampling=GREEDY)[0]
