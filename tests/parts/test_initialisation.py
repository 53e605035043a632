"""Initial values: the stated distribution, keyed by seed, name and shape."""

from __future__ import annotations

import hashlib

import pytest
import torch

from anyformer.operations import Extent, Weight
from anyformer.parts import FanIn, Initialisation, Normal, TruncatedNormal, Xavier, initialisation

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


RULES = {"normal": Normal(std=0.3), "fan_in": FanIn(gain=2.0), "xavier": Xavier(), "cut": TruncatedNormal(std=0.3, cut=1.5)}


@pytest.mark.parametrize("shape", [(300, 200), (7, 40, 50)])
@pytest.mark.parametrize("kind", RULES)
def test_a_part_is_that_of_the_whole_and_only_its_blocks_are_drawn(monkeypatch, kind, shape):
    """Version 2: drawn in blocks of rows, whose deviation is that of the whole matrix."""
    monkeypatch.setattr(initialisation, "BLOCK", 2100)
    rules, weight = Initialisation(matrix=RULES[kind], version=2), Weight(shape, "row", "matrix")
    whole = rules.fill(weight, "x", 0)
    first = Initialisation(matrix=RULES[kind]).fill(weight, "x", 0)
    assert whole.std() == pytest.approx(first.std().item(), rel=0.04)
    assert len(whole.unique()) > 0.99 * whole.numel(), "no block repeats another"
    drawn, real = [], Initialisation._drawn
    monkeypatch.setattr(Initialisation, "_drawn", lambda *given: (drawn.append(given[2].numel()), real(*given))[1])
    part = Extent((2, *(3,) * (len(shape) - 1)), (3, *(20,) * (len(shape) - 1)))
    assert torch.equal(rules.fill(weight, "x", 0, part), whole[part.slices])
    assert sum(drawn) < whole.numel() / 2


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("fill", ["ones", "zeros", 0.5, "log_rate", "time_step"])
def test_a_part_of_a_vector_is_that_of_the_whole(fill, version):
    rules, weight = Initialisation(version=version), Weight((9,), "replicate", fill)
    assert torch.equal(rules.fill(weight, "x", 0, Extent((2,), (3,))), rules.fill(weight, "x", 0)[2:5])


def test_the_first_version_draws_as_it_always_did():
    value = Initialisation().fill(Weight((2, 3), "row", "matrix"), "x", 0)
    key = hashlib.sha256(b"0/x/(2, 3)").digest()
    generator = torch.Generator().manual_seed(int.from_bytes(key[:8], "big") >> 1)
    assert torch.equal(value, torch.empty(2, 3).normal_(0, 0.02, generator=generator))
