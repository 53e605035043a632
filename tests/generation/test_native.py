"""A decode step that C++ computes from a table gives the logits of the plain one, and leaves the same decode state."""

from __future__ import annotations

import pytest
import torch
from generation.test_recorded import EVERY, MULTIPLE, STEPS, begun
from zoo import DECODERS

from anyformer.generation import generating, recorded
from anyformer.generation.decode import decode
from anyformer.generation.native.decode import NativeStep, natively, unavailable
from anyformer.generation.recorded import RecordedDecode
from anyformer.model.transformer import build
from covering import kinds, others_slow

UNKNOWN = {}
"""Kinds with an operator that no table has, and what the table says of it."""


def memory_of(state):
    return dict(recorded._tensors(state))


@pytest.mark.parametrize("name", others_slow(EVERY, kinds))
def test_every_step_has_the_logits_of_the_plain_one(name, monkeypatch):
    assert unavailable() == ""
    monkeypatch.setattr(recorded, "FINE", 2)
    model = build(EVERY[name], seed=1).eval()
    step = RecordedDecode(run=natively)
    with torch.inference_mode():
        plain, other = begun(model), begun(model)
        tokens = torch.tensor([1, 2, 3])
        for _ in range(STEPS):
            for each in (other, plain):
                each.slots.reserve(1, MULTIPLE)
            logits = step(model, tokens, other)
            plain.slots.visible = other.slots.visible
            expected = decode(model, tokens, plain)
            torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)
            tokens = expected.argmax(-1)
    for place, mine in memory_of(other).items():
        torch.testing.assert_close(mine, memory_of(plain)[place], atol=1e-4, rtol=1e-4, msg=lambda text, place=place: f"{place}: {text}", equal_nan=True)
    tables = recorded._recordings(model, None, memory_of(other)).tables
    assert tables.unknown == UNKNOWN.get(name, "")
