"""Text of sound: Moonshine, which reads waves, and language models with sounds among their tokens."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.catalogue.llama import llama
from anyformer.catalogue.qwen import qwen
from anyformer.model import Architecture, encoder_decoder
from anyformer.parts import (
    Attention,
    AudioFrames,
    AveragedProjector,
    Bidirectional,
    CrossAttention,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    LearnedPosition,
    Projection,
    Rotary,
    RowNorm,
    SideBySideProjector,
    SoundTower,
    WaveLayer,
    Waves,
    pre_norm,
    stack,
)


def moonshine(*, width: int, depth: int) -> Architecture:
    """Jeffries et al. 2024 (arXiv 2410.15608), section 3.1: 8 heads, FFN 4 D, 0.9 of a head turned, the decoder gated."""
    norm, turned = LayerNorm(bias=False), Rotary(fraction=0.9, pairing="adjacent")
    first = WaveLayer(
        kernel=127,
        stride=64,
        channels=width,
        activation="tanh",
        row_norm=RowNorm(groups=1),
        row_norm_at="after_activation",
    )
    second, third = WaveLayer(kernel=7, stride=3, channels=2 * width, bias=True), WaveLayer(kernel=3, stride=2, bias=True)
    heads = Attention(heads=8, place=turned)
    plain = FeedForward(width=4 * width, activation="gelu", gated=False, bias=("up", "down"))
    gated = FeedForward(width=4 * width, activation="silu", bias=("gate", "up", "down"))
    return encoder_decoder(
        Waves(layers=(first, second, third)),
        width,
        stack([pre_norm(norm, heads.but(mask=Bidirectional()), plain)] * depth, final_norm=norm),
        stack([pre_norm(norm, heads, CrossAttention(heads=8), gated)] * depth, final_norm=norm),
        decoder_embedding=Embedding(vocab=32_768),
        head=Head(tied=True),
    )


def whisper_tower(token: int, projector: AveragedProjector | SideBySideProjector, *, normed: bool) -> SoundTower:
    """The encoder of Whisper large v3 (arXiv 2212.04356): 30 s of 128 bands, positions as a table; `normed`: its last norm."""
    norm = LayerNorm()
    block = pre_norm(
        norm,
        Attention(heads=20, mask=Bidirectional(), project=Projection(bias=("query", "value", "output"))),
        FeedForward(width=5120, activation="gelu", gated=False, bias=("up", "down")),
    )
    layers = stack([block] * 32, position=LearnedPosition(length=1500), final_norm=norm if normed else None)
    return SoundTower(
        token=token, sound=3000, width=1280, embedding=AudioFrames(features=128), stack=layers, projector=projector
    )


def qwen2_audio() -> Architecture:
    """Chu et al. 2024 (arXiv 2407.10759): Qwen-7B with Whisper's encoder, a token for every 40 ms."""
    text = qwen(width=4096, depth=32, heads=32, kv_heads=32, ffn=11_008, vocab=156_032, theta=10_000.0, eps=1e-5)
    return text.but(audio=whisper_tower(151_646, AveragedProjector(norm=LayerNorm()), normed=False))


def voxtral_mini() -> Architecture:
    """Liu et al. 2025 (arXiv 2507.13264): Ministral 3B with Whisper's encoder, a token for every 80 ms."""
    text = llama(width=3072, depth=30, heads=32, kv_heads=8, ffn=8192, vocab=131_072, head_width=128, theta=100_000_000.0)
    return text.but(audio=whisper_tower(24, SideBySideProjector(bias=False), normed=True))


_WAVES = "speech to text, a position every 384 samples"
_TEXT = "a text model with 30 s of sound among its tokens"

ENTRIES = (
    Entry("moonshine-tiny", 2024, _WAVES, "arXiv 2410.15608, table 1; released configuration moonshine-tiny",
          partial(moonshine, width=288, depth=6), organisation="Useful Sensors"),
    Entry("moonshine-base", 2024, _WAVES, "arXiv 2410.15608, table 1; released configuration moonshine-base",
          partial(moonshine, width=416, depth=8), organisation="Useful Sensors"),
    Entry("qwen2-audio-7b", 2024, _TEXT, "arXiv 2407.10759; released configuration Qwen2-Audio-7B",
          qwen2_audio, organisation="Alibaba"),
    Entry("voxtral-mini-3b", 2025, _TEXT, "arXiv 2507.13264; released configuration Voxtral-Mini-3B-2507",
          voxtral_mini, organisation="Mistral AI"),
)  # fmt: skip
