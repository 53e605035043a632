"""Products on operands in 8 and 4 bits: their formulas written out, torchao's, torch's own, and what is chosen for them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from anyformer.catalogue import architecture
from anyformer.catalogue.llama import llama
from anyformer.costs import cost
from anyformer.describe import change_all, from_toml, to_toml
from anyformer.model.adapters import plain
from anyformer.model.narrow_choice import chosen
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.precision import MXFP8, NVFP4, Auto, Fp8, Fp16, Mxfp8, Nvfp4, PureBf16
from anyformer.precision.products import NarrowLinear, product, scale_of, stored
from anyformer.precision.running import Running
from anyformer.precision.scaled_rounding import scaled_rounded

ALL = (Fp8(least=16), Fp8(least=16, scaling="channel"), Fp8(least=16, scaling="running"), Mxfp8(least=32), Nvfp4(least=16))


def linear_and_input(bias: bool = True):
    torch.manual_seed(0)
    return nn.Linear(64, 32, bias=bias), torch.randn(3, 16, 64) * torch.logspace(-2, 1, 64)


def passes(module, x, *, bf16: bool = False):
    """Output, and the gradients of input and weight, of a loss whose gradient is not constant."""
    module.zero_grad()
    x = x.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        y = module(x)
    (y.float() ** 2).sum().backward()
    return [z.detach().float() for z in (y, x.grad, module.weight.grad)]


def eight(x, dtype, dim=None):
    """x as it comes back from 8 bits, with one scale or one along `dim`."""
    most = torch.finfo(dtype).max
    scale = most / (x.abs().amax() if dim is None else x.abs().amax(dim, keepdim=True))
    return (x * scale).clamp(-most, most).to(dtype).float() / scale


@pytest.mark.parametrize("scaling", ["tensor", "channel", "running"])
def test_the_three_products_are_their_formulas(scaling):
    """O = X W^T, dX = dO W, dW = dO^T X on rounded operands; by channel each operand is scaled along its sum."""
    linear, x = linear_and_input()
    y, dx, dw = passes(NarrowLinear(linear, Fp8(scaling=scaling)), x)
    e4, e5, flat = torch.float8_e4m3fn, torch.float8_e5m2, x.reshape(-1, 64)
    along, across = (1, 0) if scaling == "channel" else (None, None)
    weight = linear.weight.detach()
    expected = eight(flat, e4, along) @ eight(weight, e4, along).T + linear.bias.detach()
    torch.testing.assert_close(y.reshape(-1, 32), expected, rtol=1e-5, atol=1e-5)
    g = 2 * y.reshape(-1, 32)
    torch.testing.assert_close(dx.reshape(-1, 64), eight(g, e5, along) @ eight(weight, e4, across), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(dw, eight(g, e5, across).T @ eight(flat, e4, across), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("scaling", ["tensor", "channel"])
def test_torchao_computes_the_same(scaling):
    ao = pytest.importorskip("torchao.float8")
    config = pytest.importorskip("torchao.float8.config")
    linear, x = linear_and_input()
    settings = {}
    if scaling == "channel":
        axis, e4m3 = config.ScalingGranularity.AXISWISE, torch.float8_e4m3fn
        row = config.CastConfig(scaling_granularity=axis, target_dtype=e4m3)
        settings = {f"cast_config_{name}": row for name in ("input", "weight", "grad_output")}
    theirs = nn.Sequential(nn.Linear(64, 32))
    theirs[0].load_state_dict(linear.state_dict())
    ao.convert_to_float8_training(theirs, config=ao.Float8LinearConfig(emulate=True, **settings))
    ours = NarrowLinear(linear, Fp8(scaling=scaling, backward="e4m3" if scaling == "channel" else "e5m2"))
    for mine, other in zip(passes(ours, x), passes(theirs[0], x), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5 * float(other.abs().max()))


@pytest.mark.parametrize("by_row", [False, True])
def test_torchs_scaled_product_undoes_the_scales_alike(by_row):
    """The call that a GPU makes, on this processor."""
    torch.manual_seed(0)
    x, weight = torch.randn(32, 64), torch.randn(48, 64)
    sizes = [z.abs().amax(1, keepdim=True) if by_row else z.abs().amax() for z in (x, weight)]
    a, b = (
        stored(z, scale_of(size, torch.float8_e4m3fn), torch.float8_e4m3fn) for z, size in zip((x, weight), sizes, strict=True)
    )
    undone = [z.scale.reciprocal() for z in (a, b)]
    theirs = torch._scaled_mm(
        a.codes, b.codes.t(), undone[0], undone[1].reshape(1, -1) if by_row else undone[1], out_dtype=torch.bfloat16
    )
    torch.testing.assert_close(product(a, b, torch.bfloat16).float(), theirs.float(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(("precision", "format"), [(Mxfp8(least=32, scale="ocp"), MXFP8), (Nvfp4(least=16), NVFP4)])
def test_blocks_lie_along_the_sum(precision, format):
    linear, x = linear_and_input(bias=False)
    y, dx, dw = passes(NarrowLinear(linear, precision), x)
    flat, weight, g = x.reshape(-1, 64), linear.weight.detach(), 2 * y.reshape(-1, 32)

    def rounded(z):
        return scaled_rounded(z.contiguous(), format)

    torch.testing.assert_close(y.reshape(-1, 32), rounded(flat) @ rounded(weight).T, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(dx.reshape(-1, 64), rounded(g) @ rounded(weight.T).T, rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(dw, rounded(g.T) @ rounded(flat.T).T, rtol=1e-5, atol=1e-2)


def test_a_scale_rounded_up_saturates_nothing():
    """Below half the largest number a block is too small, above it too large: the power of two lies between."""
    torch.manual_seed(0)
    x = torch.randn(40, 64) * torch.logspace(-6, 6, 40)[:, None]
    operand = NarrowLinear(nn.Linear(64, 64), Mxfp8()).maker.operand(x, "input", note=False)
    for given, found in zip(x.reshape(-1, 32), operand.codes.reshape(-1, 32), strict=True):
        scale = 2.0 ** torch.floor(torch.log2(448 / given.abs().max().double()))
        assert 224 < float(given.abs().max() * scale) <= 448
        torch.testing.assert_close(found, ((given * scale).to(torch.float8_e4m3fn).float() / scale).float())


@pytest.mark.parametrize("precision", ALL, ids=lambda precision: f"{precision.kind}, {precision.shares}")
def test_products_are_near_those_in_bf16(precision):
    linear, x = linear_and_input()
    allowed = 0.3 if precision.kind == "nvfp4" else 0.12
    for mine, wide in zip(passes(NarrowLinear(linear, precision), x, bf16=True), passes(linear, x, bf16=True), strict=True):
        assert float((mine - wide).norm() / wide.norm()) < allowed


def test_a_running_scale_follows_from_earlier_updates():
    """The greatest of the last three maxima scales an operand, whatever its own is; what exceeds it saturates."""
    linear, x = linear_and_input()
    module = NarrowLinear(linear, Fp8(scaling="running", history=3)).train()
    seen = []
    for factor in (1.0, 4.0, 2.0, 0.5, 8.0):
        module.running.begin()
        before = float(module.running.maxima[0].amax())
        assert before == pytest.approx(max(seen[-3:], default=0))
        passes(module, x * factor)
        operand = module.maker.operand((x * factor).reshape(-1, 64), "input", note=False)
        now = float((x * factor).abs().max())
        assert float(operand.scale) == pytest.approx(448 / (before or now))
        assert float(operand.codes.float().abs().max()) == pytest.approx(min(448, 448 * now / (before or now)), rel=0.07)
        module.running.end()
        seen.append(now)
    module.running.begin()
    kept = module.running.maxima.clone()
    with torch.no_grad():
        module.eval()(x * 100)
    module.running.end()
    assert float(kept[0, 0]) != 0
    assert float(module.running.maxima[0, 0]) == 0, "an evaluation counts for nothing"


def test_of_an_updates_micro_batches_the_greatest_counts():
    running = Running(history=2)
    running.begin()
    for greatest in (1.0, 3.0, 2.0):
        running.maximum("input", torch.tensor(greatest), note=True)
    running.end()
    assert float(running.maximum("input", torch.tensor(9.0), note=False)) == 3


def test_rows_that_fill_no_block_change_nothing():
    linear, x = linear_and_input()
    module = NarrowLinear(linear, Fp8())
    whole, part = passes(module, x[:1, :16]), passes(module, torch.cat((x[:1, :16], x[:1, :1] * 0), 1))
    torch.testing.assert_close(part[0][:, :16], whole[0])
    torch.testing.assert_close(part[1][:, :16], whole[1])


def test_matrices_of_layers_are_chosen_by_size():
    made = llama(width=64, depth=2, heads=4, kv_heads=1, ffn=200, vocab=64, tied=False)
    model = build(made, Plan(precision=Fp8(least=32)), device="meta")
    narrow = {name for name, module in model.named_modules() if isinstance(module, NarrowLinear)}
    assert narrow == {f"decoder.layers.{i}.attention.sublayer.{name}" for i in (0, 1) for name in ("query", "output")}
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in build(made, device="meta").named_parameters()]
    experts = architecture("mixtral-8x7b").trained_cost(Shape()).weights
    picked = {weight.role for weight in experts.values() if chosen(Fp8(), weight)}
    assert picked == {"column", "row"}, "stacked experts keep bf16"


def test_the_finished_model_is_a_plain_one():
    made = llama(width=64, depth=1, heads=4, kv_heads=4, ffn=64, vocab=64, tied=False)
    model = build(made, Plan(precision=Fp8(least=16)))
    assert not [module for module in plain(model).modules() if isinstance(module, NarrowLinear)]


def test_words_and_tables():
    assert Plan(precision="fp8") == Plan(precision={"kind": "fp8"}) == Plan(precision=Fp8())
    assert Plan().precision == Auto()
    assert to_toml(Plan(precision="fp16")).splitlines()[0] == 'precision = "fp16"'
    for precision in (Fp8(scaling="running"), Fp16(scale=2.0), PureBf16(rounding="stochastic"), Nvfp4()):
        plan = Plan(precision=precision)
        assert from_toml(Plan, to_toml(plan)) == plan
    assert change_all(Plan(precision="fp8"), {"precision.scaling": "channel"}).precision == Fp8(scaling="channel")


def test_prices_know_the_units():
    """A GPU's faster units shorten the products that are chosen, and no others; none of them is slower than it was."""
    made = architecture("llama-3-8b")

    def time(kind):
        return cost(made, batch=4, length=2048, plan=Plan(precision=kind), hardware="h100").time

    by = {kind: {each.name: each.seconds for each in time(kind).operations} for kind in ("fp32", "tf32", "bf16", "fp16", "fp8")}
    assert sum(by["fp32"].values()) > sum(by["tf32"].values()) > sum(by["bf16"].values()) > sum(by["fp8"].values())
    assert by["fp16"] == by["bf16"]
    assert by["fp8"]["decoder.feedforward.up"] == pytest.approx(by["bf16"]["decoder.feedforward.up"] / 2, rel=0.01)
    assert by["fp8"]["decoder.attention.mixing"] == by["bf16"]["decoder.attention.mixing"]
    heads = [{name: seconds for name, seconds in by[kind].items() if name.startswith("head")} for kind in ("fp8", "bf16")]
    assert heads[0] == heads[1] != {}
    assert cost(made, plan=Plan(), hardware="v100").plan.precision == Fp16()
    with pytest.raises(ValueError, match="no peak for 'fp8'"):
        cost(made, plan=Plan(precision="fp8"), hardware="a100").time  # noqa: B018
