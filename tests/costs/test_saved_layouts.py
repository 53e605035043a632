"""What operations make, said without torch's kernels of the meta device, is what those say."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from zoo import ZOO

from anyformer.costs.saved import TraceQuestion
from anyformer.costs.saved.layouts import laid_out
from anyformer.costs.saved.tracing import trace
from anyformer.operations import Shape
from anyformer.plan import Plan
from covering import covering, rest_slow

aten = torch.ops.aten


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """But for the strides of sizes of 1."""
    facts = [(x.shape, x.dtype, [stride for stride, n in zip(x.stride(), x.shape, strict=True) if n > 1]) for x in (one, other)]
    return facts[0] == facts[1]


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Any order of dimensions, some of them expanded, with numbers: what torch does with those is what counts."""
    sizes = draw(st.lists(st.sampled_from([1, 3, 5, 7]), min_size=3, max_size=3))
    x = torch.ones(sizes, dtype=draw(st.sampled_from([torch.float32, torch.bfloat16, torch.int64])))
    x = x.permute(draw(st.permutations(range(3))))
    return x[:, :1].expand(-1, 4, -1) if draw(st.booleans()) else x


@given(tensors(), st.booleans())
def test_elementwise(x, turned):
    y = torch.ones(x.shape[-1])
    for operator, args in (
        (aten.mul.Tensor, (y, x) if turned else (x, y)), (aten.add.Tensor, (x, 1e-5)), (aten.pow.Tensor_Scalar, (x, 2)),
        (aten.gt.Scalar, (x, 0)), (aten.clone.default, (x,)), (aten.neg.default, (x,)), (aten.where.self, (x > 0, x, y)),
    ):  # fmt: skip
        assert same(laid_out(operator, args, {}), operator(*args)), operator


@given(tensors(), st.integers(-3, 2), st.booleans())
def test_along_a_dimension(x, dim, keep):
    x = x.float()
    for operator, args in (
        (aten.mean.dim, (x, [dim], keep)), (aten.sum.dim_IntList, (x, [dim], keep)), (aten._softmax.default, (x, dim, False)),
        (aten.cumsum.default, (x, dim)), (aten.stack.default, ([x, x], dim)), (aten.tril.default, (x,)),
        (aten.constant_pad_nd.default, (x, [0, 2, 1, 0])), (aten.cat.default, ([x.contiguous(), x.contiguous()], dim)),
    ):  # fmt: skip
        assert same(laid_out(operator, args, {}), operator(*args)), operator
    for one, other in zip(
        laid_out(aten.sort.stable, (x,), {"stable": True, "dim": dim}), x.sort(dim=dim, stable=True), strict=True
    ):
        assert same(one, other)


@given(tensors(), st.booleans(), st.booleans())
def test_normalised(x, weighed, wider):
    """The means and deviations of rows in 16 bits are of the weights' type."""
    x = x.float() if x.dtype == torch.int64 else x
    sizes = list(x.shape[-2:])
    dtype = torch.float32 if wider else x.dtype
    weight, bias = (torch.ones(sizes, dtype=dtype), torch.zeros(sizes, dtype=dtype)) if weighed else (None, None)
    args = (x, sizes, weight, bias, 1e-5)
    for one, other in zip(
        laid_out(aten.native_layer_norm.default, args, {}), aten.native_layer_norm.default(*args), strict=True
    ):
        assert same(one, other)


@given(tensors(), st.lists(st.integers(1, 3), min_size=3, max_size=5), st.integers(-3, 2), st.booleans())
def test_other_operations(x, times, dim, keep):
    assert same(laid_out(aten.repeat.default, (x, times), {}), x.repeat(times))
    x = torch.cat([x.float(), x.float()], dim)  # an index of 1 is tried, which one row does not have
    index = torch.zeros(x.shape, dtype=torch.int64)
    for operator, args, more in (
        (aten.amin.default, (x, [dim], keep), {}), (aten.linalg_vector_norm.default, (x, 2, [dim], keep), {}),
        (aten.scatter.value, (x, dim, index, 1.0), {}), (aten.scatter_add.default, (x, dim, index, x), {}),
    ):  # fmt: skip
        assert same(laid_out(operator, args, more), operator(*args, **more)), operator
    operator = aten.log_sigmoid_forward.default
    assert all(map(same, laid_out(operator, (x,), {}), operator(x)))
    assert same(laid_out(aten.eye.default, (times[0],), {}), torch.eye(times[0]))
    assert same(laid_out(aten.eye.m, (times[0], times[1]), {}), torch.eye(times[0], times[1]))


WHOLE = (
    "llama", "gpt2", "latent", "experts_gpt_oss", "delta_channels", "encoder_relative", "buckets", "streams", "gated_linear",
    "rwkv7",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "recomputed"), rest_slow(product(WHOLE, (False, True)), covering(WHOLE, (False, True), together=1))
)
def test_whole_passes(name, recomputed, monkeypatch):
    shape = Shape(batch=2, length=11, source=7 if ZOO[name].two_inputs else 0)
    question = TraceQuestion(ZOO[name], shape, Plan(precision="bf16", attention="sdpa"), recomputed=recomputed)
    found = trace(question)
    monkeypatch.setattr("anyformer.costs.saved.paper.laid_out", lambda *_: None)
    assert trace(question) == found


def test_no_compiler_is_imported(tmp_path):
    """It would take as long as torch."""
    code = (
        "import sys, anyformer as af; [af.cost(name, batch=2).memory for name in ('mixtral-8x7b', 'gpt2')]; "
        "assert not {'torch._dynamo', 'sympy', 'torch.onnx'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "ANYFORMER_CACHE": str(tmp_path)})
