"""Optimisers: each update equals its formula written plainly, its neighbours' implementation, and itself, to the bit."""

from __future__ import annotations

import math

import pytest
import torch
import zoo
from torch import nn

from anyformer.model.transformer import build
from anyformer.operations import Shape, Weight
from anyformer.precision import Bf16, Fp16, Fp32
from anyformer.testing.optimisers import (
    CONTRACTS,
    RATES,
    WEIGHTS,
    gradients,
    numbers,
    updates_equal_its_twin,
)
from anyformer.training.optimiser import build_optimiser, optimiser_of
from anyformer.training.optimisers.rules import ByRule, Learner, groups_of
from anyformer.tuning import SGD, Adafactor, AdamW, AdamW8bit, Lion, Muon, Optimiser, ScheduleFree
from anyformer.tuning.optimisers import adamw_8bit_module, muon_module
from covering import others_slow

TABLE, MATRIX, GAIN = WEIGHTS["table"], WEIGHTS["matrix"], WEIGHTS["gain"]


def built(optimiser, weights=WEIGHTS, dtype=torch.float64, over=optimiser_of):
    """The parameters by name, and the optimiser over them."""
    parameters = {name: nn.Parameter(numbers(weight, i, dtype)) for i, (name, weight) in enumerate(weights.items())}
    paces = optimiser.paces(weights)
    learners = [Learner(parameters[name], optimiser.rule(weight), paces[name]) for name, weight in weights.items()]
    return parameters, over(groups_of(learners, optimiser.learning_rate))


def updates(optimiser, weights=WEIGHTS, dtype=torch.float64, over=optimiser_of):
    """Five updates; after each, the parameters."""
    parameters, own = built(optimiser, weights, dtype, over)
    for step, rate in enumerate(RATES):
        for name, gradient in gradients(step, dtype, weights).items():
            parameters[name].grad = gradient
        for group in own.param_groups:
            group["lr"] = rate * group["factor"]
        own.step()
        yield parameters, own


def decay(optimiser, weight):
    return optimiser.weight_decay if weight.dim() > 1 else 0.0


def adamw(o, w, g, s, t, rate):
    s["m"] = o.betas[0] * s.get("m", 0) + (1 - o.betas[0]) * g
    s["v"] = o.betas[1] * s.get("v", 0) + (1 - o.betas[1]) * g**2
    m, v = s["m"] / (1 - o.betas[0] ** t), s["v"] / (1 - o.betas[1] ** t)
    return w - rate * (m / (v.sqrt() + o.eps) + decay(o, w) * w)


def sgd(o, w, g, s, t, rate):
    s["b"] = o.momentum * s.get("b", 0) + g
    step = g + o.momentum * s["b"] if o.nesterov else s["b"]
    return w - rate * (step + decay(o, w) * w)


def lion(o, w, g, s, t, rate):
    m = s.get("m", 0 * g)
    s["m"] = o.betas[1] * m + (1 - o.betas[1]) * g
    return w - rate * (torch.sign(o.betas[0] * m + (1 - o.betas[0]) * g) + decay(o, w) * w)


def adafactor(o, w, g, s, t, rate):
    """Algorithms 4 and 5 of the paper, with sums over rows and columns."""
    beta = 1 - t**-o.decay
    square = g**2 + o.eps
    if w.dim() > 1:
        s["r"] = beta * s.get("r", 0) + (1 - beta) * square.sum(1)
        s["c"] = beta * s.get("c", 0) + (1 - beta) * square.sum(0)
        v = torch.outer(s["r"], s["c"]) / s["r"].sum()
    else:
        v = s["v"] = beta * s.get("v", 0) + (1 - beta) * square
    u = g / v.sqrt()
    u = u / max(1.0, u.square().mean().sqrt() / o.clip)
    return w - rate * (max(o.least_size, w.square().mean().sqrt()) * u + decay(o, w) * w)


def orthogonal(x, iterations, coefficients):
    """The polynomial applied to the singular values."""
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    s = s / x.norm()
    for _ in range(iterations):
        s = sum(c * s ** (2 * i + 1) for i, c in enumerate(coefficients))
    return u @ torch.diag(s) @ v


