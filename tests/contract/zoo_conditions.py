"""Tiny architectures whose layers are modulated by a condition."""

from __future__ import annotations

from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only, encoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    Branch,
    Causal,
    Condition,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    Modulation,
    Patches,
    RMSNorm,
    Rotary,
    SinusoidalGrid,
    Step,
)
from anyformer.parts.sublayer import Sublayer
from anyformer.testing.around import LOUD, VOCAB, WIDTH

PLAIN = LayerNorm(gain="none", bias=False)
FEED = FeedForward(width=20, activation="gelu_tanh", gated=False, bias=("up", "down"))


def modulated(*sublayers: Sublayer, gate: bool = True, after: RMSNorm | None = None) -> Block:
    """A pre-norm block with a modulation of every branch."""
    own = Modulation(gate=gate)
    return Block(
        steps=tuple(
            Step(branches=Named({each.kind: Branch(norm_before=PLAIN, sublayer=each, norm_after=after, modulation=own)}))
            for each in sublayers
        )
    )


CONDITIONED: dict[str, Architecture] = {
    "diffusion_transformer": encoder_only(
        Patches(size=2, channels=1),
        WIDTH,
        [modulated(Attention(heads=4, mask=Bidirectional()), FEED)] * 2,
        position=SinusoidalGrid(columns=2, length=64, theta=100.0),
        final_norm=PLAIN,
        final_modulation=Modulation(gate=False),
        condition=Condition(frequencies=6, theta=50.0, time_scale=10.0, classes=3),
        head=Head(outputs=4, bias=True),
        initialisation=LOUD,
    ),
}
MODULATED_DECODERS: dict[str, Architecture] = {
    "modulated_decoder": decoder_only(
        Embedding(vocab=VOCAB),
        WIDTH,
        [
            modulated(Attention(heads=4, mask=Causal(), place=Rotary()), gate=False, after=RMSNorm()),
            modulated(FEED),
        ],
        condition=Condition(frequencies=4),
        head=Head(),
        initialisation=LOUD,
    ),
}
