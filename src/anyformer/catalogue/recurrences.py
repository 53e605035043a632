"""Recurrent language models of research, in blocks as of a Llama: Gated Slot Attention, MesaNet and Gated DeltaNet-2."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    ChannelDecay,
    Embedding,
    FeedForward,
    Gate,
    GatedDelta2,
    GatedSlotAttention,
    Head,
    MesaLayer,
    RMSNorm,
    Rotary,
    ShortConvolution,
    Window,
    pre_norm,
)

CONVOLUTION = ShortConvolution(kernel=4, activation="silu")


def gsa(*, width: int, heads: int, ffn: int, norm: RMSNorm, of_heads: RMSNorm, kv_heads: int | None = None) -> Architecture:
    """Zhang et al. 2024 (arXiv 2409.07146), section 4: 64 slots of each head, no positions; `of_heads` of all side by side."""
    mixer = GatedSlotAttention(heads=heads, kv_heads=kv_heads, key_width=width // heads, slots=64, norm=of_heads)
    block = pre_norm(norm, mixer, FeedForward(width=ffn))
    return decoder_only(Embedding(vocab=32_000), width, [block] * 32, final_norm=norm, head=Head())


def mesanet(*, width: int, depth: int, heads: int) -> Architecture:
    """von Oswald et al. 2025 (arXiv 2506.05233), appendix G: keys of 128, 30 iterations, networks of 3 D, bounded logits.

    What keeps tokens that are repeated from adding up to a matrix without an inverse, a factor of the forget gate that falls
    with beta^2, is left out.
    """
    norm = RMSNorm()
    mixer = MesaLayer(heads=heads, key_width=128, convolution=CONVOLUTION, norm=norm)
    block = pre_norm(norm, mixer, FeedForward(width=3 * width))
    embedding = Embedding(vocab=50_257, scale="sqrt_width")
    return decoder_only(embedding, width, [block] * depth, final_norm=norm, head=Head(tied=True, softcap=30.0))


def gated_delta_net_2(*, ffn: int, windows: bool) -> Architecture:
    """Hatamizadeh et al. 2026 (arXiv 2605.22791): 16 heads of 128.

    `windows`: every other layer attends, to 2,048 positions.
    """
    norm = RMSNorm(eps=1e-5)
    delta = GatedDelta2(
        heads=16,
        key_width=128,
        convolution=CONVOLUTION,
        decay=ChannelDecay(rank=128),
        norm=norm,
        gate=Gate(activation="silu", rank=128, bias=True),
    )
    attention = Attention(heads=18, place=Rotary(theta=10_000.0), mask=Window(size=2048))
    linear, local = (pre_norm(norm, mixer, FeedForward(width=ffn)) for mixer in (delta, attention))
    names: Named[Block] | None = Named(linear=linear, local=local) if windows else None
    layers = [linear, local] * 9 if windows else [linear] * 18
    return decoder_only(Embedding(vocab=32_000), 2304, layers, names=names, final_norm=norm, head=Head())


_GSA = "arXiv 2409.07146; released configuration fla-hub/gsa-{}"
_FLA, _MESA = "flash-linear-attention", "arXiv 2506.05233, appendix G.4"
_LEAST, _ERASING = "least squares at every token, by conjugate gradients", "a delta rule that erases and writes by feature"
_GDN2 = "arXiv 2605.22791; configuration {} of its reference code"

ENTRIES = (
    Entry("gsa-2.7b", 2024, "softmax over 64 slots of each head, which fade", _GSA.format("2.7B-100B"),
          partial(gsa, width=2560, heads=5, ffn=6912, norm=RMSNorm(eps=1e-6), of_heads=RMSNorm(eps=1e-6, gain="none")),
          organisation=_FLA),
    Entry("gsa-7b-mistral", 2024, "Mistral 7B with 64 slots of each head of keys for its attention",
          _GSA.format("7B-mistral-100B"),
          partial(gsa, width=4096, heads=32, kv_heads=8, ffn=14_336, norm=RMSNorm(eps=1e-5), of_heads=RMSNorm(eps=1e-5)),
          organisation=_FLA),
    *(Entry(f"mesanet-{size}", 2025, _LEAST, _MESA, partial(mesanet, width=width, depth=depth, heads=heads),
            organisation="Google")
      for size, width, depth, heads in (("140m", 768, 14, 6), ("440m", 1024, 28, 8), ("940m", 1536, 28, 12))),
    Entry("gdn2-1.3b", 2026, _ERASING, _GDN2.format("gdn2_1.3B"), partial(gated_delta_net_2, ffn=6208, windows=False),
          organisation="NVIDIA"),
    Entry("gdn2-swa-1.3b", 2026, _ERASING + ", a window in every other layer", _GDN2.format("swa_gdn2_1.3B"),
          partial(gated_delta_net_2, ffn=6784, windows=True), organisation="NVIDIA"),
)  # fmt: skip
