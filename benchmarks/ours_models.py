"""The models of `benchmarks.cases` as this package describes them."""

from __future__ import annotations

from benchmarks.cases import Decoder, Training

from anyformer.catalogue.bert import bert
from anyformer.catalogue.gpt import gpt2
from anyformer.catalogue.llama import llama
from anyformer.catalogue.mistral import mixtral
from anyformer.catalogue.t5 import t5
from anyformer.describe import change
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Embedding, FeedForward, Head, LatentAttention, RMSNorm, Rotary, pre_norm


def decoder(sizes: Decoder) -> Architecture:
    """The description of a decoder."""
    shared = {"width": sizes.width, "depth": sizes.depth, "heads": sizes.heads, "vocab": sizes.vocab}
    if sizes.latents is not None:
        return latent(sizes)
    if sizes.experts > 1:
        made = mixtral(
            **shared, kv_heads=sizes.kv_heads, expert=sizes.ffn, experts=sizes.experts, chosen=sizes.chosen
        )  # fmt: skip
        made = change(made, "decoder.layer.attention.rotary.theta", sizes.theta)
        return made.but(head=Head(tied=True))
    return llama(**shared, kv_heads=sizes.kv_heads, ffn=sizes.ffn, theta=sizes.theta, tied=True)


def latent(sizes: Decoder) -> Architecture:
    """DeepSeek-V3's attention beside a network in every layer."""
    latents = sizes.latents
    assert latents is not None, "asked for latent attention"
    norm = RMSNorm(eps=1e-6)
    attention = LatentAttention(
        heads=sizes.heads, kv_rank=latents.kv_rank, q_rank=latents.q_rank, nope_width=latents.nope, rope_width=latents.rope,
        value_width=latents.value, norm=norm, rotary=Rotary(theta=sizes.theta, pairing="adjacent"),
    )  # fmt: skip
    block = pre_norm(norm, attention, FeedForward(width=sizes.ffn))
    return decoder_only(Embedding(vocab=sizes.vocab), sizes.width, [block] * sizes.depth, final_norm=norm, head=Head(tied=True))


def trained(sizes: Training) -> Architecture:
    """The description of a model that is trained."""
    shared = {"width": sizes.width, "depth": sizes.depth, "heads": sizes.heads, "vocab": sizes.vocab}
    match sizes.kind:
        case "llama":
            return llama(**shared, kv_heads=sizes.heads, ffn=sizes.ffn, tied=sizes.tied)
        case "gpt2":
            return gpt2(**shared, length=sizes.length, activation="gelu", dropout=0.0)
        case "bert":
            return bert(**shared, ffn=sizes.ffn, dropout=0.0)
        case "t5":
            return t5(**shared, ffn=sizes.ffn, head_width=sizes.width // sizes.heads, dropout=0.0)
