"""Log-linear recurrences: any chunk is every pair by its span, across documents, padding, and from a state."""

from __future__ import annotations

import pytest
import torch
from naive.recurrent import spans

from anyformer.parts.recurrence.log_linear import Levels, log_linear_recurrence

B, H, M, E = 2, 2, 3, 4


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def arguments(length: int, levels: int, strength: float = 1.0) -> list[torch.Tensor]:
    """q, k, v, log-decay and scales."""
    q, k, v, g, scales = (drawn(B, H, 1, length, n, seed=n) for n in (M, M + 10, E, 1, levels))
    k = torch.cat([k, k], -1)[..., :M]
    return [x.requires_grad_() for x in (q, k, v, -strength * g.abs(), scales.exp())]


def pairs(q, k, v, g, scales, positions):
    """Every pair of tokens of a document."""
    rows = []
    for row in range(B):
        out = []
        for t, p in enumerate(positions[row]):
            y = torch.zeros(H, v.shape[-1], dtype=torch.float64)
            for level, tokens in spans(p) if p >= 0 else ():
                for s in tokens:
                    at = max(u for u in range(t + 1) if positions[row][u] == s)
                    kept = g[row, :, 0, at + 1 : t + 1, 0].sum(-1).exp()
                    share = scales[row, :, 0, t, min(level, scales.shape[-1] - 1)] * kept
                    y = y + (share * (q[row, :, 0, t] * k[row, :, 0, at]).sum(-1))[:, None] * v[row, :, 0, at]
            out.append(y)
        rows.append(torch.stack(out, 1))
    return torch.stack(rows)[:, :, None]


def computed(given, positions, segments=None, *, chunk, state=None):
    at = Levels.of(positions, segments, given[-1].shape[-1], chunk, torch.float64)
    return log_linear_recurrence(*given, state, at, chunk=chunk, segments=segments)


@pytest.mark.parametrize("length", [1, 2, 7, 16, 23])
@pytest.mark.parametrize("chunk", [1, 5, 8, 64])
@pytest.mark.parametrize("levels", [1, 3, 6])
def test_any_chunk_is_all_pairs_forward_and_backward(length, chunk, levels):
    given = arguments(length, levels)
    ours = computed(given, torch.arange(length)[None], chunk=chunk)[0]
    theirs = pairs(*given, [list(range(length))] * B)
    torch.testing.assert_close(ours, theirs)
    found, wanted = (
        torch.autograd.grad((x * x.detach()).sum(), given, allow_unused=True, materialize_grads=True) for x in (ours, theirs)
    )
    for x, y in zip(found, wanted, strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("chunk", [1, 3, 4, 64])
def test_documents_start_empty_with_a_tree_of_their_own(chunk):
    given = arguments(11, 4)
    segments = torch.tensor([[0] * 4 + [1] * 5 + [2] * 2, [0] * 8 + [1] * 3])
    positions = [[*range(4), *range(5), *range(2)], [*range(8), *range(3)]]
    ours, _ = computed(given, torch.tensor(positions), segments, chunk=chunk)
    torch.testing.assert_close(ours, pairs(*given, positions))


@pytest.mark.parametrize("cut", [1, 3, 6, 10])
def test_the_rest_after_a_state_is_the_rest_of_the_whole(cut):
    given, positions = arguments(11, 4), torch.arange(11)[None]
    whole, last = computed(given, positions, chunk=4)
    _, state = computed([x[..., :cut, :] for x in given], positions[:, :cut], chunk=4)
    rest, end = computed([x[..., cut:, :] for x in given], positions[:, cut:], chunk=4, state=state)
    torch.testing.assert_close(rest, whole[..., cut:, :])
    torch.testing.assert_close(end, last)


@pytest.mark.parametrize("chunk", [1, 2, 4, 64])
@pytest.mark.parametrize("places", [[3, 4, 6, 7, 8], [0, 1, 2, 5, 8], [1, 2, 3, 4, 5]])
def test_padding_leaves_the_states_as_they_are(places, chunk):
    q, k, v, g, scales = arguments(9, 4)
    padding = torch.ones(9, 1, dtype=torch.bool)
    padding[places] = False
    given = [q, k.masked_fill(padding, 0), v, g.masked_fill(padding, 0), scales]
    positions = torch.full((1, 9), -1)
    positions[0, places] = torch.arange(5)
    ours, last = computed(given, positions, chunk=chunk)
    alone, end = computed([x[..., places, :] for x in given], torch.arange(5)[None], chunk=chunk)
    torch.testing.assert_close(ours[..., places, :], alone)
    torch.testing.assert_close(last, end)


def test_a_decay_that_forgets_all_leaves_no_nan():
    given = arguments(13, 3, strength=1e6)
    mixed, _ = computed(given, torch.arange(13)[None], chunk=4)
    torch.testing.assert_close(mixed, pairs(*given, [list(range(13))] * B))
    assert all(torch.isfinite(grad).all() for grad in torch.autograd.grad(mixed.sum(), given))
