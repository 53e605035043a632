"""Decode state: room, rings, trimming, forking."""

from __future__ import annotations

import pytest
import torch
from zoo import DECODERS

from anyformer.model.transformer import build
from anyformer.parts.call.ring_state import RingState
from anyformer.parts.call.state import StateError

X = torch.randint(0, 37, (2, 12), generator=torch.Generator().manual_seed(0))


def test_a_full_state_says_how_much_room_it_had():
    model = build(DECODERS["llama"])
    state = model.state(2, 8)
    model(X[:, :6], state=state)
    with pytest.raises(StateError, match=r"8 positions: 6 are used and 3 more"):
        model(X[:, 6:9], state=state)


def test_a_window_keeps_a_ring_no_larger_than_the_window():
    model = build(DECODERS["window"])
    (state,) = model.state(2, 100).layers[0].values()
    assert isinstance(state, RingState)
    assert state.key.shape[2] == 4
    (short,) = model.state(2, 3).layers[0].values()
    assert not isinstance(short, RingState), "a window longer than the memory needs no ring"


@pytest.mark.parametrize("name", ["llama", "grouped", "gpt2", "local_global"])
def test_trimmed_positions_are_forgotten(name):
    model = build(DECODERS[name]).eval()
    state = model.state(2, 12)
    short = name == "local_global"  # its rings hold 4 positions
    kept, tried = (2, 2) if short else (5, 4)
    model(X[:, :kept], state=state)
    model(X[:, kept : kept + tried].flip(1), state=state)
    state.trim(tried)
    torch.testing.assert_close(model(X[:, kept:], state=state), model(X)[:, kept:], rtol=1e-4, atol=1e-5)


def test_a_ring_that_overwrote_refuses_to_trim():
    model = build(DECODERS["window"])
    state = model.state(2, 12)
    model(X[:, :7], state=state)
    with pytest.raises(StateError, match="window of 4"):
        state.trim(1)
    with pytest.raises(StateError, match="cannot forget 9 positions of 7"):
        state.trim(9)


def test_forks_do_not_share_memory():
    model = build(DECODERS["local_global"]).eval()
    state = model.state(2, 12)
    model(X[:, :6], state=state)
    fork = state.fork(torch.tensor([0, 1]))
    model(X[:, 6:].flip(1), state=fork)
    torch.testing.assert_close(model(X[:, 6:], state=state), model(X)[:, 6:], rtol=1e-4, atol=1e-5)


def test_a_window_edge_is_exact():
    """The query sees its window and not one position more: off-by-one bugs of sliding windows."""
    from anyformer.describe import change

    for size in (1, 2, 3):
        model = build(change(DECODERS["window"], "decoder.layer.attention.mask.size", size).but())
        one = change(model.architecture, "decoder.order", "layer")
        model = build(one).eval()
        y = X.clone()
        y[:, 4] = (y[:, 4] + 1) % 37
        changed = (model(X) - model(y)).abs().amax((0, 2)) > 1e-6
        assert changed.nonzero().flatten().tolist() == list(range(4, 4 + size))


def test_a_ring_that_is_shifted_has_its_latest_slots_further_on():
    """Slot s of a window of 5 becomes slot s + 2, at place (s + 2) mod 5."""
    size, written, by = 5, 8, 2
    state = RingState(torch.zeros(1, 1, size, 1), torch.zeros(1, 1, size, 1))
    for slot in range(written):
        state.key[..., slot % size, :] = slot
        state.value[..., slot % size, :] = -slot
    state.shift(by, written)
    latest = range(written - size, written)
    assert [int(state.key[0, 0, (slot + by) % size, 0]) for slot in latest] == [*latest]
    assert [-int(state.value[0, 0, (slot + by) % size, 0]) for slot in latest] == [*latest]
