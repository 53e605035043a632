"""A norm whose features a gate of low rank weighs."""

from __future__ import annotations

import pytest
import torch

from anyformer.parts import BatchNorm, GatedNorm, GroupedLayerNorm, LayerNorm, RMSNorm
from anyformer.parts.norms.gated_norm_module import GatedNormModule

D, R = 6, 2


SMALL = GatedNorm(rank=R)


def built(norm: GatedNorm = SMALL) -> GatedNormModule:
    module = norm.build(D).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    return module


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_without_the_gate_half_of_the_norm_is_left():
    module, x = built(), drawn(3, D)
    torch.nn.init.zeros_(module.up.weight)
    torch.testing.assert_close(module(x), 0.5 * module.norm(x))


def test_the_gate_reads_the_norm_and_not_its_input():
    """So what scales the input scales nothing behind it."""
    module, x = built(), drawn(3, D)
    torch.testing.assert_close(module(1e3 * x), module(1e4 * x), rtol=1e-5, atol=1e-6)


def test_it_can_only_shrink_what_it_weighs():
    module, x = built(GatedNorm(norm=LayerNorm(), rank=R, activation="relu")), drawn(50, D)
    ratio = module(x) / module.norm(x)
    assert ((ratio > 0) & (ratio < 1)).all()
    assert ratio.std() > 0.01


def test_sixteen_bits_stay_sixteen_bits():
    assert built().bfloat16()(drawn(4, D).bfloat16()).dtype == torch.bfloat16


def test_its_weights_and_products():
    tally = GatedNorm(rank=R).cost(D, 7)
    assert {name: weight.shape for name, weight in tally.weights.items()} == {
        "norm.weight": (D,), "down.weight": (R, D), "up.weight": (D, R),
    }  # fmt: skip
    assert tally.total_flops.dense == 7 * 2 * 2 * D * R


def test_what_the_norm_inside_refuses_or_breaks_it_does_too():
    with pytest.raises(ValueError, match="groups must divide the width"):
        GatedNorm(norm=GroupedLayerNorm(groups=4)).check(D)
    assert GatedNorm(norm=BatchNorm()).cost(D, 1).breaks("packed", training=True)
    assert not GatedNorm(norm=RMSNorm()).cost(D, 1).breaks("packed", training=True)
