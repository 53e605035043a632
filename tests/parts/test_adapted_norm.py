"""A norm with adapters of languages, and a norm by a delay."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from anyformer.parts import AdaptedNorm, DelayNorm, LayerNorm, RMSNorm

D, R = 6, 2


def loud(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return module.double()


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


SPOKEN = AdaptedNorm(rank=R, languages=("en_XX", "de_DE"), language="de_DE")


def test_only_the_language_that_is_spoken_counts():
    module, x = loud(SPOKEN.build(D)), drawn(3, D)
    before = module(x)
    with torch.no_grad():
        module.up[0] = 0
    assert torch.equal(module(x), before)
    with torch.no_grad():
        module.up[1] = 0
    assert not torch.equal(module(x), before)


def test_without_what_the_adapter_adds_it_is_the_norm_of_the_norm():
    module, x = loud(SPOKEN.build(D)), drawn(3, D)
    for weight in (module.up, module.up_bias):
        nn.init.zeros_(weight)
    torch.testing.assert_close(module(x), module.norm(module.norm(x)))


def test_every_language_has_weights_and_one_has_products():
    tally = SPOKEN.cost(D, 7)
    own = {name: weight for name, weight in tally.weights.items() if not name.startswith("norm")}
    shapes = {"down": (2, R, D), "up": (2, D, R), "down_bias": (2, R), "up_bias": (2, D)}
    assert {name: weight.shape for name, weight in own.items()} == shapes
    assert sum(weight.active for weight in own.values()) == 2 * R * D + R + D
    assert tally.total_flops.dense == 7 * 2 * 2 * D * R
    assert {name for name in SPOKEN.but(before=RMSNorm()).cost(D, 7).weights if "before" in name} == {"before.weight"}


def test_a_language_without_an_adapter_is_refused():
    with pytest.raises(ValueError, match="language = fr_XX is none of the languages en_XX, de_DE"):
        SPOKEN.but(language="fr_XX")
    with pytest.raises(ValueError, match="name one twice"):
        AdaptedNorm(rank=R, languages=("en_XX", "en_XX"))


def test_another_delay_is_another_gain_for_all_vectors():
    soon, late = (loud(DelayNorm(norm=LayerNorm(), rank=R, delay=delay).build(D)) for delay in (0, 9))
    x = drawn(4, D)
    gains = late(x) / late.norm(x)
    torch.testing.assert_close(gains, gains[:1].expand_as(gains))
    assert (late(x) - soon(x)).abs().max() > 1e-2


def test_no_delay_is_all_cosines():
    module = DelayNorm(delay=0).build(D)
    assert torch.equal(module.waves(module.down.weight), torch.tensor([1.0, 1, 1, 0, 0, 0]))


def test_a_wave_has_a_cosine_and_a_sine():
    with pytest.raises(ValueError, match="an even width, got 5"):
        DelayNorm().check(5)


def test_gains_are_worked_out_once_whatever_the_number_of_vectors():
    few, many = (DelayNorm(rank=R).cost(D, vectors).total_flops.dense for vectors in (1, 100))
    assert few == many == 2 * 2 * D * R
