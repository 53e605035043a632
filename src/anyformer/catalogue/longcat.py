"""Meituan's LongCat-Flash: two attentions in a layer, experts added behind both, of which a third compute nothing."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.deepseek import latent_attention
from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Block,
    Branch,
    Embedding,
    Experts,
    FeedForward,
    LatentAttention,
    RMSNorm,
    Router,
    ScoreCorrectionBias,
    Step,
    TopK,
)


def shortcut_experts(
    attention: LatentAttention, *, width: int, depth: int, ffn: int, experts: Experts, vocab: int
) -> Architecture:
    """arXiv 2509.01322, section 2: the experts read what the first network reads, and are added behind the second one.

    Without the module that predicts a second token, which transformers leaves out too.
    """
    norm, network = RMSNorm(eps=1e-5), FeedForward(width=ffn)
    block = Block(
        steps=(
            Step(branches=Named(latent_attention=Branch(norm_before=norm, sublayer=attention))),
            Step(
                norm_before=norm,
                branches=Named(experts=Branch(sublayer=experts, added="after_block"), feedforward=Branch(sublayer=network)),
            ),
            Step(branches=Named(second_attention=Branch(norm_before=norm, sublayer=attention))),
            Step(branches=Named(second_feedforward=Branch(norm_before=norm, sublayer=network))),
        )
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


_FLASH = partial(
    shortcut_experts,
    latent_attention(heads=64, q_rank=1536, theta=1e7, factor=1.0).but(aligned_to="width"),
    width=6144,
    depth=28,
    ffn=12_288,
    experts=Experts(
        experts=512,
        identity_experts=256,
        chosen=12,
        width=2048,
        router=Router(choice=TopK(correction=ScoreCorrectionBias()), scale=6.0),
    ),
    vocab=131_072,
)

ENTRIES = (
    Entry("longcat-flash", 2025, "two latent attentions in a layer, experts beside the second, 256 of 768 compute nothing",
          "arXiv 2509.01322, section 2; released configuration LongCat-Flash-Chat", _FLASH),
)  # fmt: skip
