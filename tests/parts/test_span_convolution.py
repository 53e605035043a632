"""What a span-based convolution refuses; the contracts hold its mathematics."""

from __future__ import annotations

import pytest

from anyformer.describe import DescriptionError, InputError
from anyformer.model.transformer import build
from anyformer.parts import Attention, SpanConvolution
from anyformer.testing.around import decoder_of


def test_an_even_kernel_is_refused():
    with pytest.raises(DescriptionError, match="has an odd kernel, got 4"):
        SpanConvolution(kernel=4)


def test_a_decoder_with_it_generates_nothing():
    model = build(decoder_of(Attention(heads=4, combine=SpanConvolution(kernel=3))))
    with pytest.raises(InputError, match="a convolution of spans reads later positions"):
        model.state(1, 4)


def test_its_attention_is_not_divided_and_has_no_layout():
    attention = Attention(heads=4, combine=SpanConvolution())
    assert attention.narrowed(24, 2) is attention.gathers(24) is attention.layout(24).heads is None
    assert attention.traits.mixing == "MHA+convolution"
