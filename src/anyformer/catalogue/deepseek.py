"""DeepSeek: a deep Llama, fine experts beside shared ones, latent attention, and routing by groups and by correction."""

from __future__ import annotations

from functools import partial
from math import log
from typing import Any, Literal

from anyformer.catalogue.entry import Entry
from anyformer.catalogue.llama import llama
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Embedding,
    Experts,
    FeedForward,
    Groups,
    Indexer,
    LatentAttention,
    LayerNorm,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    ScoreCorrectionBias,
    SequentialPrediction,
    SharedExpert,
    TopK,
    YaRN,
    pre_norm,
)
from anyformer.parts.sublayer import Sublayer

NORM = RMSNorm(eps=1e-6)


def dense_then_experts(
    attention: Sublayer,
    *,
    width: int,
    depth: int,
    dense: int,
    ffn: int,
    experts: Experts,
    vocab: int,
    norm: RMSNorm = NORM,
    later: int = 0,
) -> Architecture:
    """`dense` layers with a feed-forward network, all others with experts; `later`: tokens predicted after the next one."""
    first, routed = pre_norm(norm, attention, FeedForward(width=ffn)), pre_norm(norm, attention, experts)
    layers = [first] * dense + [routed] * (depth - dense)
    mtp = SequentialPrediction(norm=norm, depth=later) if later else None
    names: Named[Block] = Named(dense=first, routed=routed)
    return decoder_only(Embedding(vocab=vocab), width, layers, names=names, final_norm=norm, mtp=mtp)


def fine_experts(*, experts: int, chosen: int, width: int, shared: int, router: Router) -> Experts:
    """Dai et al. 2024 (arXiv 2401.06066): many narrow experts, and `shared` more that all tokens pass, built as a wide one."""
    everyone = SharedExpert(feedforward=FeedForward(width=shared * width))
    return Experts(experts=experts, chosen=chosen, width=width, router=router, shared=everyone)


def latent_attention(
    *,
    heads: int,
    q_rank: int | None,
    theta: float = 10_000.0,
    factor: float = 40.0,
    temperature: float = 1.0,
    beta_fast: float = 32.0,
    rotate_in: Literal["input", "fp32"] = "input",
) -> LatentAttention:
    """arXiv 2405.04434, section 2.1, with YaRN: the waves as they are, scores times (0.1 * temperature * ln(factor) + 1)^2.

    Rotated as transformers rotates: in version 2 in fp32, from version 3 on in the type of the queries.
    """
    scaling = YaRN(factor=factor, trained=4096, beta_fast=beta_fast, attention_factor=1.0) if factor > 1 else None
    return LatentAttention(
        heads=heads,
        kv_rank=512,
        q_rank=q_rank,
        nope_width=128,
        rope_width=64,
        value_width=128,
        norm=RMSNorm(eps=1e-6),
        rotary=Rotary(theta=theta, pairing="adjacent", rotate_in=rotate_in, scaling=scaling),
        scale=(128 + 64) ** -0.5 * (0.1 * temperature * log(factor) + 1) ** 2,
    )


def chosen_keys(attention: LatentAttention, *, heads: int, pairing: Literal["halves", "adjacent"]) -> LatentAttention:
    """arXiv 2512.02556, section 2.1: 2048 keys of each query, by index heads of 128 features, of which half are rotated."""
    assert attention.rotary is not None, "whose waves are the index's too"
    rotary = attention.rotary.but(fraction=0.5, pairing=pairing)
    return attention.but(choice=Indexer(keep=2048, heads=heads, head_width=128, norm=LayerNorm(eps=1e-6), rotary=rotary))


def by_correction(*, scale: float, groups: Groups | None = None) -> Router:
    """arXiv 2412.19437, section 2.1.2: sigmoid scores, a correction per expert for the choice only, weights times `scale`."""
    choice = TopK(groups=groups, correction=ScoreCorrectionBias(rate=0.001))
    return Router(score="sigmoid", choice=choice, renormalise=Renormalise(eps=1e-20), scale=scale)


