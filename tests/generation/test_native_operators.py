"""Every operation of a table beside torch's operator: other types, shapes, strides, numbers repeated and written in place."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from anyformer.generation.native.captured import captured
from anyformer.generation.native.decode import NativeStep, unavailable
from anyformer.generation.native.table import UnknownError
from anyformer.generation.native.translated import WRITES, translated


def numbers(*shape, low=-3.0, high=3.0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(sum(shape))) * (high - low) + low


X, Y, ROW = numbers(3, 5, 7), numbers(3, 5, 7) + 0.1, numbers(7)
WHOLE, OTHER = torch.arange(-6, 6).view(3, 4), torch.arange(1, 13).view(3, 4)
MASK = X > 0
LONG = numbers(3, 300, 200)  # more than a chunk, and enough for several threads


def named(names, *given, module=torch, label="", **settings):
    """Functions of torch by their names."""
    return {f"{label}{name}": (partial(getattr(module, name), **settings), *given) for name in names.split()}


CASES = {
    **named("relu silu gelu softplus logsigmoid", X, module=F),
    **named("neg exp sigmoid tanh abs sin cos floor ceil sign erf expm1 square", X),
    **named("log sqrt rsqrt reciprocal log1p", X.abs() + 0.1),
    **named("add sub mul div minimum maximum eq ne lt le gt ge remainder floor_divide", X, Y),
    **named("add sub mul div minimum eq lt remainder floor_divide", WHOLE, OTHER, label="whole "),
    **named("bitwise_and bitwise_or bitwise_xor", WHOLE, OTHER),
    **named("gelu", X, module=F, label="tanh ", approximate="tanh"),
    **named("sum mean amax amin argmax argmin any all softmax log_softmax cumsum", X, dim=1),
    **named("sum mean amax amin", X, label="last ", dim=-1),
    **named("sum mean amax amin", X, label="two ", dim=(0, 2)),
    "sum of all": (lambda x: x.sum(), X),
    "sum kept": (lambda x: x.mean(-1, keepdim=True), X),
    "sum of many": (lambda x: x.sum((1, 2)), LONG),
    "sum of whole numbers": (lambda x: x.sum(1), WHOLE),
    "norm": (lambda x: torch.linalg.vector_norm(x, dim=-1), X),
    "a factor": (lambda x, y: torch.add(x, y, alpha=-2.5), X, Y),
    "a number": (lambda x: 1.5 - x * 2, X),
    "a power": (lambda x: x.pow(2) + x.abs().pow(0.3), X),
    "clamp": (lambda x: x.clamp(-1, 0.5) + x.clamp(min=0) + x.clamp(max=0), X),
    "nan": (lambda x: torch.minimum(x / 0 * 0, x) + x.clamp(min=0), X),
    "softmax of many": (lambda x: x.flatten(1)[:, :37].mul(9).softmax(-1), numbers(3, 40)),
    "where": (lambda m, x, y: torch.where(m, x, y), MASK, X, Y),
    "masked_fill": (lambda x, m: x.masked_fill(m, -torch.inf), X, MASK),
    "and or not": (lambda m, x: (m & (x < 1)) | ~m, MASK, X),
    "addcmul": (lambda x, y, w: torch.addcmul(x, y, w), X, Y, ROW),
    "repeated": (lambda x, row: x * row + x[:, :1] - x[..., None, :, :].squeeze(-3), X, ROW),
    "many numbers": (lambda x: F.silu(x.transpose(0, 1)), LONG),
    "turned": (lambda x: (x.transpose(0, 2) + 1).contiguous(), X),
    "to bf16 and back": (lambda x: (x.to(torch.bfloat16) * 3).float(), X),
    "to whole numbers": (lambda x: x.to(torch.int64) + MASK.to(torch.int64), X),
    "of bits": (lambda m: m.float() - 1, MASK),
    "zeros, ones, others": (lambda x: torch.zeros_like(x) + torch.ones(7) + x.new_full((5, 7), 2.5), X),
    "written in place": (lambda x: (y := x.clone(), y.add_(1), y[:, 1].mul_(3), y[0].copy_(x[1]), y)[-1], X),
    "layer_norm": (lambda x, w: F.layer_norm(x, (7,), w, w, 1e-5), X, ROW),
    "rms_norm": (lambda x, w: F.rms_norm(x, (7,), w, 1e-6) + F.rms_norm(x, (7,)), X, ROW),
    "argsort": (lambda x: x.argsort(dim=1, descending=True, stable=True), (X * 2).round()),
    "topk": (lambda x: x.topk(3).values * 10 + x.topk(3).indices, X),
    "least": (lambda x: x.topk(2, dim=0, largest=False).values, X),
    "cat": (lambda x, y: torch.cat([x, y[:, :2], y[:, :0]], 1), X, Y),
    "scatter": (lambda x, i: x.scatter(1, (i % 5)[..., None].expand(3, 4, 7), 2 * x[:, 1:]), X, WHOLE),
    "scatter of a number": (lambda x, i: x[0].scatter(0, i % 5, 9.0), X, WHOLE),
    "shifted": (lambda i: (i << 2) + (i >> 1), WHOLE),
    "einsum": (lambda x, y: torch.einsum("abc,dbc->ad", x, y), X, Y),
    "of 8 bits": (lambda x: x.to(torch.int8).float() + (x.abs() + 0.5).to(torch.uint8), X),
    "arccosine": (lambda x: torch.acos(x / 4), X),
    "stack": (lambda x, y: torch.stack([x, y], -1), X, Y),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=-1.0), X),
    "flatten": (lambda x: x.transpose(1, 2).reshape(3, 35) + x.transpose(0, 1).flatten(1).sum(), X),
    "repeat": (lambda x: x.repeat(2, 1, 3) + x[0].repeat(6, 1, 3), X),
    "attention of groups": (lambda x, y: F.scaled_dot_product_attention(x.view(1, 3, 5, 7).repeat(1, 2, 1, 1), y[None], x[None],
       enable_gqa=True), X, Y),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), X),
    "embedding": (lambda t, i: F.embedding(i % 5, t), X[0], WHOLE),
    "index_select": (lambda x: x.index_select(1, torch.tensor([4, 0, 0])), X),
    "gather": (lambda x, i: x.gather(2, (i % 7)[:, :, None].expand(3, 4, 2)), X, WHOLE),
    "index": (lambda x: x[torch.tensor([2, 0]), torch.tensor([1, -1])] + x[:, torch.tensor([1])][0], X),
    "index along the second": (lambda x: x[:, torch.tensor([[1, -1], [0, 0]])], X),
    "index_copy": (lambda x, y: x.clone().index_copy_(1, torch.tensor([3]), y[:, :1]), X, Y),
    "index_put": (lambda x, y: (z := x.clone(), z.__setitem__(torch.tensor([2, 0]), y[:2]), z)[-1], X, Y),
    "index_add": (lambda x, y: torch.ops.aten.index_put(x, [torch.tensor([1, 1])], y[:2], True), X, Y),
    "mm": (lambda x, y: x[0] @ y[0].T + torch.addmm(x[0, :, :5], x[1], y[1].T, beta=2, alpha=0.5), X, Y),
    "torch.mm": (lambda x, y: torch.mm(x[0], y[0].T) + torch.mm(x[0].T[:5, :4].contiguous(), y[0, :4, :5]), X, Y),
    "bmm": (lambda x, y: torch.bmm(x, y.mT) + torch.baddbmm(x[:, :, :5], x, y.mT), X, Y),
    "columns": (lambda x, y: torch.bmm(x.mT, y), X, Y),
    "many columns": (lambda x: x[:2] @ x.mT[:2] / 50, LONG),
    "batches of batches": (lambda x: x.view(3, 1, 5, 7) @ x.mT.unsqueeze(0), X),
    "a vector": (lambda x, row: x[0].mv(row) + torch.dot(row, row), X, ROW),
    "linear": (lambda x, y: F.linear(x, y[0], y[1, :, 0]), X, Y),
    "linear in bf16": (lambda x, y: F.linear(x[0].to(torch.bfloat16), y[0].to(torch.bfloat16)), X, Y),
    "rows of six": (lambda x, y: F.linear(x[:, :2].reshape(6, 7), y[0]), X, Y),
    "attention": (lambda x, y: F.scaled_dot_product_attention(x[None, :, :2], y[None], x[None], y[None, :, :2, :5] > 0), X, Y),
    "attention with a bias": (lambda x, y: F.scaled_dot_product_attention(x[None], y[None], x[None], y[None, ..., :5]), X, Y),
    "attention by a factor": (lambda x, y: F.scaled_dot_product_attention(x[None], y[None], x[None], scale=0.3), X, Y),
    "attention of many queries": (lambda x: F.scaled_dot_product_attention(x[:, None, :13, :64], x[:, None, :, 64:128],
       x[:, None, :, 100:], x[:, None, 13:26, :1].expand(3, 1, 13, 300)), LONG),
    "attention to bf16": (lambda x, y: F.scaled_dot_product_attention(*(z[None].to(torch.bfloat16) for z in (x, y, x))), X, Y),
}  # fmt: skip


@pytest.fixture(autouse=True)
def compiled():
    if unavailable():
        pytest.skip(unavailable())


def computed(function, given):
    """What torch gives, and the table for it."""
    with torch.inference_mode(), captured(WRITES) as operators:
        expected = function(*given)
    return expected, NativeStep(translated(operators, given, (), expected), ())


@pytest.mark.parametrize("name", CASES)
def test_it_gives_what_torch_gives(name):
    function, *given = CASES[name]
    expected, step = computed(function, given)
    found = step(*given)
    coarse = expected.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected, atol=2e-2 if coarse else 2e-5, rtol=2e-2 if coarse else 2e-5, equal_nan=True)
    if name not in ("nan",):
        others = [each.flip(0).contiguous() for each in given]
        torch.testing.assert_close(
            step(*others), function(*others), atol=2e-2 if coarse else 2e-5, rtol=2e-2 if coarse else 2e-5
        )


def test_every_operator_is_asked():
    """Those that a model's step shows, by the names under which a pass without gradients sees them."""
    seen = set()
    for function, *given in CASES.values():
        with torch.inference_mode(), captured(WRITES) as operators:
            function(*given)
        seen |= {operator.name for operator in operators}
    by_other_names = {  # as they are called where gradients are recorded, or by other ways to write the same
        "aten::_to_copy", "aten::_softmax", "aten::_log_softmax", "aten::native_layer_norm", "aten::_fused_rms_norm",
        "aten::constant_pad_nd", "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::_scaled_dot_product_attention_math", "aten::bitwise_left_shift", "aten::bitwise_right_shift", "aten::reshape",
        "aten::full",
        "aten::fill", "aten::full_like", "aten::zeros", "aten::zero", "aten::new_zeros", "aten::new_ones", "aten::ones_like",
        "aten::type_as", "aten::logical_and", "aten::logical_or", "aten::logical_xor", "aten::logical_not",
        "aten::__and__", "aten::__or__", "aten::__xor__", "aten::clamp_min", "aten::clamp_max", "aten::contiguous",
    }  # fmt: skip
    by_models = {
        "mkldnn::_linear_pointwise",
        "aten::_weight_int8pack_mm",
        "aten::_weight_int4pack_mm_for_cpu",
        "chosen_product",
    }
    assert WRITES.keys() - seen <= by_other_names | by_models, WRITES.keys() - seen - by_other_names - by_models


