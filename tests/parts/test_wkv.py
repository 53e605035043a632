"""The WKV: it is the sum over all pairs, across documents and from a state, with exponents of any size."""

from __future__ import annotations

import pytest
import torch

from anyformer.parts.recurrence.rwkv_module import wkv

B, T, W = 2, 11, 3
SEGMENTS = torch.tensor([[0] * 4 + [1] * 5 + [2] * 2])


def drawn(loud: float = 1.0) -> list[torch.Tensor]:
    """Key, value, rate and bonus."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((B, T, W), (B, T, W), (W,), (W,))
    key, value, rate, bonus = (torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes)
    return [x.requires_grad_() for x in (loud * key, value, rate.exp(), bonus)]


def averages(key, value, rate, bonus, segments=None):
    """As written: every pair of positions."""
    out = []
    for t in range(T):
        seen = [s for s in range(t) if segments is None or torch.equal(segments[:, s], segments[:, t])]
        weights = [key[:, s] - (t - 1 - s) * rate for s in seen] + [key[:, t] + bonus]
        share = torch.softmax(torch.stack(weights, 1), 1)
        out.append((share * value[:, [*seen, t]]).sum(1))
    return torch.stack(out, 1)


@pytest.mark.parametrize("loud", [1.0, 400.0])
def test_it_is_the_sum_over_pairs_forward_and_backward(loud):
    given = [x.detach().requires_grad_() for x in drawn(loud)]
    ours, theirs = wkv(*given, None, starts=None, padding=None)[0], averages(*given)
    torch.testing.assert_close(ours, theirs)
    for found, wanted in zip(*(torch.autograd.grad((x * x.detach()).sum(), given) for x in (ours, theirs)), strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("first", [1, 5, 10])
def test_the_rest_after_a_state_is_the_rest_of_the_whole(first):
    key, value, rate, bonus = drawn(30.0)
    whole, last = wkv(key, value, rate, bonus, None, starts=None, padding=None)
    _, state = wkv(key[:, :first], value[:, :first], rate, bonus, None, starts=None, padding=None)
    rest, end = wkv(key[:, first:], value[:, first:], rate, bonus, state, starts=None, padding=None)
    torch.testing.assert_close(rest, whole[:, first:])
    torch.testing.assert_close(end, last)


def test_documents_start_empty():
    given = [x[:1] if x.dim() == 3 else x for x in drawn()]
    segments = SEGMENTS
    starts = torch.nn.functional.pad(segments[:, 1:] != segments[:, :-1], (1, 0))
    mixed, _ = wkv(*given, None, starts=starts, padding=None)
    torch.testing.assert_close(mixed, averages(*given, segments))


def test_padding_leaves_the_state_as_it_is():
    key, value, rate, bonus = drawn()
    padding = torch.zeros(B, T, dtype=torch.bool)
    padding[:, :3] = True
    state = torch.stack([key[:, 0], value[:, 0].exp(), value[:, 1]], 1)
    mixed, ended = wkv(key, value, rate, bonus, state, starts=None, padding=padding)
    alone, last = wkv(key[:, 3:], value[:, 3:], rate, bonus, state, starts=None, padding=None)
    torch.testing.assert_close(mixed[:, 3:], alone)
    torch.testing.assert_close(ended, last)
