"""Factors that follow from a size: told as what they follow from, computed as the number."""

from __future__ import annotations

import pytest
import torch
from zoo import ZOO

from anyformer.describe import DescriptionError, change, change_all
from anyformer.model.transformer import build

DERIVED = ZOO["derived_factors"]


def test_the_model_is_that_of_the_numbers():
    numbers = DERIVED.resolved()
    width, depth = DERIVED.width, DERIVED.decoder.depth
    assert (numbers.embedding.scale, numbers.head.scale) == (width**0.5, width**-0.5)
    assert numbers.initialisation.residual_scale == (2 * depth) ** -0.5
    derived, plain = build(DERIVED, seed=3), build(numbers, seed=3)
    weights = dict(plain.named_parameters())
    assert all(torch.equal(weight, weights[name]) for name, weight in derived.named_parameters())
    tokens = DERIVED.embedding.example(2, 5)
    assert torch.equal(derived(tokens), plain(tokens))


def test_they_follow_another_size():
    wide = change_all(DERIVED, {"width": 2 * DERIVED.width, "decoder.order": "layer*8"})
    assert wide.resolved().embedding.scale == (2 * DERIVED.width) ** 0.5
    assert wide.resolved().initialisation.residual_scale == 0.25


@pytest.mark.parametrize("given", ["sqrt_wdth", "inverse_sqrt_2_depth", 0, -1.0, True, float("inf")])
def test_anything_else_is_refused_at_its_path(given):
    with pytest.raises(DescriptionError) as caught:
        change(DERIVED, "head.scale", given)
    said = str(caught.value).splitlines()
    assert len(said) == 1
    assert "head.scale: should be a finite number above 0, or 'sqrt_width' or 'inverse_sqrt_width'; got " in said[0]
