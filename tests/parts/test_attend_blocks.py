"""Attention by blocks of queries against the plain kernel: the same values, gradients and bits, and no scores kept."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from zoo import DECODERS

from anyformer.catalogue import architecture as catalogue
from anyformer.costs.activations import activations
from anyformer.costs.saved.measured import saved_bytes
from anyformer.describe import change_all
from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts.attention.attend import PLAIN_LIMIT, attend, kernel_of
from anyformer.parts.attention.score_bias import ALiBi, RelativeBuckets
from anyformer.parts.call.context import Visible
from anyformer.parts.call.noise import Drop, Noise
from anyformer.plan import Plan

B, H, T, E = 2, 4, 13, 4
DROP = Drop(Noise(torch.tensor(5), torch.tensor([9, 3])), site=77, rate=0.3)
CASES = {
    "dropout": {"drop": DROP},
    "cap": {"softcap": 2.0},
    "sink": {"sink": True},
    "all": {"drop": DROP, "softcap": 2.0, "sink": True, "bias": (1, H, T, T)},
    "a mask of each row": {"drop": DROP, "mask": (B, 1, T, T)},
    "more keys, wider values": {"drop": DROP, "keys": 17, "value": 6, "bias": (1, H, 1, 17), "mask": (1, 1, T, 17)},
    "fewer keys": {"drop": DROP, "keys": 3, "mask": None},
}


def both(kernel: str, dtype: torch.dtype, case: dict, groups: int) -> list[Tensor]:
    """What the kernel gives, and the gradients of all it reads."""
    draw = torch.Generator().manual_seed(0)
    S, U = case.get("keys", T), case.get("value", E)
    q, k, v = (
        torch.randn(B, T_, K, F, dtype=dtype, generator=draw).transpose(1, 2).requires_grad_()
        for T_, K, F in ((T, H, E), (S, groups, E), (S, groups, U))
    )
    bias = torch.randn(case["bias"], generator=draw, requires_grad=True) if "bias" in case else None
    sink = torch.randn(H, generator=draw, requires_grad=True) if case.get("sink") else None
    visible = Visible(causal=True)
    if "mask" in case:
        visible = Visible(None if case["mask"] is None else torch.rand(case["mask"], generator=draw) > 0.3)
    mixed = attend(
        q, k, v, visible, scale=0.4, softcap=case.get("softcap"), bias_BHTS=bias, sink_H=sink, drop=case.get("drop"),
        kernel=kernel,
    )  # fmt: skip
    direction = torch.randn(mixed.shape, generator=draw).to(dtype)
    return [mixed.detach(), *torch.autograd.grad(mixed, [x for x in (q, k, v, bias, sink) if x is not None], direction)]


@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("name", CASES)
def test_the_same_as_the_plain_kernel_both_ways(name, groups):
    for plain, blocks in zip(*(both(kernel, torch.float32, CASES[name], groups) for kernel in ("plain", "sdpa")), strict=True):
        torch.testing.assert_close(blocks, plain, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", CASES)
def test_in_bfloat16_as_near_to_fp32_as_the_plain_kernel(name):
    exact, plain, blocks = (
        both(kernel, dtype, CASES[name], 2)
        for kernel, dtype in (("plain", torch.float32), ("plain", torch.bfloat16), ("sdpa", torch.bfloat16))
    )
    for truth, one, other in zip(exact, plain, blocks, strict=True):
        scale = truth.abs().max()
        assert (other - truth).abs().max() <= 1.5 * (one - truth).abs().max() + 0.01 * scale


def test_the_operator_keeps_its_promises_to_a_compiler():
    q, k, v = (torch.randn(B, H, T, E, requires_grad=True) for _ in range(3))

    def attended(q, k, v, key, rows):
        return attend(q, k, v, Visible(causal=True), scale=0.5, drop=Drop(Noise(key, rows), 77, 0.3), kernel="sdpa")

    compiled = torch.compile(attended, fullgraph=True, backend="aot_eager")
    given = (q, k, v, DROP.noise.key, DROP.noise.rows)
    for one, other in zip(*(torch.autograd.grad(f(*given).sum(), (q, k, v)) for f in (attended, compiled)), strict=True):
        assert torch.equal(one, other)


def test_which_kernel():
    own = [kernel_of(asked, 512, 512, own=True) for asked in ("plain", "sdpa", "auto")]
    assert own == ["plain", "blocks", "blocks"]
    assert kernel_of("auto", 512, PLAIN_LIMIT, own=True) == kernel_of("auto", 1, 512, own=True) == "plain"
    assert kernel_of("sdpa", 11, 11, own=True) == "blocks"
    assert kernel_of("auto", 512, 512, own=False) == kernel_of("sdpa", 11, 11, own=False) == "sdpa"


def test_gpt2_at_8192_tokens_keeps_no_scores():
    """As the catalogue has it, with dropout in attention: 81.8 GB where the kernel wrote scores, 3.7 GB without dropout."""
    shape, long = Shape(length=8192), change_all(catalogue("gpt2"), {"decoder.position.length": 8192})
    dropping, without = (
        activations(change_all(long, {"decoder.layer.attention.sublayer.dropout": rate}), shape, Plan(precision="bf16")).saved
        for rate in (0.1, 0.0)
    )
    assert dropping < 1.01 * without < 10e9


DROPPING = {"decoder.layer.attention.sublayer.dropout": 0.25}
KEPT: dict[str, Architecture] = {
    "dropout": change_all(DECODERS["llama"], DROPPING),
    "a cap and a bias of every layer": change_all(DECODERS["llama"], {
        "decoder.layer.attention.sublayer.softcap": 2.0, "decoder.layer.attention.sublayer.score_bias": ALiBi(),
    }),
    "dropout and a learned bias": change_all(
        DECODERS["llama"], DROPPING | {"decoder.layer.attention.sublayer.score_bias": RelativeBuckets(buckets=8)}
    ),
    "dropout, a bias of the stack": change_all(DECODERS["buckets"], DROPPING),
}  # fmt: skip


@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
@pytest.mark.parametrize("name", KEPT)
def test_bytes_kept_are_the_declared_ones(name, checkpointing):
    plan = Plan(precision="fp32", attention="sdpa", checkpointing=checkpointing)
    model = build(KEPT[name], plan).train()
    tokens = KEPT[name].embedding.example(2, 11)
    noise = Noise.at(0, 0, torch.arange(2))
    declared = activations(KEPT[name], Shape(batch=2, length=11), plan, loss=False)
    if checkpointing == "none":
        assert saved_bytes(model, lambda: model(tokens, noise=noise)) == declared.saved + declared.loss
    else:
        assert declared.saved < activations(KEPT[name], Shape(batch=2, length=11), plan.but(checkpointing="none")).saved
    gradients = []
    for other in (plan, Plan(attention="plain")):
        made = build(KEPT[name], other).train()
        made(tokens, noise=noise).square().sum().backward()
        gradients.append([parameter.grad for parameter in made.parameters()])
    for one, plain in zip(*gradients, strict=True):
        assert (one - plain).norm() <= 1e-4 * plain.norm() + 1e-5