def muon_or_adamw(o, w, g, s, t, rate):
    if w.dim() < 2 or w.shape == TABLE.shape:
        return adamw(o.others, w, g, s, t, rate * o.others.learning_rate / o.learning_rate)
    s["m"] = o.momentum * s.get("m", 0) + (1 - o.momentum) * g
    ahead = o.momentum * s["m"] + (1 - o.momentum) * g if o.nesterov else s["m"]
    rows, columns = w.shape
    scale = {"original": math.sqrt(max(1, rows / columns)), "match_rms_adamw": 0.2 * math.sqrt(max(rows, columns))}[o.scale]
    return w - rate * (scale * orthogonal(ahead, o.iterations, o.coefficients) + o.weight_decay * w)


def schedule_free(o, w, g, s, t, rate):
    """The paper's three sequences, all kept: z, x, and y = `w`."""
    s.setdefault("z", w), s.setdefault("x", w)
    s["v"] = o.betas[1] * s.get("v", 0) + (1 - o.betas[1]) * g**2
    s["rates"] = s.get("rates", 0) + rate**2
    z = s["z"] - rate * (g / ((s["v"] / (1 - o.betas[1] ** t)).sqrt() + o.eps) + decay(o, w) * w)
    c = rate**2 / s["rates"]
    s["z"], s["x"] = z, (1 - c) * s["x"] + c * z
    return (1 - o.betas[0]) * s["z"] + o.betas[0] * s["x"]


TWINS = {
    "adamw": (AdamW(), adamw),
    "sgd": (SGD(weight_decay=0.1), sgd),
    "sgd without momentum": (SGD(momentum=0.0, weight_decay=0.1), sgd),
    "sgd, nesterov": (SGD(nesterov=True), sgd),
    "lion": (Lion(), lion),
    "adafactor": (Adafactor(weight_decay=0.1), adafactor),
    "adafactor, clipped": (Adafactor(clip=0.5, least_size=2.0), adafactor),
    "schedule_free": (ScheduleFree(), schedule_free),
    "muon": (Muon(precision="fp32"), muon_or_adamw),
    "muon, as AdamW": (Muon(precision="fp32", scale="match_rms_adamw", nesterov=False, iterations=3), muon_or_adamw),
    "muon, other coefficients": (Muon(precision="fp32", coefficients=(2.0, -1.5, 0.5), iterations=8), muon_or_adamw),
    "adamw_8bit, below the smallest": (AdamW8bit(), adamw),
}


@pytest.mark.parametrize("name", TWINS)
def test_every_update_is_that_of_the_formula(name):
    optimiser, twin = TWINS[name]
    # The iterations of Muon are in fp32 at most.
    updates_equal_its_twin(optimiser, twin, near=2e-7 if isinstance(optimiser, Muon) else 1e-12)


def test_every_optimiser_has_a_twin():
    assert {optimiser.kind for optimiser, _ in TWINS.values()} == set(Optimiser.kinds)


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
@pytest.mark.parametrize("kind", sorted(Optimiser.kinds))
def test_every_optimiser_keeps_the_contracts(kind, contract):
    contract(Optimiser.kinds[kind]())


