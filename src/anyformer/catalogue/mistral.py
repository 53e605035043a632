"""Mistral and Mixtral: Llama's block with grouped queries, at first in a window, then with experts or latent attention."""

from __future__ import annotations

from functools import partial
from math import log

from anyformer.catalogue.deepseek import fine_experts
from anyformer.catalogue.entry import Entry
from anyformer.describe import Named, change
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Causal,
    DelayNorm,
    Embedding,
    Experts,
    FeedForward,
    Head,
    LatentAttention,
    LogTemperature,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    Window,
    YaRN,
    pre_norm,
)

_ROTARY = Rotary(theta=1_000_000.0)


def mistral(
    *,
    width: int,
    depth: int,
    heads: int,
    ffn: int,
    vocab: int,
    kv_heads: int = 8,
    head_width: int | None = 128,
    rotary: Rotary = _ROTARY,
    window: int | None = None,
    temperature: LogTemperature | None = None,
    tied: bool = False,
) -> Architecture:
    """Jiang et al. 2023 (arXiv 2310.06825): with `window` every layer attends to a window only."""
    norm = RMSNorm(eps=1e-5)
    attention = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=head_width,
        mask=Window(size=window) if window else Causal(),
        place=(rotary, temperature),
    )
    block = pre_norm(norm, attention, FeedForward(width=ffn, activation="silu", gated=True))
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm, head=Head(tied=tied))


