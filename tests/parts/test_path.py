"""PaTH attention: chunks and steps are every pair of tokens with all between, both ways, and as the authors' code."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from anyformer.parts.call.state import ChunkSlots, StateError
from anyformer.parts.recurrence.path import path_chunk, path_scores, path_step
from anyformer.parts.recurrence.path_state import PathState

B, H, G, E = 2, 2, 2, 3


def waves(*shape: int, step: float) -> torch.Tensor:
    """sin(step), sin(2 step) ...: numbers that anyone can write down again."""
    return torch.sin(torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float64) * step).view(shape)


def given(length: int, group: int = G) -> list[torch.Tensor]:
    """q of each head of a group, k, w, beta from 0 to 2."""
    q = waves(B, length, H, group, E, step=0.7).permute(0, 2, 3, 1, 4)
    k, w, beta = (waves(B, length, H, n, step=step).transpose(1, 2)[:, :, None] for n, step in ((E, 1.1), (E, 0.4), (1, 0.5)))
    return [x.clone().requires_grad_() for x in (q, k, F.normalize(w, dim=-1), 2 * beta.abs())]


def pairs(q, k, w, beta):
    """Each key turned by one token after the other."""
    columns = []
    for s in range(k.shape[-2]):
        key, column = k[..., s, :], []
        for t in range(s, k.shape[-2]):
            if t > s:
                key = key - beta[..., t, :] * (key * w[..., t, :]).sum(-1, keepdim=True) * w[..., t, :]
            column.append((q[..., t, :] * key).sum(-1))
        columns.append(F.pad(torch.stack(column, -1), (s, 0)))
    return torch.stack(columns, -1)


@pytest.mark.parametrize("length", [1, 2, 7, 12])
@pytest.mark.parametrize("chunk", [1, 3, 4, 64])
def test_any_chunk_is_every_pair_forward_and_backward(length, chunk):
    inputs = given(length)
    ours, theirs = path_scores(*inputs, chunk=chunk).tril(), pairs(*inputs)
    torch.testing.assert_close(ours, theirs)
    grads = (
        torch.autograd.grad((x * torch.cos(x.detach())).sum(), inputs, allow_unused=True, materialize_grads=True)
        for x in (ours, theirs)
    )
    for found, wanted in zip(*grads, strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("chunk", [2, 3, 64])
@pytest.mark.parametrize("parts", [[12], [1] * 12, [5, 7], [3, 1, 1, 6, 1]], ids=str)
def test_keys_are_turned_by_every_later_call(parts, chunk):
    inputs, held, first = [x.detach() for x in given(12)], torch.zeros(B, H, 1, 12, E, dtype=torch.float64), 0
    whole = path_scores(*inputs, chunk=4).tril()
    for count in parts:
        stop = first + count
        own, slots = [x[..., first:stop, :] for x in inputs], torch.arange(first, stop)
        if count == 1:
            scores, turned = path_step(*own, held[..., :stop, :], slots)
        else:
            scores, turned = path_chunk(*own, held[..., :stop, :], slots, chunk=chunk)
        held[..., :stop, :] = turned
        torch.testing.assert_close(scores.tril(first), whole[..., first:stop, :stop])
        first = stop


def test_a_state_that_was_turned_is_not_trimmed():
    state = PathState.empty(1, 2, 4, 3, torch.float32, torch.device("cpu"), None)
    positions = torch.arange(2)[None]
    chunk = ChunkSlots(torch.arange(2), positions, positions)
    state.hold(torch.ones(1, 2, 2, 3), torch.ones(1, 2, 2, 3), chunk)
    state.check_trim(2, 0)
    with pytest.raises(StateError, match="each of the 2 positions so far has turned all keys before it"):
        state.check_trim(2, 1)
    kept = state.kept(2, 1)
    state.hold(torch.zeros(1, 2, 2, 3), torch.ones(1, 2, 2, 3), chunk)
    state.restore(kept, 2, 2, 3)
    assert state.key[:, :, :2].eq(1).all()


def test_it_is_what_the_authors_code_gives():
    """flash-linear-attention 0.6.0's naive PaTH attention in fp32, 9 tokens in chunks of 4, no forgetting gate: the last token
    of the first row, and the sum of all squares."""
    inputs = given(9, group=1)
    v = waves(B, 9, H, E, step=1.9).transpose(1, 2)
    scores = path_scores(*inputs, chunk=5)[:, :, 0] * E**-0.5
    later = torch.ones(9, 9, dtype=torch.bool).triu(1)
    mixed = (scores.masked_fill(later, -torch.inf).softmax(-1) @ v).detach()
    last = [[0.1579107, 0.0627103, -0.1984579], [0.0089713, 0.2281251, -0.1564723]]
    torch.testing.assert_close(mixed[0, :, -1], torch.tensor(last, dtype=torch.float64), rtol=1e-5, atol=1e-6)
    assert mixed.square().sum().item() == pytest.approx(15.9751930, rel=1e-6)