@pytest.mark.parametrize(
    "optimiser", [AdamW(), AdamW8bit(), Lion(), SGD(weight_decay=0.1), Adafactor(weight_decay=0.1), Muon()]
)
def test_decay_takes_the_same_share_of_a_matrix_at_every_width(optimiser):
    """With muP, by which a matrix wider than at its base has a smaller rate; a step without a gradient shows the decay."""
    left = []
    for base in (None, (2, 2)):
        parameters, own = built(optimiser, {"matrix": Weight((8, 8), "column", "matrix", base=base)})
        before = parameters["matrix"].detach().clone()
        parameters["matrix"].grad = torch.zeros_like(before)
        own.step()
        left.append((parameters["matrix"].detach() / before).mean().item())
    assert left[0] < 1 - 1e-6
    assert left[1] == pytest.approx(left[0], rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_adamw_of_one_weight_after_the_other_is_the_same_to_the_bit(dtype):
    runs = zip(updates(AdamW(), dtype=dtype), updates(AdamW(), dtype=dtype, over=ByRule), strict=True)
    for (whole, fused), (single, plain) in runs:
        assert all(torch.equal(whole[name], single[name]) for name in WEIGHTS)
        assert isinstance(fused, torch.optim.AdamW)
        assert isinstance(plain, ByRule)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
@pytest.mark.parametrize(("scale", "nesterov"), [("original", True), ("match_rms_adamw", False)])
def test_muon_is_torchs_of_matrices(shape, scale, nesterov):
    optimiser = Muon(scale=scale, nesterov=nesterov, precision="bf16")
    weights = {"matrix": Weight(shape, "row", "residual")}
    parameter = nn.Parameter(numbers(weights["matrix"], 0, torch.float32))
    other = torch.optim.Muon(
        [parameter], lr=optimiser.learning_rate, weight_decay=0.1, momentum=0.95, nesterov=nesterov, adjust_lr_fn=scale
    )
    for step, (ours, _) in enumerate(updates(optimiser, weights, torch.float32)):
        parameter.grad = gradients(step, torch.float32, weights)["matrix"]
        other.param_groups[0]["lr"] = RATES[step]
        before = parameter.detach().clone()
        other.step()
        # bf16 has 8 bits; the iterations amplify what products round, as the next test says.
        torch.testing.assert_close(ours["matrix"], parameter, rtol=0, atol=0.03 * (parameter - before).norm().item() + 1e-6)
    assert (ours["matrix"] - parameter).norm() < 0.02 * (parameter - numbers(weights["matrix"], 0, torch.float32)).norm()


@pytest.mark.parametrize(
    ("asked", "precision", "found"),
    [
        ("auto", Fp32(), "fp32"),
        ("auto", Bf16(), "bf16"),
        ("auto", Fp16(), "fp32"),
        ("bf16", Fp32(), "bf16"),
        ("fp32", Bf16(), "fp32"),
    ],
)
def test_muon_iterates_in_the_numbers_of_the_runs_products(asked, precision, found):
    model = build(zoo.ZOO["experts_after_top_k"])
    groups = build_optimiser(Muon(precision=asked), model, precision).param_groups
    assert {group["rule"].dtype for group in groups if isinstance(group["rule"], muon_module.MuonRule)} == {
        muon_module.NUMBERS[found]
    }


@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-5), (torch.bfloat16, 0.1)])
@pytest.mark.parametrize("shape", [(4, 12, 7), (4, 7, 12)])
def test_a_stack_is_made_orthogonal_expert_by_expert(shape, dtype, near):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * torch.tensor([1e-3, 1.0, 50.0, 0.0])[:, None, None]
    found = muon_module.orthogonal(x, 5, Muon().coefficients, dtype)
    for expert, alone in zip(found, x, strict=True):
        torch.testing.assert_close(expert, muon_module.orthogonal(alone, 5, Muon().coefficients, dtype), rtol=0, atol=near / 10)
        if alone.any():
            torch.testing.assert_close(expert.double(), orthogonal(alone.double(), 5, Muon().coefficients), rtol=0, atol=near)
        else:
            assert not expert.any()


def test_adafactor_is_torchs_of_matrices_while_its_rate_does_not_fall():
    weights = {"matrix": MATRIX, "gain": GAIN}
    optimiser = Adafactor(weight_decay=0.1)
    parameters = {name: nn.Parameter(numbers(weight, i)) for i, (name, weight) in enumerate(weights.items())}
    groups = [{"params": [parameters["matrix"]], "weight_decay": 0.1}, {"params": [parameters["gain"]], "weight_decay": 0.0}]
    other = torch.optim.Adafactor(groups, eps=(1e-15, 1e-3))
    for step, (ours, _) in enumerate(updates(optimiser, weights)):
        for name, gradient in gradients(step, weights=weights).items():
            parameters[name].grad = gradient
        for group in other.param_groups:
            group["lr"] = RATES[step]
        other.step()
        for name, parameter in parameters.items():
            torch.testing.assert_close(ours[name], parameter)


