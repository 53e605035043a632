"""Pictures of masks: every mask once, with its places."""

from __future__ import annotations

import pytest
from zoo import DECODERS

from anyformer.describe import UserError
from anyformer.model import decoder_only
from anyformer.parts import Embedding, FeedForward, RMSNorm, pre_norm
from anyformer.pictures import draw_masks, masks_of


def test_equal_masks_are_drawn_once_with_all_their_places(tmp_path):
    found = masks_of(DECODERS["local_global"])
    assert {mask.written: places for mask, places in found.items()} == {
        "window(size=4)": ["decoder.local.attention"],
        "causal": ["decoder.full.attention"],
    }
    draw_masks(DECODERS["local_global"], tmp_path / "masks.png")
    assert (tmp_path / "masks.png").read_bytes().startswith(b"\x89PNG")


def test_masks_are_spelled_as_they_are_written():
    mask = next(iter(masks_of(DECODERS["sparse_fixed"])))
    assert mask.written == "causal & (chunk(size=4) | fixed(size=4, summary=2))"


def test_without_attention_there_is_no_mask_to_draw(tmp_path):
    plain = decoder_only(Embedding(vocab=9), 8, [pre_norm(RMSNorm(), FeedForward(width=8))])
    with pytest.raises(UserError, match="no attention"):
        draw_masks(plain, tmp_path / "masks.png")
