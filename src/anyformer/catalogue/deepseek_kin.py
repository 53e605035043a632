"""DeepSeek's parts in models of other makers: latent attention, or fine experts chosen by a correction, or both."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.deepseek import by_correction, chosen_keys, dense_then_experts, fine_experts, latent_attention
from anyformer.catalogue.entry import Entry
from anyformer.describe import Named, change
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Embedding,
    FeedForward,
    Gate,
    GatedNorm,
    Groups,
    Head,
    Indexer,
    LatentAttention,
    LayerNorm,
    Projection,
    QKNorm,
    RMSNorm,
    Rotary,
    Window,
    pre_norm,
)

NORM = RMSNorm(eps=1e-6)


def minicpm3(*, width: int, depth: int, heads: int, ffn: int, vocab: int) -> Architecture:
    """OpenBMB 2024: latent attention, and MiniCPM's factors (arXiv 2404.06395, section 3): branches times 1.4 / sqrt(depth).

    Embeddings times 12, logits divided by width / 256.
    """
    norm = RMSNorm(eps=1e-5)
    attention = LatentAttention(
        heads=heads,
        kv_rank=256,
        q_rank=768,
        nope_width=64,
        rope_width=32,
        value_width=64,
        norm=NORM,
        rotary=Rotary(theta=10_000.0),
    )
    block = pre_norm(norm, attention, FeedForward(width=ffn), multiplier=1.4 / depth**0.5)
    head = Head(tied=True, scale=256 / width)
    return decoder_only(Embedding(vocab=vocab, scale=12.0), width, [block] * depth, final_norm=norm, head=head)


def youtu(*, width: int, depth: int, heads: int, ffn: int, vocab: int) -> Architecture:
    """Tencent 2025 (arXiv 2512.24618), section 2: latent attention of DeepSeek-V3's ranks in a small dense model."""
    attention = latent_attention(heads=heads, q_rank=1536, theta=1_600_000.0, factor=1.0)
    block = pre_norm(NORM, attention, FeedForward(width=ffn))
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=NORM, head=Head(tied=True))


def a_x_k1(*, width: int, depth: int, heads: int, ffn: int, experts: int, chosen: int, expert: int, vocab: int) -> Architecture:
    """SKT 2026: DeepSeek-V3's block; a norm behind the experts too."""
    latent = latent_attention(heads=heads, q_rank=1536, factor=1.0)
    router = by_correction(scale=2.5, groups=Groups(count=8, keep=4, score="top_2"))
    routed = pre_norm(NORM, latent, fine_experts(experts=experts, chosen=chosen, width=expert, shared=1, router=router))
    attends, thinks = routed.steps
    branch = thinks.branches["experts"].but(norm_after=NORM)
    normed = routed.but(steps=(attends, thinks.but(branches=Named(experts=branch))))
    dense = pre_norm(NORM, latent, FeedForward(width=ffn))
    names: Named[Block] = Named(dense=dense, experts=normed)
    return decoder_only(Embedding(vocab=vocab), width, [dense] + [normed] * (depth - 1), names=names, final_norm=NORM)


def a_x_k2(*, width: int, depth: int, heads: int, ffn: int, experts: int, chosen: int, expert: int, vocab: int) -> Architecture:
    """SKT 2026: small latents, queries and a gate from both sides of their latent's norm, chosen keys, and gated norms."""
    rotary = Rotary(theta=10_000.0, pairing="adjacent")
    latent = LatentAttention(
        heads=heads, kv_rank=128, q_rank=384, nope_width=64, rope_width=32, value_width=64, norm=NORM, rotary=rotary,
        gate=Gate(), queries_from="both", gate_from="queries",
        choice=Indexer(
            keep=2048, heads=16, head_width=128, norm=LayerNorm(eps=1e-6), rotary=rotary.but(fraction=0.25, pairing="halves")
        ),
    )  # fmt: skip
    gated = GatedNorm(norm=NORM, rank=16)
    routed = fine_experts(experts=experts, chosen=chosen, width=expert, shared=1, router=by_correction(scale=2.5))
    dense = change(pre_norm(gated, latent, FeedForward(width=ffn)), "feedforward.norm_before", NORM)
    sparse = pre_norm(gated, latent, routed)
    names: Named[Block] = Named(dense=dense, experts=sparse)
    return decoder_only(Embedding(vocab=vocab), width, [dense] + [sparse] * (depth - 1), names=names, final_norm=NORM)