LONG = {"long": Weight((60, 77), "row", "residual"), "gain": GAIN}


def test_eight_bits_of_moments_are_near_adamw_and_pieces_change_nothing(monkeypatch):
    optimiser = AdamW8bit(block=64, smallest=100)
    *_, (whole, _) = updates(optimiser, LONG, torch.float32)
    *_, (exact, _) = updates(AdamW(), LONG, torch.float32)
    before = numbers(LONG["long"], 0, torch.float32)
    moved, error = (exact["long"] - before).norm(), (whole["long"] - exact["long"]).norm()
    assert 0 < error < 0.05 * moved
    monkeypatch.setattr(adamw_8bit_module, "AT_ONCE", 200)
    *_, (pieces, _) = updates(optimiser, LONG, torch.float32)
    assert torch.equal(whole["long"], pieces["long"])


def test_moments_have_eight_bits_from_the_smallest_size_on():
    weights = {"below": Weight((9, 11), "row", "residual"), "at": Weight((10, 10), "row", "residual")}
    optimiser = AdamW8bit(block=64, smallest=100)
    *_, (parameters, own) = updates(optimiser, weights, torch.float32)
    for name, weight in weights.items():
        state = own.state[parameters[name]]
        assert any(x.dtype == torch.uint8 for x in state.values()) == (name == "at")
        moments = [x.nbytes for kind, x in state.items() if kind not in ("updates", "step")]
        assert sum(moments) == optimiser.state_bytes(weight), "as priced"


@pytest.mark.parametrize("signed", [True, False])
def test_codes_are_the_papers_map_and_the_nearest_is_taken(signed):
    known = adamw_8bit_module.codes(signed, torch.device("cpu"))
    assert len(known) == 256
    assert known.equal(known.unique())
    assert (known.min().item(), known.max().item()) == (pytest.approx(-0.99296875) if signed else 0.0, 1.0)
    decades = [int(((known >= 10.0**-i * 0.1) & (known < 10.0**-i)).sum()) for i in range(7)]
    assert decades == [2 ** (6 - i + (not signed)) for i in range(7)]
    least = known[known > 0][:3].tolist()
    assert least == pytest.approx([0.55e-6, 3.25e-6, 7.75e-6] if signed else [0.325e-6, 0.775e-6, 2.125e-6])
    x = torch.randn(1000, generator=torch.Generator().manual_seed(1)) * torch.logspace(-3, 2, 1000)
    x = x if signed else x.abs()
    code, scale = adamw_8bit_module.quantised(x, 96, signed)
    assert (code.dtype, len(code), len(scale)) == (torch.uint8, 1000, 11)
    for start in range(0, 1000, 96):
        part = x[start : start + 96]
        best = (part[:, None] / part.abs().max() - known).abs().min(-1).values
        taken = (part / part.abs().max() - known[code[start : start + 96].int()]).abs()
        torch.testing.assert_close(taken, best, rtol=0, atol=1e-7)
    torch.testing.assert_close(
        adamw_8bit_module.restored(code, scale, 96, signed), known[code.int()] * scale.repeat_interleave(96)[:1000]
    )


@pytest.mark.parametrize("name", others_slow(zoo.ZOO))
def test_muon_takes_linear_maps_and_stacks_of_experts_alone(name):
    """Rows are outputs in both; a table, a filter for each channel or a transposed matrix would be made orthogonal wrongly."""
    architecture = zoo.ZOO[name]
    model, declared = build(architecture, device="meta"), architecture.trained_cost(Shape(source=1)).weights
    for path, parameter in model.named_parameters():
        if Muon().orthogonalises(declared[path]):
            owner = model.get_submodule(path.rpartition(".")[0])
            if declared[path].role == "expert":
                assert parameter.dim() == 3, path
            elif not path.endswith(".router.weight"):  # (X, D), and no nn.Linear
                assert isinstance(owner, nn.Linear), path
                assert parameter.shape == (owner.out_features, owner.in_features), path
