"""Checks of an architecture: that its decoder has what it reads, and what it may carry beside its stacks."""

from __future__ import annotations

from typing import Literal

from anyformer.parts.attention.latents import Latents
from anyformer.parts.call.shared import SOURCE
from anyformer.parts.embedding.embedding import Embedding, Input
from anyformer.parts.images.encoder import ImageEncoder
from anyformer.parts.images.sound import SoundEncoder
from anyformer.parts.layers.multi_token import MultiToken
from anyformer.parts.layers.stack import Stack


def check_sources(
    encoder: Stack | None,
    decoder: Stack | None,
    latents: Latents | None,
    source: Literal["attended", "prefix"],
    *,
    two_inputs: bool,
) -> None:
    """Refuse stacks that lack a source to read, or a source that no stack reads."""
    if encoder is None and decoder is None:
        raise ValueError("needs an encoder, a decoder or both")
    if encoder is not None and SOURCE in encoder.reads:
        raise ValueError("encoder: cross-attention belongs into a decoder; an encoder has no other sequence to read")
    reads = decoder is not None and SOURCE in decoder.reads
    if latents is not None and not reads:
        raise ValueError("latents: a decoder with cross-attention must let them read the input")
    if source == "prefix" and not two_inputs:
        raise ValueError("source = 'prefix' needs a source: an encoder, or a decoder_embedding for the target")
    if source == "prefix" and reads:
        raise ValueError("source = 'prefix' already puts the source before the target: take cross-attention out")
    if source == "attended" and two_inputs and not reads:
        raise ValueError("decoder: no layer reads the source: give one cross-attention, or set source = 'prefix'")
    if reads and not two_inputs and latents is None:
        raise ValueError(
            "decoder: cross-attention needs an encoder to read from, latents that read the input, "
            "or a decoder_embedding, so that the input is the source"
        )


def check_source_width(decoder: Stack | None, width: int, embedding: Input, embedded: int, *, read_only: bool) -> None:
    """Refuse a source of another number of features than those that read it, or an input of another number than the stream.

    `embedded`: features that the input is to give; `read_only`: whether it is a source that cross-attention alone reads.
    """
    given = embedding.given(embedded)
    if given != embedded and not read_only:
        raise ValueError(f"embedding gives {given} features, and the stream has {width}: {embedding.fitting(width)}")
    source = given if read_only else width
    blocks = {} if decoder is None else decoder.variants
    for name, block in blocks.items():
        for sublayer in block.sublayers:
            if SOURCE in sublayer.reads and sublayer.source_features(width) != source:
                raise ValueError(
                    f"decoder.{name}: cross-attention reads {sublayer.source_features(width)} features of a source that has "
                    f"{source}: set source_width"
                )


def check_tables(embedding: Input, second: Embedding | None, *, two_inputs: bool, in_front: bool) -> None:
    """Refuse a target without a table of tokens, a second table without a second input, and coordinates of patches that stand
    `in_front` of a text."""
    if second is not None and not two_inputs:
        raise ValueError("decoder_embedding: only a decoder that has a source has a second table")
    if two_inputs and (second or embedding).symbols is None:
        raise ValueError(f"the target is text, and embedding reads {embedding.kind}: set decoder_embedding")
    if embedding.has_axes and in_front:
        raise ValueError(
            "embedding.coordinates: in front of a text patches are counted as its tokens: leave them out, or set an encoder"
        )


def check_towers(
    images: ImageEncoder | None, audio: SoundEncoder | None, text: Stack, *, mixed: bool, predicts_later: bool
) -> None:
    """Refuse images or sound among the tokens of a text that cannot take them.

    `mixed`: whether there is not one text of tokens alone; `predicts_later`: whether later tokens are predicted.
    """
    for name, tower in (("images", images), ("audio", audio)):
        if tower is not None:
            _check_among(name, mixed=mixed, predicts_later=predicts_later)
    if images is not None:
        images.check_text(text)
        if audio is not None and images.token in (audio.token, 0):
            raise ValueError(
                f"images.token = {images.token}, audio.token = {audio.token}: give images a token of their own, above 0"
            )


def _check_among(name: str, *, mixed: bool, predicts_later: bool) -> None:
    if mixed:
        raise ValueError(
            f"{name}: stand among the tokens of one text, and this model reads two inputs, reads them into a latent array, "
            f"reads no tokens, or has virtual_tokens in front of its text: leave {name} out"
        )
    if predicts_later:
        raise ValueError(f"{name}: predictions of later tokens (mtp) know no tokens that stand for {name}: leave mtp out")


def check_mtp(mtp: MultiToken, decoder: Stack | None, width: int, narrow: int) -> None:
    """Refuse predictions of later tokens without a `decoder` of one text with logits, or of embeddings of another width."""
    if decoder is None:
        raise ValueError("mtp: a decoder of one text, with logits, predicts later tokens; this model is none: leave mtp out")
    if narrow != width:
        raise ValueError(f"mtp: reads embeddings of D = {width} features, and embedding_width is {narrow}")
    if decoder.final_modulation is not None:
        raise ValueError("mtp: reads the stream behind the final norm, which final_modulation changes: leave one of them out")
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
