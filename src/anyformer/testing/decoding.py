"""Contracts of decoding with a state, which equals computing the whole: in any pieces, after padding, in copied rows."""

from __future__ import annotations

import torch

from anyformer.model import Architecture
from anyformer.operations import Shape, StateBytes
from anyformer.parts.call.shared import slot_bytes
from anyformer.plan import Plan
from anyformer.precision import Bf16, Fp32
from anyformer.testing.comparisons import equal, refusal, unequal
from anyformer.testing.inputs import B, S, T, inputs, padded, tokens
from anyformer.testing.models import looked_at, without_values
from anyformer.testing.traits import limits

CUTS = ((1,) * T, (T,), (5, 1, 1, 4), (1, 9, 1), (2, 2, 7))
"""The lengths of pieces in which T tokens are read."""


def whole_only(architecture: Architecture) -> tuple[str, ...]:
    """The declared reasons why decoding with a state differs from computing the whole."""
    return limits(architecture, "cached", "chunked")


def cached_and_chunked_equal_the_whole(architecture: Architecture) -> None:
    """Tokens read one by one, in one piece, or in pieces of several lengths give the logits of the whole."""
    model, x = looked_at(architecture), tokens(architecture)
    whole, reasons = model(x), whole_only(architecture)
    for cut in CUTS[:1] if reasons else CUTS:
        state = model.state(B, T + 3)
        pieces = torch.cat([model(piece, state=state) for piece in torch.split(x, list(cut), 1)], 1)
        if reasons:
            unequal(pieces, whole, f"cached, which cannot equal the whole because {reasons[0]}")
        else:
            equal(pieces, whole, f"read in pieces of {cut}")


def cached_target_equals_the_whole(architecture: Architecture) -> None:
    """A target read in pieces equals the whole target; the source is read with the first piece."""
    model = looked_at(architecture)
    source, target = inputs(architecture)
    padding = None
    if source.dim() < 4:  # images have none
        padding = torch.zeros(source.shape[:2], dtype=torch.bool)
        padding[0, -4:] = True
    whole = model(source, target, padding=padding)
    for cut in CUTS[:3]:
        state = model.state(B, T, source=S)
        first, *rest = torch.split(target, list(cut), 1)
        pieces = [model(source, first, padding=padding, state=state)] + [model(None, piece, state=state) for piece in rest]
        equal(torch.cat(pieces, 1), whole, f"a target read in pieces of {cut}")


def prefix_must_come_in_one_piece(architecture: Architecture) -> None:
    """A prefix within the first piece gives the logits of the whole; a prefix cut in two gives others."""
    model, x = looked_at(architecture), tokens(architecture)
    prefix = torch.tensor([5, 3])
    whole = model(x, prefix=prefix)
    unequal(whole, model(x), "a bidirectional prefix")
    state = model.state(B, T)
    pieces = torch.cat([model(x[:, :6], prefix=prefix, state=state), model(x[:, 6:], state=state)], 1)
    equal(pieces, whole, "a prefix in one piece")
    state = model.state(B, T)
    pieces = torch.cat([model(x[:, :2], prefix=prefix, state=state), model(x[:, 2:], prefix=prefix, state=state)], 1)
    unequal(pieces, whole, "a prefix in two pieces")


def left_padding_goes_with_a_state(architecture: Architecture) -> None:
    """A row padded on the left and then read token by token equals the row alone."""
    if whole_only(architecture) or limits(architecture, "padded"):
        return
    model, x = looked_at(architecture), tokens(architecture)
    wide, padding = padded(x, 4, 0)
    state = model.state(B, T + 4)
    first = model(wide[:, :9], padding=padding[:, :9], state=state)
    rest = [model(piece, state=state) for piece in torch.split(wide[:, 9:], 1, 1)]
    equal(torch.cat([first, *rest], 1)[:, 4:], model(x), "left padding and a state")


def right_padding_goes_with_a_state(architecture: Architecture) -> None:
    """A row that is shorter than the other, and padded on the right, continues after its padding."""
    if whole_only(architecture) or limits(architecture, "padded"):
        return
    model, x = looked_at(architecture), tokens(architecture)
    wide, padding = padded(x[:, :7], 0, 3)
    padding[1] = False
    wide[1] = tokens(architecture, length=10, seed=2)[0]
    state = model.state(B, 16)
    first = model(wide, padding=padding, state=state)
    later = torch.cat([model(piece, state=state) for piece in torch.split(x[:, 7:], 1, 1)], 1)
    equal(torch.cat([first[:1, :7], later[:1]], 1), model(x[:1]), "the row padded on the right")
    whole = torch.cat([wide[1:], x[1:, 7:]], 1)
    equal(torch.cat([first[1:], later[1:]], 1), model(whole), "the row beside it")


