"""What a bottleneck, and a table narrower than the stream, refuse; the contracts hold their mathematics."""

from __future__ import annotations

import pytest

from anyformer.describe import DescriptionError, InputError
from anyformer.model import Architecture, encoder_only
from anyformer.model.transformer import build
from anyformer.parts import (
    Attention,
    Bidirectional,
    Bottleneck,
    Embedding,
    FeedForward,
    Gate,
    Head,
    HeadGroups,
    NarrowTable,
    RMSNorm,
    Transform,
    pre_norm,
)
from anyformer.testing.around import decoder_of


def encoder_of(head: Head, **fields) -> Architecture:
    block = pre_norm(RMSNorm(), Attention(heads=4, mask=Bidirectional()))
    return encoder_only(Embedding(vocab=30, **fields), 24, [block], head=head)


@pytest.mark.parametrize(
    ("field", "value"),
    [("gate", Gate()), ("grouped", HeadGroups(key=2)), ("values", "keys"), ("keys_from", "other")],
)
def test_attention_of_one_input_is_refused(field, value):
    with pytest.raises(DescriptionError, match=f"from two inputs: leave {field} out"):
        Bottleneck(width=8, attention=Attention(heads=2).but(**{field: value}), network=FeedForward(width=12))


def test_heads_divide_the_width_inside():
    with pytest.raises(DescriptionError, match="heads must divide the width"):
        decoder_of(Bottleneck(width=10, attention=Attention(heads=4), network=FeedForward(width=12)))


def test_a_tied_head_needs_the_features_that_the_table_lacks():
    narrow = NarrowTable(width=10)
    with pytest.raises(DescriptionError, match=r"has 10 features of 24 that are read: set head.own to 14"):
        encoder_of(Head(tied=True), narrow=narrow)
    with pytest.raises(DescriptionError, match="leave own out or set tied = true"):
        Head(own=3)
    assert not encoder_of(Head(tied=True, own=14, transform=Transform()), narrow=narrow).head.may_be_tied


def test_trigrams_generate_nothing():
    made = decoder_of(Attention(heads=4)).but(embedding=Embedding(vocab=30, narrow=NarrowTable(width=6, around=1)))
    with pytest.raises(InputError, match="reads the tokens around each one"):
        build(made).state(1, 4)
