"""Differences of log-probabilities where two lists of the likeliest tokens are not of the same tokens."""

from __future__ import annotations

import math

import pytest

from anyformer.conforming import Completion, TokenLogProbs
from anyformer.conforming.gaps import place_gaps


def gap(mine, other):
    (found,) = place_gaps(Completion((mine,)), Completion((other,)))
    return found


def place(token, logprob, **top):
    return TokenLogProbs(token, logprob, {int(name[1:]): value for name, value in top.items()})


def test_a_token_that_one_alone_shows_is_below_the_least_of_the_other():
    mine = place(1, -1.0, t1=-1.0, t2=-2.0, t3=-3.0)
    other = place(1, -1.1, t1=-1.1, t2=-2.0, t4=-2.9)
    assert gap(mine, other).largest == pytest.approx(0.1), "tokens 3 and 4 lie within what the other shows"
    assert gap(mine, place(1, -1.0, t1=-1.0, t2=-2.0, t4=-2.4)).largest == pytest.approx(0.6)


def test_a_chosen_token_is_shown_however_unlikely_it_is():
    mine = place(9, -8.0, t1=-1.0, t2=-2.0, t3=-3.0)
    other = place(9, -8.0, t1=-1.0, t2=-2.0, t4=-3.0, t9=-8.0)
    assert gap(mine, other).largest == 0


def test_what_is_no_number_departs():
    assert gap(place(1, -1.0, t1=-1.0), place(1, math.nan, t1=math.nan)).largest == math.inf


def test_the_divergence_is_that_of_the_distributions():
    mine = place(1, math.log(0.7), t1=math.log(0.7), t2=math.log(0.2))
    other = place(1, math.log(0.5), t1=math.log(0.5), t2=math.log(0.4))
    assert gap(mine, other).divergence == pytest.approx(0.7 * math.log(0.7 / 0.5) + 0.2 * math.log(0.2 / 0.4))
    assert gap(mine, mine).divergence == 0


def test_places_after_another_token_are_not_compared():
    one, two = place(1, -0.7, t1=-0.7, t2=-0.8), place(2, -0.7, t1=-0.8, t2=-0.7)
    found = list(place_gaps(Completion((one, one)), Completion((two, one))))
    assert [(each.place, each.same) for each in found] == [("token 1 made", False)]
    assert [each.place for each in place_gaps(Completion((one, one)), Completion((None, one)))] == ["token 2 made"]
