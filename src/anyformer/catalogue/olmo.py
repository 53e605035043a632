"""OLMo: norms without weights, then on the outputs of sublayers and on projections; with experts, or with delta layers."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    DeltaAttention,
    Embedding,
    Experts,
    FeedForward,
    Gate,
    Head,
    LayerNorm,
    Projection,
    QKNorm,
    RMSNorm,
    Rotary,
    ScalarDecay,
    ShortConvolution,
    Window,
    YaRN,
    output_norm,
    pre_norm,
)


def olmo(*, width: int, depth: int, heads: int, ffn: int, tied: bool, vocab: int = 50_304) -> Architecture:
    """Groeneveld et al. 2024 (arXiv 2402.00838), section 2.1: LayerNorm without gain and bias, no biases at all."""
    norm = LayerNorm(eps=1e-5, gain="none", bias=False)
    block = pre_norm(
        norm,
        Attention(heads=heads, place=Rotary(rotate_in="fp32")),
        FeedForward(width=ffn, activation="silu", gated=True),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm, head=Head(tied=tied))


def olmo2(
    *, width: int, depth: int, heads: int, ffn: int, kv_heads: int | None = None, theta: float = 500_000.0, vocab: int = 100_352
) -> Architecture:
    """OLMo et al. 2025 (arXiv 2501.00656), section 2.1: norms after sublayers only, whole projections of q and k normed."""
    norm = RMSNorm(eps=1e-6, cast="after_gain")
    attention = Attention(
        heads=heads,
        kv_heads=kv_heads,
        project=Projection(adjust=QKNorm(norm=norm, over="projection")),
        place=Rotary(theta=theta, rotate_in="fp32"),
    )
    block = output_norm(norm, attention, FeedForward(width=ffn, activation="silu", gated=True))
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


def olmo3(
    *, width: int, depth: int, heads: int, kv_heads: int, ffn: int, window: int = 4096, vocab: int = 100_278
) -> Architecture:
    """OLMo 3 (2025): OLMo 2 with three local layers to one global, whose positions alone are scaled by YaRN to 64k."""
    norm = RMSNorm(eps=1e-6, cast="after_gain")
    global_ = Attention(
        heads=heads,
        kv_heads=kv_heads,
        project=Projection(adjust=QKNorm(norm=norm, over="projection")),
        place=Rotary(theta=500_000.0, rotate_in="fp32", scaling=YaRN(factor=8.0, trained=8192)),
    )
    local = global_.but(rotary=Rotary(theta=500_000.0, rotate_in="fp32"), mask=Window(size=window))
    feedforward = FeedForward(width=ffn, activation="silu", gated=True)
    first, last = output_norm(norm, local, feedforward), output_norm(norm, global_, feedforward)
    return decoder_only(
        Embedding(vocab=vocab),
        width,
        [first, first, first, last] * (depth // 4),
        names=Named({"local": first, "global": last}),
        final_norm=norm,
    )


def olmoe(*, width: int, depth: int, heads: int, experts: int, chosen: int, expert: int, vocab: int = 50_304) -> Architecture:
    """Muennighoff et al. 2024 (arXiv 2409.02060), section 2: pre-norm, normed projections, 8 of 64 experts as they score."""
    norm = RMSNorm(eps=1e-5)
    block = pre_norm(
        norm,
        Attention(heads=heads, project=Projection(adjust=QKNorm(norm=norm, over="projection")), place=Rotary()),
        Experts(experts=experts, chosen=chosen, width=expert),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


def flex_olmo(*, width: int, depth: int, heads: int, ffn: int, experts: int, chosen: int) -> Architecture:
    """Shi et al. 2025 (arXiv 2507.07024), section 3: OLMo 2 whose experts are trained apart, each on the data of its owner."""
    norm = RMSNorm(eps=1e-6, cast="after_gain")
    attention = Attention(
        heads=heads,
        project=Projection(adjust=QKNorm(norm=norm, over="projection")),
        place=Rotary(theta=500_000.0, rotate_in="fp32"),
    )
    block = output_norm(norm, attention, Experts(experts=experts, chosen=chosen, width=ffn))
    return decoder_only(Embedding(vocab=100_352), width, [block] * depth, final_norm=norm)


def olmo_hybrid(*, width: int, depth: int, heads: int, ffn: int) -> Architecture:
    """Ai2 2026: three layers of gated delta net, normed before, to one of OLMo 3's attention, normed after; beta up to 2."""
    norm = RMSNorm(eps=1e-6, cast="after_gain")
    delta = DeltaAttention(
        heads=heads,
        key_width=96,
        value_width=192,
        convolution=ShortConvolution(kernel=4, activation="silu"),
        decay=ScalarDecay(),
        beta_scale=2.0,
        norm=RMSNorm(eps=1e-5),
        gate=Gate(activation="silu"),
    )
    attention = Attention(
        heads=heads,
        project=Projection(adjust=QKNorm(norm=norm, over="projection")),
        place=Rotary(theta=10_000.0, rotate_in="fp32"),
    )
    network = FeedForward(width=ffn, activation="silu", gated=True)
    linear, full = pre_norm(norm, delta, network), output_norm(norm, attention, network)
    layers = [linear, linear, linear, full] * (depth // 4)
    return decoder_only(Embedding(vocab=100_352), width, layers, names=Named(linear=linear, full=full), final_norm=norm)


_PAPER_1 = "arXiv 2402.00838, table 1; released configuration OLMo-{}-hf"
_PAPER_2 = "arXiv 2501.00656; released configuration OLMo-2-{}"
_RELEASE_3 = "released configuration Olmo-3-{}"
_WHAT_1 = "LayerNorm without weights"
_WHAT_2 = "norms on outputs, normed queries and keys"
_WHAT_3 = "as OLMo 2, three local layers to one global"

ENTRIES = (
    Entry("olmo-1b", 2024, _WHAT_1, _PAPER_1.format("1B"),
          partial(olmo, width=2048, depth=16, heads=16, ffn=8192, tied=True)),
    Entry("olmo-7b", 2024, _WHAT_1, _PAPER_1.format("7B"),
          partial(olmo, width=4096, depth=32, heads=32, ffn=11_008, tied=False)),
    Entry("olmoe-1b-7b", 2024, "8 of 64 small experts", "arXiv 2409.02060; released configuration OLMoE-1B-7B-0924",
          partial(olmoe, width=2048, depth=16, heads=16, experts=64, chosen=8, expert=1024)),
    Entry("olmo-2-7b", 2024, _WHAT_2, _PAPER_2.format("1124-7B"), partial(olmo2, width=4096, depth=32, heads=32, ffn=11_008),
          training=("z-loss",)),
    Entry("olmo-2-13b", 2024, _WHAT_2, _PAPER_2.format("1124-13B"), partial(olmo2, width=5120, depth=40, heads=40, ffn=13_824),
          training=("z-loss",)),
    Entry("olmo-2-32b", 2025, _WHAT_2, _PAPER_2.format("0325-32B"),
          partial(olmo2, width=5120, depth=64, heads=40, kv_heads=8, ffn=27_648), training=("z-loss",)),
    Entry("olmo-3-7b", 2025, _WHAT_3, _RELEASE_3.format("1025-7B"),
          partial(olmo3, width=4096, depth=32, heads=32, kv_heads=32, ffn=11_008)),
    Entry("olmo-3-32b", 2025, _WHAT_3, _RELEASE_3.format("1125-32B"),
          partial(olmo3, width=5120, depth=64, heads=40, kv_heads=8, ffn=27_648)),
    Entry("flex-olmo-7x7b", 2025, "5 of 7 experts, each trained apart",
          "arXiv 2507.07024, section 3; transformers 5.23, defaults of FlexOlmoConfig (allenai/FlexOlmo-7x7B-1T)",
          partial(flex_olmo, width=4096, depth=32, heads=32, ffn=11_008, experts=7, chosen=5)),
    Entry("olmo-hybrid-7b", 2026, "three gated delta layers to one of attention",
          "transformers 5.23, defaults of OlmoHybridConfig (allenai/Olmo-Hybrid-7B)",
          partial(olmo_hybrid, width=3840, depth=32, heads=30, ffn=11_008),
          "theta 10,000, as the defaults name none"),
)  # fmt: skip
