"""Phi: small parallel GPTs (1, 1.5, 2), Llamas with or without a window (3, 4), block-sparse Phi-3-small, Phi-3.5-MoE."""

from __future__ import annotations

from functools import partial
from math import log

from anyformer.catalogue.entry import Entry
from anyformer.catalogue.mistral import mistral
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    BlockWindow,
    Causal,
    Embedding,
    Experts,
    FeedForward,
    Head,
    LayerNorm,
    LongRoPE,
    Projection,
    Rotary,
    Router,
    Score,
    SparseMixer,
    VerticalStride,
    parallel,
    pre_norm,
)


def phi(*, width: int, depth: int, heads: int, rotated: float, vocab: int = 51_200) -> Architecture:
    """Gunasekar et al. 2023 (arXiv 2306.11644) and Li et al. 2023 (2309.05463): parallel, one norm, a head with a bias."""
    norm = LayerNorm(eps=1e-5)
    block = parallel(
        norm,
        Attention(heads=heads, project=Projection(bias=("query", "key", "value", "output")), place=Rotary(fraction=rotated)),
        FeedForward(width=4 * width, activation="gelu_tanh", gated=False, bias=("up", "down")),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm, head=Head(bias=True))


def phi3_small(*, width: int, depth: int, heads: int, kv_heads: int, ffn: int, vocab: int) -> Architecture:
    """Abdin et al. 2024 (arXiv 2404.14219), section 2: alternating block-sparse and dense layers, a clamped gated GELU, muP.

    Sparse layers see the last 16 blocks of 64 tokens and every eighth block before.
    """
    norm = LayerNorm(eps=1e-5)
    sparse = Causal() & (BlockWindow(block=64, count=16) | VerticalStride(block=64, stride=8))
    feedforward = FeedForward(
        width=ffn, activation="quick_gelu", gated=True, bias=("gate", "up", "down"), clamp=20.0, up_offset=1.0
    )
    blocks = [
        pre_norm(
            norm,
            Attention(
                heads=heads,
                kv_heads=kv_heads,
                mask=mask,
                project=Projection(bias=("query", "key", "value", "output")),
                place=Rotary(theta=1_000_000.0),
                score=Score(scale=heads / width),
            ),
            feedforward,
        )
        for mask in (sparse, Causal())
    ]
    return decoder_only(
        Embedding(vocab=vocab, scale=10.0),
        width,
        blocks * (depth // 2),
        names=Named(sparse=blocks[0], dense=blocks[1]),
        final_norm=norm,
        head=Head(tied=True, scale=1 / 8),
    )


def phi_moe(
    *, width: int, depth: int, heads: int, kv_heads: int, experts: int, chosen: int, expert: int, vocab: int
) -> Architecture:
    """Abdin et al. 2024 (arXiv 2404.14219), section 5: LayerNorm, biases, experts drawn in training among the best."""
    norm = LayerNorm(eps=1e-5)
    block = pre_norm(
        norm,
        Attention(heads=heads, kv_heads=kv_heads, project=Projection(bias=("query", "key", "value", "output")), place=Rotary()),
        Experts(experts=experts, chosen=chosen, width=expert, router=Router(choice=SparseMixer(margin=0.02))),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm, head=Head(bias=True))


# The released factors, which the waves of the 48 pairs are divided by.
_SHORT_35 = (
    1.0, 1.02, 1.03, 1.03, 1.05, 1.05, 1.05, 1.05, 1.05, 1.07, 1.1, 1.11, 1.16, 1.16, 1.17, 1.29, 1.34, 1.68, 1.79, 1.82, 1.85,
    1.88, 1.91, 1.94, 1.99, 2.02, 2.02, 2.02, 2.02, 2.02, 2.02, 2.03, 2.03, 2.03, 2.03, 2.03, 2.03, 2.03, 2.03, 2.03, 2.08,
    2.09, 2.19, 2.22, 2.59, 2.73, 2.75, 2.84,
)  # fmt: skip
_LONG_35 = (
    1.08, 1.11, 1.14, 1.34, 1.59, 1.6, 1.62, 2.62, 3.23, 3.23, 4.79, 7.4, 7.7, 9.09, 12.2, 17.67, 24.46, 28.57, 30.42, 30.84,
    32.59, 32.93, 42.32, 44.96, 50.34, 50.45, 57.55, 57.93, 58.21, 60.14, 62.61, 62.62, 62.71, 63.14, 63.14, 63.77, 63.93,
    63.96, 63.97, 64.03, 64.07, 64.08, 64.12, 64.41, 64.48, 64.51, 64.53, 64.84,
)  # fmt: skip
_LONG_4 = (
    1.0, 1.118320672, 1.250641126, 1.398617824, 1.564103225, 1.74916897, 1.956131817, 2.187582649, 2.446418898, 2.735880826,
    3.059592084, 3.421605075, 3.826451687, 4.279200023, 4.785517845, 5.351743533, 5.984965424, 6.693110555, 7.485043894,
    8.370679318, 9.36110372, 10.4687158, 11.70738129, 13.09260651, 14.64173252, 16.37415215, 18.31155283, 20.47818807,
    22.90118105, 25.61086418, 28.64115884, 32.03, 32.1, 32.13, 32.23, 32.6, 32.61, 32.64, 32.66, 32.7, 32.71, 32.93, 32.97,
    33.28, 33.49, 33.5, 44.16, 47.77,
)  # fmt: skip
_FACTOR = (1 + log(131_072 / 4096) / log(4096)) ** 0.5
_LONGROPE_35 = LongRoPE(short=_SHORT_35, long=_LONG_35, trained=4096, attention_factor=_FACTOR)
_LONGROPE_4 = LongRoPE(short=(1.0,) * 48, long=_LONG_4, trained=4096, attention_factor=_FACTOR)
_PHI_3 = partial(mistral, head_width=None, rotary=Rotary())
_MINI = partial(_PHI_3, width=3072, depth=32, heads=32, kv_heads=32, ffn=8192, vocab=32_064)
_PAPER_3 = "arXiv 2404.14219, section 2; released configuration Phi-3-{}-instruct"
_SMALL_STAND_IN = "the vertical blocks of a sparse layer are shifted from head to head: here all heads see those of the first"

ENTRIES = (
    Entry("phi-1", 2023, "parallel, one norm", "arXiv 2306.11644, section 2.3; released configuration phi-1",
          partial(phi, width=2048, depth=24, heads=32, rotated=0.5)),
    Entry("phi-1.5", 2023, "parallel, one norm", "arXiv 2309.05463, section 2.1; released configuration phi-1_5",
          partial(phi, width=2048, depth=24, heads=32, rotated=0.5)),
    Entry("phi-2", 2023, "parallel, one norm", "released configuration phi-2",
          partial(phi, width=2560, depth=32, heads=32, rotated=0.4)),
    # The released sliding_window of 2047 counts the tokens before the query.
    Entry("phi-3-mini", 2024, "a Llama with a window of 2048", _PAPER_3.format("mini-4k"), partial(_MINI, window=2048)),
    Entry("phi-3-small", 2024, "alternating block-sparse and dense layers", _PAPER_3.format("small-8k"),
          partial(phi3_small, width=4096, depth=32, heads=32, kv_heads=8, ffn=14_336, vocab=100_352), _SMALL_STAND_IN),
    Entry("phi-3-medium", 2024, "a Llama with a window of 2048", _PAPER_3.format("medium-4k"),
          partial(_PHI_3, width=5120, depth=40, heads=40, kv_heads=10, ffn=17_920, vocab=32_064, window=2048)),
    Entry("phi-3.5-mini", 2024, "128k tokens by LongRoPE", "released configuration Phi-3.5-mini-instruct",
          partial(_MINI, rotary=Rotary(scaling=_LONGROPE_35))),
    Entry("phi-3.5-moe", 2024, "2 of 16 experts by SparseMixer",
          "arXiv 2404.14219, section 5; released configuration Phi-3.5-MoE-instruct",
          partial(phi_moe, width=4096, depth=32, heads=32, kv_heads=8, experts=16, chosen=2, expert=6400, vocab=32_064),
          "the factors of LongRoPE, which stretch 4k tokens to 128k, are left out"),
    Entry("phi-4", 2024, "a Llama", "arXiv 2412.08905, section 3; released configuration phi-4",
          partial(_PHI_3, width=5120, depth=40, heads=40, kv_heads=10, ffn=17_920, vocab=100_352,
                  rotary=Rotary(theta=250_000.0))),
    Entry("phi-4-mini", 2025, "three quarters of each head rotated, 128k tokens by LongRoPE",
          "arXiv 2503.01743, section 2; released configuration Phi-4-mini-instruct",
          partial(_PHI_3, width=3072, depth=32, heads=24, kv_heads=8, ffn=8192, vocab=200_064, tied=True,
                  rotary=Rotary(fraction=0.75, scaling=_LONGROPE_4))),
)  # fmt: skip