@pytest.mark.parametrize("name", ["many numbers", "many columns", "sum of many", "linear", "attention of many queries"])
def test_threads_change_no_number(name):
    function, *given = CASES[name]
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(computed(function, given)[1](*given))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(each, found[0]) for each in found)


@torch.library.custom_op("native_test::sent", mutates_args=())
def sent(x: torch.Tensor) -> None:
    """An operator that gives nothing, as one that sends numbers to another process does."""


@pytest.mark.parametrize(
    ("function", "said"),
    [(lambda x: (sent(x), x + 1)[1], "native_test::sent")],
)
def test_an_operator_that_gives_nothing_is_not_left_out(function, said):
    with pytest.raises(UnknownError, match=said):
        computed(function, [X])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x.double() + 1, "float64"),
        (lambda x: x.cumprod(1), "cumprod"),
        (lambda x: torch.div(x, 3, rounding_mode="trunc"), "rounded by trunc"),
        (lambda x: F.softplus(x, beta=2), "another slope"),
        (lambda x: F.layer_norm(x, (5, 7)), "several sizes"),
        (lambda x: F.pad(x, (1, 1), mode="circular"), "other numbers"),
        (lambda x: x[x > 0], "by a mask"),
    ],
)
def test_what_no_operation_computes_is_refused_by_name(function, said):
    with pytest.raises(UnknownError, match=said):
        computed(function, [X])