def mixtral(
    *, width: int, depth: int, heads: int, expert: int, vocab: int, kv_heads: int = 8, experts: int = 8, chosen: int = 2
) -> Architecture:
    """Jiang et al. 2024 (arXiv 2401.04088): 2 of 8 experts in every layer, weighed by a softmax over the two."""
    norm = RMSNorm(eps=1e-5)
    block = pre_norm(
        norm,
        Attention(heads=heads, kv_heads=kv_heads, place=_ROTARY),
        Experts(experts=experts, chosen=chosen, width=expert, router=Router(renormalise=Renormalise(eps=0.0))),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


def ministral() -> Architecture:
    """Mistral AI 2024: a global layer, then three that see 32,768 tokens."""
    norm = RMSNorm(eps=1e-5)
    attention = Attention(heads=32, kv_heads=8, head_width=128, place=Rotary(theta=100_000_000.0))
    network = FeedForward(width=12_288, activation="silu", gated=True)
    full, local = (pre_norm(norm, attention.but(mask=mask), network) for mask in (Causal(), Window(size=32_768)))
    names: Named[Block] = Named(full=full, local=local)
    return decoder_only(Embedding(vocab=131_072), 4096, [full, local, local, local] * 9, names=names, final_norm=norm)


def mistral4() -> Architecture:
    """Mistral AI 2026: latent attention, 4 of 128 fine experts and a shared one in every layer.

    YaRN stretches 8,192 positions by 128, scores times (0.1 ln(128) + 1)^2; queries warm up with position.
    """
    norm = RMSNorm(eps=1e-6)
    latent = LatentAttention(
        heads=32,
        kv_rank=256,
        q_rank=1024,
        nope_width=64,
        rope_width=64,
        value_width=128,
        norm=norm,
        rotary=Rotary(pairing="adjacent", scaling=YaRN(factor=128.0, trained=8192, attention_factor=1.0)),
        scale=128**-0.5 * (0.1 * log(128) + 1) ** 2,
        temperature=LogTemperature(shift=0),
    )
    routed = fine_experts(experts=128, chosen=4, width=2048, shared=1, router=Router(renormalise=Renormalise(eps=1e-20)))
    block = pre_norm(norm, latent, routed)
    return decoder_only(Embedding(vocab=131_072), 4096, [block] * 36, final_norm=norm)


def voxtral_realtime() -> Architecture:
    """Mistral AI 2026: the text model, which writes while sound comes in; norms know how many tokens it may wait."""
    made = mistral(width=3072, depth=26, heads=32, ffn=9216, vocab=131_072, window=8192, tied=True)
    return change(made, "decoder.layer.feedforward.norm_before", DelayNorm(norm=RMSNorm(eps=1e-5)))


_7B = partial(mistral, width=4096, depth=32, heads=32, ffn=14_336)
_22B = partial(mistral, width=6144, depth=56, heads=48, ffn=16_384, vocab=32_768)
_MINISTRAL_3 = partial(
    mistral,
    vocab=131_072,
    rotary=Rotary(theta=1_000_000.0, scaling=YaRN(factor=16.0, trained=16_384, attention_factor=1.0)),
    temperature=LogTemperature(strength=0.1, span=16_384, shift=0),
)
_PAPER = "arXiv 2310.06825, table 1"
_MIXTRAL = "arXiv 2401.04088, table 1"
_RELEASE = "released configuration {}"

ENTRIES = (
    Entry("mistral-7b-v0.1", 2023, "grouped queries, a window of 4096", _PAPER,
          partial(_7B, vocab=32_000, rotary=Rotary(theta=10_000.0), window=4096)),
    Entry("mistral-7b-v0.2", 2024, "no window, theta 1,000,000", _RELEASE.format("Mistral-7B-v0.2"),
          partial(_7B, vocab=32_000)),
    Entry("mistral-7b-v0.3", 2024, "as v0.2, larger vocabulary", _RELEASE.format("Mistral-7B-v0.3"),
          partial(_7B, vocab=32_768)),
    Entry("mixtral-8x7b", 2024, "2 of 8 experts", _MIXTRAL,
          partial(mixtral, width=4096, depth=32, heads=32, expert=14_336, vocab=32_000)),
    Entry("mixtral-8x22b", 2024, "2 of 8 experts", _RELEASE.format("Mixtral-8x22B-v0.1"),
          partial(mixtral, width=6144, depth=56, heads=48, expert=16_384, vocab=32_768)),
    Entry("codestral-22b", 2024, "dense", _RELEASE.format("Codestral-22B-v0.1"), _22B),
    Entry("mistral-nemo-12b", 2024, "heads narrower than D / H", _RELEASE.format("Mistral-Nemo-Base-2407"),
          partial(mistral, width=5120, depth=40, heads=32, ffn=14_336, vocab=131_072)),
    Entry("mistral-large-123b", 2024, "dense", _RELEASE.format("Mistral-Large-Instruct-2407"),
          partial(mistral, width=12_288, depth=88, heads=96, ffn=28_672, vocab=32_768)),
    Entry("mistral-small-22b", 2024, "dense", _RELEASE.format("Mistral-Small-Instruct-2409"), _22B),
    Entry("mistral-small-24b", 2025, "wide and shallow", _RELEASE.format("Mistral-Small-24B-Base-2501"),
          partial(mistral, width=5120, depth=40, heads=32, ffn=32_768, vocab=131_072,
                  rotary=Rotary(theta=100_000_000.0))),
    Entry("ministral-3-8b", 2025, "256k tokens by YaRN, query temperature that grows with position",
          _RELEASE.format("Ministral-3-8B-Base-2512") + ", its text model",
          partial(_MINISTRAL_3, width=4096, depth=34, heads=32, ffn=14_336)),
    Entry("ministral-8b", 2024, "three local layers to one global", _RELEASE.format("Ministral-8B-Instruct-2410"), ministral),
    Entry("voxtral-mini-4b-realtime", 2026, "norms by the delay between sound and text; the text model",
          "transformers 5.23, defaults of VoxtralRealtimeConfig (mistralai/Voxtral-Mini-4B-Realtime-2602)", voxtral_realtime),
    Entry("mistral-small-4-119b", 2026, "latent attention, 4 of 128 experts and a shared one, query temperature",
          "transformers 5.23, defaults of Mistral4Config (mistralai/Mistral-Small-4-119B-2603)", mistral4),
)  # fmt: skip
