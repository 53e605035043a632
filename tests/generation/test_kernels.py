"""Kernels of the processor for choosing tokens, beside the formulas that they compute."""

from __future__ import annotations

import pytest
import torch

from anyformer.generation.processors import TopPWarper
from anyformer.generation.processors.kernels import ascending, bounded, drawn, likeliest, likeliest_numbers, without_least
from anyformer.generation.sampling import NoChoiceError, Sampling
from anyformer.parts.call.noise import Noise, bits, first_bits

NEVER = float("-inf")


@pytest.fixture
def scores():
    """Rows with equal scores, with tokens that are ruled out, and with one token that is left."""
    made = torch.randn(6, 500, generator=torch.Generator().manual_seed(1))
    made[1] = (made[1] * 2).round()
    made[2, 3:] = NEVER
    made[3] = 0
    made[4, ::2] = NEVER
    made[5, :-1] = NEVER
    return made


def test_the_first_of_the_greatest_is_the_likeliest(scores):
    tokens, finite = likeliest(scores)
    assert (tokens.tolist(), finite) == (scores.argmax(-1).tolist(), True)
    assert tokens[3] == 0


def test_memory_that_holds_other_scores_is_read_anew(scores):
    for rows in (scores, scores.flip(-1), scores * float("nan")):
        found = scores.copy_(rows.clone())
        assert likeliest_numbers(found) == (found.argmax(-1).tolist(), bool(found.isfinite().any()))
        assert bounded(found) == bool(found.isfinite().any())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("how", [{"temperature": 0}, {"seed": 3}, {"seed": (9, 8, 7, 6, 5, 4), "top_k": 9}])
def test_tokens_are_chosen_alike_as_plain_numbers(scores, how, dtype):
    sampling, rows = Sampling(**how), torch.arange(6)
    for index in (4, [4, 0, 9, 2, 2, 1]):
        chosen = sampling.choose(scores.to(dtype), rows, index).tolist()
        assert sampling.choose_numbers(scores.to(dtype), rows, index) == chosen
    with pytest.raises(NoChoiceError, match="row 2, token 6: every token is ruled out"):
        sampling.choose_numbers(scores.index_fill(0, torch.tensor(2), NEVER), rows, 5)


@pytest.mark.parametrize(("value", "finite"), [(NEVER, True), (float("inf"), False), (float("nan"), False)])
def test_the_greatest_is_a_finite_number_or_not(scores, value, finite):
    scores[2, 1] = value
    assert (likeliest(scores)[1], bounded(scores)) == (finite, finite)
    scores[1] = NEVER
    assert (likeliest(scores)[1], bounded(scores)) == (False, False)


@pytest.mark.parametrize("uniform", [0.0, 1e-9, 0.3, 0.5, 0.999, 1 - 2**-32])
def test_a_draw_is_where_the_sums_pass_it(scores, uniform):
    shares = scores.softmax(-1)
    cumulative = shares.double().cumsum(-1)
    wanted = (cumulative > uniform * cumulative[:, -1:]).int().argmax(-1)
    assert drawn(shares, torch.full((6, 1), uniform, dtype=torch.float64)).tolist() == wanted.tolist()
    assert (shares.gather(-1, wanted[:, None]) > 0).all()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("keep", [1, 3])
def test_top_p_keeps_what_a_stable_sort_keeps(scores, share, keep):
    ordered, order = scores.sort(dim=-1, stable=True)
    unlikely = ordered.softmax(-1).cumsum(-1) <= 1 - share
    unlikely[:, -keep:] = False
    wanted = scores.masked_fill(torch.zeros_like(unlikely).scatter(-1, order, unlikely), NEVER)
    assert torch.equal(TopPWarper(share=share).warp(scores, keep), wanted)


def test_so_many_of_the_least_go(scores):
    counts = torch.tensor([[0], [7], [1], [499], [250], [3]])
    left = without_least(scores, ascending(scores), counts, NEVER)
    finite = lambda rows: rows.isfinite().sum(-1).tolist()  # noqa: E731
    assert finite(left) == [500, 493, 3, 1, 250, 1]
    assert left[3, -1] == 0, "of equal ones the last stays"


def test_numbers_of_rows_are_those_of_tensors():
    rows = torch.tensor([0, 1, 7, 2**31, 2**40 + 3])
    for seed, step, site in ((0, 0, 0), (5, 17, 3), (2**40, 10**6, 2)):
        wanted = bits(Noise.at(seed, step, rows), site, torch.Size((5, 1)))[:, 0].tolist()
        assert [first_bits(seed, step, site, row) for row in rows.tolist()] == wanted
    for seed in (3, (9, 8, 7)):
        sampling = Sampling(seed=seed)
        for index in (4, [4, 0, 9]):
            wanted = sampling._noise(torch.arange(3), index, 2, 1)
            assert torch.equal(sampling.uniform(torch.arange(3), index, 2), wanted)


def test_scores_are_bounded_where_every_row_has_a_finite_greatest_one(scores):
    assert bounded(scores)
    for wrong in (float("nan"), float("inf")):
        spoilt = scores.clone()
        spoilt[4, 7] = wrong
        assert not bounded(spoilt)
    assert not bounded(torch.full((1, 3), NEVER))
