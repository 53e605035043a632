"""Pictures from noise: solvers, guidance, and noise that follows from the seed and the row."""

from __future__ import annotations

import math

import pytest
import torch
from zoo_conditions import CONDITIONED, MODULATED_DECODERS

from anyformer.describe import InputError
from anyformer.generation.flow import SOLVERS, flowed, guided, velocity
from anyformer.parts.call.noise import Noise, normal
from anyformer.parts.embedding.patches_module import cut, pasted
from anyformer.testing.models import evaluated

DIT = CONDITIONED["diffusion_transformer"]
SHAPE = torch.Size((3, 1, 4, 4))


@pytest.fixture(scope="module")
def model():
    return evaluated(DIT)


def test_pasting_undoes_cutting():
    images = torch.arange(2 * 3 * 4 * 6.0).view(2, 3, 4, 6)
    assert torch.equal(pasted(cut(images, 2), 3, 4, 6), images)


def test_normal_numbers():
    found = normal(Noise.at(1, 0, torch.arange(200)), 0, torch.Size((200, 50)))
    torch.testing.assert_close(found.mean(), torch.tensor(0.0), rtol=0, atol=0.03)
    torch.testing.assert_close(found.square().mean(), torch.tensor(1.0), rtol=0, atol=0.04)
    assert found.dtype == torch.float32
    assert float((found < -1).float().mean()) == pytest.approx(0.1587, abs=0.01)


@pytest.mark.parametrize(("solver", "order"), [("euler", 1), ("heun", 2)])
def test_the_error_of_a_solver_falls_with_its_order(solver, order):
    """dx / dt = x cos t from t = 1: x(0) = x(1) exp(sin 0 - sin 1)."""

    def reached(steps):
        x = torch.ones(1, 1, 1, 1, dtype=torch.float64)
        for step in range(steps):
            x = SOLVERS[solver](lambda x, t: x * math.cos(t), x, 1 - step / steps, 1 - (step + 1) / steps)
        return float(x)

    errors = [abs(reached(steps) - math.exp(-math.sin(1))) for steps in (20, 40)]
    assert errors[0] / errors[1] == pytest.approx(2**order, rel=0.1)


@pytest.mark.parametrize("solver", SOLVERS)
def test_pictures_are_those_of_plain_loops(model, solver):
    """Every picture by itself, both velocities one after the other, in equal steps from noise."""
    classes, steps, guidance = torch.tensor([2, 0, 1]), 3, 2.5
    found = flowed(model, SHAPE, classes, steps=steps, guidance=guidance, solver=solver, seed=4)

    def at(x, t, kind):
        time = torch.tensor([t])
        own, null = (velocity(model, x, time, torch.tensor([number])) for number in (kind, 3))
        return null + guidance * (own - null)

    with torch.no_grad():
        for row, kind in enumerate(classes.tolist()):
            x = normal(Noise.at(4, 0, torch.tensor([row])), 0, torch.Size((1, 1, 4, 4)))
            for step in range(steps):
                now, later = 1 - step / steps, 1 - (step + 1) / steps
                slope = at(x, now, kind)
                if solver == "heun":
                    slope = (slope + at(x + (later - now) * slope, later, kind)) / 2
                x = x + (later - now) * slope
            torch.testing.assert_close(found[row], x[0], rtol=1e-4, atol=1e-4)


def test_a_picture_depends_on_its_own_row_alone(model):
    both = flowed(model, SHAPE, torch.tensor([1, 2, 0]), steps=2)
    torch.testing.assert_close(flowed(model, torch.Size((1, 1, 4, 4)), torch.tensor([1]), steps=2)[0], both[0])
    assert not torch.allclose(flowed(model, SHAPE, torch.tensor([1, 2, 0]), steps=2, seed=1), both)


def test_guidance_of_1_is_the_model_and_of_0_has_no_class(model):
    x, classes = torch.randn(2, 1, 4, 4), torch.tensor([0, 2])
    times = torch.full((2,), 0.5)
    plain, none = velocity(model, x, times, classes), velocity(model, x, times, None)
    torch.testing.assert_close(guided(model, classes, 1.0)(x, 0.5), plain)
    torch.testing.assert_close(guided(model, classes, 0.0)(x, 0.5), none)
    torch.testing.assert_close(guided(model, classes, 3.0)(x, 0.5), none + 3 * (plain - none))


@pytest.mark.parametrize(
    ("architecture", "settings", "said"),
    [
        (DIT, {"steps": 0}, "steps = 0 should be at least 1"),
        (DIT, {"solver": "eulr"}, "solver = 'eulr' should be one of euler, heun"),
        (DIT, {"guidance": float("nan")}, "guidance = nan should be from 0"),
        (MODULATED_DECODERS["modulated_decoder"], {"classes_B": torch.tensor([0])}, "trained without classes"),
    ],
)
def test_settings_that_cannot_be(architecture, settings, said):
    with pytest.raises(InputError, match=said):
        flowed(evaluated(architecture), SHAPE, **settings)