def dots3_note(*, width: int, depth: int, ffn: int, experts: int, chosen: int, expert: int, vocab: int) -> Architecture:
    """rednote 2026: chosen keys in every fourth layer, windows of 512 and wider latents in the others, normed keys, gates."""
    norm = RMSNorm(eps=1e-5)
    wide = LatentAttention(
        heads=128, kv_rank=512, q_rank=1024, nope_width=128, rope_width=64, value_width=128, norm=norm, rope_norm=norm,
        rotary=Rotary(theta=80_000_000.0, pairing="adjacent"), gate=Gate(per="head"), aligned_to="width",
    )  # fmt: skip
    local = wide.but(
        heads=64, kv_rank=1024, nope_width=192, rotary=Rotary(theta=50_000.0, pairing="adjacent"), mask=Window(size=512)
    )
    mixers = {"chosen": chosen_keys(wide, heads=64, pairing="adjacent"), "local": local}
    networks = {
        "dense": FeedForward(width=ffn),
        "experts": fine_experts(experts=experts, chosen=chosen, width=expert, shared=1, router=by_correction(scale=1.0)),
    }
    blocks = {(kind, mlp): pre_norm(norm, mixers[kind], networks[mlp]) for kind in mixers for mlp in networks}
    layers = [blocks["chosen" if i < 2 or i % 4 == 1 else "local", "experts" if i else "dense"] for i in range(depth)]
    called = {"first": ("chosen", "dense"), "chosen": ("chosen", "experts"), "local": ("local", "experts")}
    names: Named[Block] = Named({name: blocks[of] for name, of in called.items()})
    return decoder_only(Embedding(vocab=vocab), width, layers, names=names, final_norm=norm)


_DOTS = partial(
    dense_then_experts,
    Attention(heads=32, project=Projection(adjust=QKNorm(norm=RMSNorm(eps=1e-5))), place=Rotary(theta=10_000_000.0)),
    width=4096,
    depth=62,
    dense=1,
    ffn=10_944,
    experts=fine_experts(experts=128, chosen=6, width=1408, shared=2, router=by_correction(scale=2.5)),
    vocab=152_064,
    norm=RMSNorm(eps=1e-5),
)
_SOLAR = partial(
    dense_then_experts,
    Attention(heads=64, kv_heads=8, head_width=128, place=Rotary(theta=1_000_000.0)),
    width=4096,
    depth=48,
    dense=0,
    ffn=10_240,
    experts=fine_experts(experts=128, chosen=8, width=1280, shared=1, router=by_correction(scale=1.0)),
    vocab=196_608,
    norm=RMSNorm(eps=1e-5),
)

ENTRIES = (
    Entry("minicpm3-4b", 2024, "latent attention, factors on embeddings, branches and logits",
          "transformers 5.23, defaults of MiniCPM3Config (openbmb/MiniCPM3-4B)",
          partial(minicpm3, width=2560, depth=62, heads=40, ffn=6400, vocab=73_448), organisation="OpenBMB"),
    Entry("dots.llm1", 2025, "6 of 128 experts and two shared ones, normed heads",
          "arXiv 2506.05767, section 2; released configuration dots.llm1.base", _DOTS, organisation="rednote"),
    Entry("dots3-note", 2026, "chosen keys in every fourth layer, windows of 512 between, 8 of 256 experts",
          "transformers 5.23, defaults of Dots3NoteTextConfig (dots-studio/dots3-note-prev)",
          partial(dots3_note, width=5120, depth=46, ffn=13_824, experts=256, chosen=8, expert=1536, vocab=152_064),
          organisation="rednote"),
    Entry("youtu-llm-2b", 2025, "latent attention in a dense model, tied",
          "arXiv 2512.24618, section 2; transformers 5.23, defaults of YoutuConfig (tencent/Youtu-LLM-2B)",
          partial(youtu, width=2048, depth=32, heads=16, ffn=6144, vocab=128_256), organisation="Tencent"),
    Entry("solar-open-100b", 2026, "8 of 128 experts and a shared one in every layer",
          "released configuration Solar-Open-100B, rotary as trained", _SOLAR, organisation="Upstage"),
    Entry("a.x-k1", 2026, "latent attention, 8 of 192 experts from four groups of eight, a norm behind them",
          "transformers 5.23, defaults of AXK1Config (skt/A.X-K1)",
          partial(a_x_k1, width=7168, depth=61, heads=64, ffn=18_432, experts=192, chosen=8, expert=2048, vocab=163_840),
          organisation="SKT"),
    Entry("a.x-k2-light", 2026, "gated norms, small latents with a gate, 2048 chosen keys, 8 of 128 experts",
          "transformers 5.23, defaults of AXK2Config, which names them those of A.X-K2-Light",
          partial(a_x_k2, width=2048, depth=48, heads=32, ffn=5120, experts=128, chosen=8, expert=512, vocab=163_840),
          organisation="SKT"),
)  # fmt: skip