def later_padding_is_taken_or_refused(architecture: Architecture) -> None:
    """Padding in a later piece, before and behind what a row reads there, is taken as if it were not there, by what follows
    too, or refused with a remedy if the state cannot take it."""
    model, x = looked_at(architecture), tokens(architecture)
    state = model.state(B, T + 3)
    model(x[:, :4], state=state)
    # The first row reads two tokens of five places, the second one five.
    wide, padding = x[:, 4:9].clone(), torch.zeros(B, 5, dtype=torch.bool)
    padding[0, [0, 3, 4]] = True
    wide[0, 1:3] = x[0, 4:6]
    refused = refusal(lambda: model(wide, padding=padding, state=state))
    if not state.allows_padding:
        assert "pad the first chunk" in refused, "padding would push positions out of the window, and is not refused"
        return
    assert not refused, refused
    if whole_only(architecture) or limits(architecture, "padded"):
        return
    state = model.state(B, T + 3)
    pieces = [model(x[:, :4], state=state), model(wide, padding=padding, state=state)]
    rows = torch.stack([x[0, 6:8], x[1, 9:11]])
    pieces += [model(piece, state=state) for piece in torch.split(rows, 1, 1)]
    given = torch.cat(pieces, 1)
    equal(given[:1, [0, 1, 2, 3, 5, 6, 9, 10]], model(x[:1, :8]), "the row with padding in a later piece")
    equal(given[1:], model(x[1:]), "the row beside it")


def forked_state_continues_like_its_row(architecture: Architecture) -> None:
    """Copied rows of a state, as beams have them, continue like their rows, whatever the original reads next."""
    if whole_only(architecture):
        return
    model, x = looked_at(architecture), tokens(architecture)
    state = model.state(B, T)
    model(x[:, :7], state=state)
    rows = torch.tensor([1, 0, 1])
    fork = state.fork(rows)
    model(x[:, 7:9], state=state)
    equal(model(x[rows, 7:], state=fork), model(x[rows])[:, 7:], "a forked state")


def state_takes_the_declared_bytes(architecture: Architecture) -> None:
    """A decode state takes the declared bytes; a model that does not generate declares none."""
    if architecture.decoder is None or architecture.latents is not None:
        assert architecture.cost(Shape(batch=3, capacity=20)).total_state_bytes == 0, (
            "a model that does not generate has no decode state"
        )
        return
    model = without_values(architecture)
    call = Shape(batch=3, length=1, capacity=20, source=S if architecture.two_inputs else 0)
    slots = 20 + (S if architecture.source == "prefix" else architecture.virtual_tokens or 0)
    for plan, dtype in ((Plan(precision=Fp32()), torch.float32), (Plan(precision=Bf16()), torch.bfloat16)):
        held = model.state(3, 20, source=S, dtype=dtype).nbytes
        declared = architecture.cost(call, plan).total_state_bytes + slot_bytes(3, slots)
        assert held == declared, f"declares {declared} bytes of decode state in {plan.number} and holds {held}"


def step_reads_the_state_that_it_holds(architecture: Architecture) -> None:
    """A step of one position is said to read no more of a layer's state than the layer holds, and all of a state that is the
    same after any number of positions, such as a running sum. A layer that holds none may read another layer's."""
    few, *more = (_step_states(architecture, past, capacity) for past, capacity in ((0, 20), (38, 40), (39, 40)))
    for path, state in few.items():
        found = {state, *(each[path] for each in more)}
        for each in found if state.held else ():
            said = f"{path}: a step is said to read {each.read} bytes of a state that holds {each.held}"
            assert each.read <= each.held, said
            assert each.read == each.held or len(found) > 1, f"{said}, whatever came before"


def _step_states(architecture: Architecture, past: int, capacity: int) -> dict[str, StateBytes]:
    """The state of every layer in a step after so many positions."""
    call = Shape(batch=3, length=1, past=past, capacity=capacity)
    return {node.path: node.tally.own_state for node in architecture.cost(call).nodes() if node.tally.own_state is not None}