_MOE_16B = partial(
    dense_then_experts,
    Attention(heads=16, place=Rotary()),
    width=2048,
    depth=28,
    dense=1,
    ffn=10_944,
    experts=fine_experts(experts=64, chosen=6, width=1408, shared=2, router=Router()),
    vocab=102_400,
)
_V2_LITE = partial(
    dense_then_experts,
    latent_attention(heads=16, q_rank=None, temperature=0.707, rotate_in="fp32"),
    width=2048,
    depth=27,
    dense=1,
    ffn=10_944,
    experts=fine_experts(experts=64, chosen=6, width=1408, shared=2, router=Router()),
    vocab=102_400,
)
_V2 = partial(
    dense_then_experts,
    latent_attention(heads=128, q_rank=1536, temperature=0.707, rotate_in="fp32"),
    width=5120,
    depth=60,
    dense=1,
    ffn=12_288,
    experts=fine_experts(
        experts=160,
        chosen=6,
        width=1536,
        shared=2,
        router=Router(choice=TopK(groups=Groups(count=8, keep=3, score="max")), scale=16.0),
    ),
    vocab=102_400,
)
_V3_LATENT = latent_attention(heads=128, q_rank=1536)
_V3_SIZES: Any = partial(
    dense_then_experts,
    width=7168,
    depth=61,
    dense=3,
    ffn=18_432,
    experts=fine_experts(
        experts=256,
        chosen=8,
        width=2048,
        shared=1,
        router=by_correction(scale=2.5, groups=Groups(count=8, keep=4, score="top_2")),
    ),
    vocab=129_280,
    later=1,
)
_V3 = partial(_V3_SIZES, _V3_LATENT)
_LLM = partial(llama, vocab=102_400, eps=1e-6)
_PAPER_LLM = "arXiv 2401.02954, table 2"
_WHAT_V3 = "latent attention, 8 of 256 experts by sigmoid, correction and groups; one more token predicted in training"

ENTRIES = (
    Entry("deepseek-llm-7b", 2024, "a Llama", _PAPER_LLM,
          partial(_LLM, width=4096, depth=30, heads=32, kv_heads=32, ffn=11_008)),
    Entry("deepseek-llm-67b", 2024, "a deep Llama", _PAPER_LLM,
          partial(_LLM, width=8192, depth=95, heads=64, kv_heads=8, ffn=22_016)),
    Entry("deepseek-moe-16b", 2024, "6 of 64 fine experts and two shared ones",
          "arXiv 2401.06066, section 5.1; released configuration deepseek-moe-16b-base", _MOE_16B),
    Entry("deepseek-v2-lite", 2024, "latent attention, 6 of 64 fine experts and two shared ones",
          "deepseek-ai/DeepSeek-V3, inference/configs/config_16B.json; released configuration DeepSeek-V2-Lite", _V2_LITE),
    Entry("deepseek-v2", 2024, "latent attention, 6 of 160 fine experts from three groups of eight",
          "arXiv 2405.04434, section 3.1.2; deepseek-ai/DeepSeek-V3, inference/configs/config_236B.json", _V2),
    Entry("deepseek-v3", 2024, _WHAT_V3,
          "arXiv 2412.19437, sections 2.2 and 4.2; deepseek-ai/DeepSeek-V3, inference/configs/config_671B.json", _V3),
    Entry("deepseek-r1", 2025, "DeepSeek-V3, trained further", "arXiv 2501.12948; released configuration DeepSeek-R1", _V3),
    Entry("deepseek-v3.2", 2025, "DeepSeek-V3 with 2048 keys per query, chosen by an indexer in each layer",
          "arXiv 2512.02556, section 2.1; deepseek-ai/DeepSeek-V3.2-Exp, inference/config_671B_v3.2.json",
          partial(_V3_SIZES, chosen_keys(_V3_LATENT, heads=64, pairing="halves"))),
)  # fmt: skip
