"""Initial values: the stated distribution, keyed by seed, name and shape."""

from __future__ import annotations

import torch

from anyformer.operations import Weight
from anyformer.parts import FanIn, Initialisation, Normal, TruncatedNormal, Xavier

MATRIX = Weight((300, 200), "column", "matrix")


def test_a_value_depends_on_seed_name_and_shape_only():
    rules = Initialisation()
    value = rules.fill(MATRIX, "a.weight", 0)
    assert torch.equal(value, rules.fill(MATRIX, "a.weight", 0))
    for other in (rules.fill(MATRIX, "a.weight", 1), rules.fill(MATRIX, "b.weight", 0)):
        assert not torch.equal(value, other)


def test_the_rules_have_their_spread():
    def fill(rule, **more):
        return Initialisation(matrix=rule, **more).fill(Weight((300, 200), "row", "residual"), "x", 0)

    assert abs(fill(Normal(std=0.3)).std() - 0.3) < 0.01
    assert abs(fill(Normal(std=0.3), residual_scale=0.5).std() - 0.15) < 0.005
    assert abs(fill(FanIn(gain=2.0)).std() - 2 * 200**-0.5) < 0.01
    cut = fill(TruncatedNormal(std=0.3, cut=1.5))
    assert cut.abs().max() <= 0.45
    bound = (6 / 500) ** 0.5
    assert 0.98 * bound < fill(Xavier()).abs().max() <= bound


def test_gains_start_neutral_and_biases_at_zero():
    rules = Initialisation()
    assert (rules.fill(Weight((5,), "replicate", "ones"), "x", 0) == 1).all()
    assert (rules.fill(Weight((5,), "replicate", "zeros"), "x", 0) == 0).all()
