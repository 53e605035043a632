"""Tiny architectures with a sparse dictionary, alone on activations and within a decoder."""

from __future__ import annotations

from anyformer.model import Architecture, decoder_only, dictionary_alone
from anyformer.parts import (
    Attention,
    BatchTopKCode,
    Dictionary,
    Embedding,
    GatedCode,
    Head,
    JumpReLUCode,
    MeanLength,
    ReLUCode,
    Revival,
    RMSNorm,
    Rotary,
    TopKCode,
    pre_norm,
)
from anyformer.testing.around import LOUD, VOCAB, WIDTH


def alone(dictionary: Dictionary) -> Architecture:
    """An autoencoder whose weights are as large as those of the other entries."""
    return dictionary_alone(dictionary, WIDTH).but(initialisation=LOUD)


def _within(*dictionaries: Dictionary) -> Architecture:
    attention = Attention(heads=4, place=Rotary())
    blocks = [pre_norm(RMSNorm(), attention, dictionary) for dictionary in dictionaries]
    return decoder_only(Embedding(vocab=VOCAB), WIDTH, blocks, final_norm=RMSNorm(), head=Head(), initialisation=LOUD)


DICTIONARIES = {
    "sae": alone(Dictionary(features=40)),
    "sae_top_k": alone(Dictionary(features=40, code=TopKCode(k=5), unit=True, revival=Revival(after=9, count=7))),
    "sae_jump_relu": alone(
        Dictionary(features=40, code=JumpReLUCode(threshold=0.2, bandwidth=0.3), length=MeanLength(batches=7))
    ),
    "transcoder_gated": alone(Dictionary(features=40, code=GatedCode(), centred=False, detached=True)),
    "crosscoder": alone(Dictionary(features=40, blocks=3, length=MeanLength(), code=ReLUCode())),
    "dictionaries_in_a_decoder": _within(
        Dictionary(features=30, code=BatchTopKCode(k=4.0, momentum=0.2)),
        Dictionary(features=30, code=JumpReLUCode(threshold=0.1), unit=True, revival=Revival()),
        Dictionary(features=30, code=GatedCode(), length=MeanLength()),
    ),
}
