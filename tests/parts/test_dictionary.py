"""Sparse dictionaries: what training keeps of them, straight-through gradients, and what an objective is told."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch

from anyformer import build
from anyformer.describe import DescriptionError
from anyformer.model import Architecture, dictionary_alone
from anyformer.parts import BatchTopKCode, Dictionary, GatedCode, JumpReLUCode, MeanLength, ReLUCode, Revival, TopKCode
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.counting import standing_still
from anyformer.parts.dictionary.codes_module import JumpReLUCodeModule

WIDTH, FEATURES = 12, 30
NAME = "encoder.layers.0.dictionary.sublayer"


def model_of(start=1.0, **fields):
    return build(dictionary_alone(Dictionary(features=FEATURES, **fields), WIDTH, start), seed=3).train()


def activations(rows=2, seed=0):
    return torch.randn(rows, 7, WIDTH, generator=torch.Generator().manual_seed(seed)) * 2 + 1


def coded(model, x):
    reports = Auxiliary()
    said = model(x, auxiliary=reports)
    (found,) = reports.coded
    return said, found


def test_the_encoder_starts_as_the_transposed_decoder():
    model = model_of(0.1)
    encoder, decoder = (model.get_parameter(f"{NAME}.{one}.weight") for one in ("encoder", "decoder"))
    assert torch.equal(encoder, decoder.mT)
    assert 0.05 < float(decoder.detach().norm(dim=0).mean()) < 0.15


def test_inputs_are_scaled_to_a_mean_length_that_is_kept():
    """s is sqrt(D) over the mean of the batches' mean lengths, per block, and stands in evaluation and in a repetition."""
    model, (first, second) = model_of(length=MeanLength(), blocks=2), (activations(seed=1), 3 * activations(seed=2))
    lengths = [x.unflatten(-1, (2, -1)).norm(dim=-1).flatten(0, 1).mean(0) for x in (first, second)]
    for x, seen in ((first, lengths[0]), (second, (lengths[0] + lengths[1]) / 2)):
        _, found = coded(model, x)
        expected = ((WIDTH // 2) ** 0.5 / seen).repeat_interleave(WIDTH // 2)
        torch.testing.assert_close(found.scale, expected)
    with standing_still(model):
        torch.testing.assert_close(coded(model, first)[1].scale, expected)
    torch.testing.assert_close(coded(model.eval(), first)[1].scale, expected)


def test_a_unit_vector_has_no_gradient_along_itself():
    model, x = model_of(unit=True), activations()
    (coded(model, x)[0] - x).square().sum().backward()
    weight = model.get_parameter(f"{NAME}.decoder.weight")
    assert float(weight.grad.norm()) > 1
    torch.testing.assert_close((weight.grad * weight).sum(0), torch.zeros(FEATURES), atol=1e-3, rtol=0)


@pytest.mark.parametrize("k", [3.0, 2.5])
def test_the_largest_of_a_batch_are_active_and_a_threshold_follows_them(k):
    model, x = model_of(code=BatchTopKCode(k=k, momentum=0.5)), activations()
    _, found = coded(model, x)
    active = found.active[found.active > 0]
    assert len(active) == int(k * 14)
    threshold = model.get_parameter(f"{NAME}.code.threshold")
    torch.testing.assert_close(threshold, active.min()[None] / 2)
    before = x - model.get_parameter(f"{NAME}.decoder.bias")
    weight, bias = (model.get_parameter(f"{NAME}.encoder.{one}") for one in ("weight", "bias"))
    z = (before @ weight.mT + bias).detach()
    _, alone = coded(model.eval(), x[:1])
    torch.testing.assert_close(alone.active[0], torch.where(z[0] > threshold, z[0], 0.0))


def test_dead_features_learn_what_the_others_leave():
    """By hand: the largest pre-activations of dead features, as they are, against the rest; the share of dead ones counts."""
    model, x = model_of(code=TopKCode(k=4), revival=Revival(after=9, count=5), unit=True), activations()
    coded(model, x)
    silent = model.get_parameter(f"{NAME}.silent")
    fired = (coded(model.eval(), x)[1].active > 0).flatten(0, 1).any(0)
    assert torch.equal(silent, torch.where(fired, 0.0, 14.0))
    dead = (silent > 9).nonzero()[:, 0].tolist()
    assert 0 < len(dead) < FEATURES
    rest = torch.randn(2, 7, WIDTH, generator=torch.Generator().manual_seed(5))
    ours = coded(model, x)[1].revived(rest)
    encoder, decoder = (model.get_parameter(f"{NAME}.{one}.weight") for one in ("encoder", "decoder"))
    for row in range(2):
        for t in range(7):
            z = encoder @ x[row, t]
            chosen = sorted(dead, key=lambda i: -float(z[i].detach()))[:5]
            said = sum(z[i] * decoder[:, i] / decoder[:, i].norm() for i in chosen)
            wanted = min(len(dead) / 5, 1) * (said - rest[row, t]).square().sum()
            torch.testing.assert_close(ours[row, t], wanted, rtol=1e-4, atol=1e-4)
    assert not coded(model_of(code=TopKCode(k=4), revival=Revival()), x)[1].revived(rest).any()


def test_straight_through_gradients_are_those_of_the_paper():
    """Rajamanoharan et al. 2024, equations 11 and 12, at each z and threshold by itself."""
    code = JumpReLUCodeModule(JumpReLUCode(threshold=0.5, bandwidth=0.2), 5)
    code.threshold.data = torch.tensor([0.5, 0.5, 0.5, 0.5, -0.05])
    z = torch.tensor([0.39, 0.45, 0.55, 0.7, 0.02], requires_grad=True)
    active, penalised, *_ = code(z, torch.zeros(5))
    torch.testing.assert_close(active, torch.tensor([0, 0, 0.55, 0.7, 0.02]))
    torch.testing.assert_close(penalised, torch.tensor([0.0, 0, 1, 1, 1]))
    of_z, of_threshold = torch.autograd.grad(active.sum(), (z, code.threshold), retain_graph=True)
    torch.testing.assert_close(of_z, torch.tensor([0.0, 0, 1, 1, 1]))
    torch.testing.assert_close(of_threshold, torch.tensor([0, -2.5, -2.5, 0, 0]))
    (of_threshold,) = torch.autograd.grad(penalised.sum(), code.threshold)
    torch.testing.assert_close(of_threshold, torch.tensor([0.0, -5, -5, 0, -5]))


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_penalty_counts_the_lengths_of_vectors(blocks):
    model, x = model_of(code=ReLUCode(), blocks=blocks), activations()
    _, found = coded(model, x)
    decoder = model.get_parameter(f"{NAME}.decoder.weight")
    lengths = sum(part.norm(dim=0) for part in decoder.chunk(blocks))
    torch.testing.assert_close(found.penalty, (found.active * lengths).sum(-1))


def test_a_gate_learns_from_its_own_guess_and_the_decoder_does_not():
    model, x = model_of(code=GatedCode()), activations()
    _, found = coded(model, x)
    (found.guess() - x).square().sum().backward()
    learned = {name for name, weight in model.named_parameters() if weight.grad is not None}
    assert learned == {f"{NAME}.encoder.weight", f"{NAME}.encoder.bias", f"{NAME}.decoder.bias"}  # b also by x - b


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"code\.k = 31 is more than the 30 features"):
        Dictionary(features=FEATURES, code=TopKCode(k=31))
    with pytest.raises(ValueError, match="blocks = 5 must divide the width of 12"):
        dictionary_alone(Dictionary(features=FEATURES, blocks=5), WIDTH)


def test_what_does_not_fit_is_told_once_with_its_remedy():
    """Inside a run, one line: not that the steps around it are too few."""
    run = tomllib.loads((Path(__file__).parents[2] / "recipes" / "sae.toml").read_text(encoding="utf-8"))["architecture"]
    (step,) = run["encoder"]["variants"]["layer"]["steps"]
    step["branches"]["dictionary"]["sublayer"]["code"]["k"] = 5000
    with pytest.raises(DescriptionError) as refused:
        Architecture.parse(run)
    (problem,) = refused.value.problems
    assert problem.path == "encoder.layer.dictionary"
    assert problem.message == "code.k = 5000 is more than the 2048 features: give code.k = 2048 at most, or features = 5000"
    step["branches"]["dictionary"]["sublayer"]["code"]["k"] = 32
    width = run["width"]
    for change, one, other in (
        ({"width": 64}, 64, width),
        ({"embedding": {"kind": "activations", "features": 64}}, width, 64),
    ):
        with pytest.raises(
            DescriptionError, match=rf"set width and embedding\.features to {one}, or both to {other}, whichever"
        ):
            Architecture.parse(run | change)
    run["encoder"]["variants"]["layer"]["steps"] = []
    with pytest.raises(DescriptionError, match="needs 1 at least, got 0"):
        Architecture.parse(run)
