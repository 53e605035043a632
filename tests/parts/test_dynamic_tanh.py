"""Dynamic tanh in the place of a norm: linear around 0, bounded far from it, each feature by itself."""

from __future__ import annotations

import pytest
import torch

from anyformer.parts import DynamicTanh
from anyformer.parts.norms.dynamic_tanh_module import DynamicTanhModule

D = 6


def built(**numbers: torch.Tensor) -> DynamicTanhModule:
    module = DynamicTanh().build(D).double()
    with torch.no_grad():
        for name, weight in module.named_parameters():
            weight.copy_(numbers.get(name, {"weight": 1.0, "bias": 0.0, "alpha": 0.5}[name]))
    return module


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_around_0_it_is_linear():
    x = 1e-4 * drawn(2, 5, D)
    torch.testing.assert_close(built()(x), 0.5 * x, rtol=1e-6, atol=1e-12)


def test_far_from_0_gain_and_bias_bound_it():
    gain, bias = drawn(D), drawn(D)
    far = built(weight=gain, bias=bias)(torch.tensor([1e6, -1e6]).double()[:, None].expand(2, D))
    torch.testing.assert_close(far, torch.stack([gain + bias, bias - gain]))


def test_no_feature_reads_another():
    x = drawn(3, D).requires_grad_()
    built(weight=drawn(D))(x)[:, 2].sum().backward()
    assert x.grad[:, 2].all()
    assert not x.grad[:, [0, 1, 3, 4, 5]].any()


@pytest.mark.parametrize("alpha", [0.5, 0.703125])
def test_sixteen_bits_round_once(alpha):
    """The product with alpha is not rounded before the tanh; with a power of two it is exact."""
    x, module = drawn(64, D).bfloat16(), built(alpha=torch.tensor(alpha))
    wanted = module(x.double()).bfloat16()
    assert module.bfloat16()(x).dtype == torch.bfloat16
    torch.testing.assert_close(module(x), wanted, rtol=0, atol=0)


@pytest.mark.parametrize("initial", [0.5, 0.1])
def test_alpha_begins_at_its_initial_value(initial):
    weight = DynamicTanh(initial=initial).cost(D, 1).weights["alpha"]
    assert (weight.shape, weight.fill) == ((1,), initial)
