"""Checks of what an architecture may carry beside its stacks: predictions of later tokens, and virtual tokens."""

from __future__ import annotations

from anyformer.parts.layers.multi_token import MultiToken
from anyformer.parts.layers.stack import Stack


def check_mtp(mtp: MultiToken, decoder: Stack | None, width: int, narrow: int) -> None:
    """Refuse predictions of later tokens without a `decoder` of one text with logits, or of embeddings of another width."""
    if decoder is None:
        raise ValueError("mtp: a decoder of one text, with logits, predicts later tokens; this model is none: leave mtp out")
    if narrow != width:
        raise ValueError(f"mtp: reads embeddings of D = {width} features, and embedding_width is {narrow}")
    mtp.check(width, decoder)


def check_virtual_tokens(shape_of_model: str, mtp: MultiToken | None, *, one_text: bool) -> None:
    """Refuse virtual tokens where there is not one text in front of which they could stand."""
    if not one_text:
        raise ValueError(
            f"virtual_tokens: stand in front of the one text of a model, and this {shape_of_model} model reads two "
            "inputs, reads them into a latent array, or reads no tokens: leave virtual_tokens out; LoRA and prefix tuning "
            "(virtual_tokens of the attention) need no place in a text"
        )
    if mtp is not None:
        raise ValueError("virtual_tokens: predictions of later tokens know no vectors in front of a text: leave mtp out")
