"""Llama 4, the text model: chunks with rotary positions, every fourth layer without, one routed expert and a shared one."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Causal,
    Chunk,
    Embedding,
    Experts,
    FeedForward,
    Head,
    Llama3Scaling,
    LogTemperature,
    Projection,
    QKNorm,
    RMSNorm,
    Rotary,
    Router,
    SharedExpert,
    TopK,
    pre_norm,
)


def llama4(
    *,
    depth: int,
    experts: int,
    every: int,
    qk_norm: bool,
    scaling: Llama3Scaling | None = None,
    width: int = 5120,
    heads: int = 40,
    kv_heads: int = 8,
    head_width: int = 128,
    expert: int = 8192,
    ffn: int = 16_384,
    chunk: int = 8192,
    vocab: int = 202_048,
) -> Architecture:
    """Layers 3, 7, ... have no positions, see all of the past and scale queries up with it; the others see their chunk.

    Experts stand in every `every`-th layer: one of them, its input weighed by a sigmoid, and one that all tokens pass.
    """
    norm = RMSNorm(eps=1e-5)
    local = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=head_width,
        mask=Causal() & Chunk(size=chunk),
        project=Projection(adjust=QKNorm(norm=RMSNorm(eps=1e-5, gain="none"), at="after_rotary") if qk_norm else None),
        place=Rotary(theta=500_000.0, pairing="adjacent", rotate_in="fp32", scaling=scaling),
    )
    global_ = Attention(
        heads=heads, kv_heads=kv_heads, head_width=head_width, place=LogTemperature(strength=0.1, span=8192, shift=1)
    )
    dense = FeedForward(width=ffn)
    routed = Experts(
        experts=experts,
        chosen=1,
        width=expert,
        router=Router(score="sigmoid", choice=TopK(by="logits")),
        weigh="input",
        shared=SharedExpert(feedforward=FeedForward(width=expert)),
    )

    blocks: Named[Block] = Named(
        local_dense=pre_norm(norm, local, dense),
        local_routed=pre_norm(norm, local, routed),
        global_routed=pre_norm(norm, global_, routed),
    )
    layers = [
        ("global" if layer % 4 == 3 else "local") + ("_routed" if layer % every == every - 1 else "_dense")
        for layer in range(depth)
    ]
    return decoder_only(
        Embedding(vocab=vocab), width, [blocks[name] for name in layers], names=blocks, final_norm=norm, head=Head()
    )


# The release squeezes every wave longer than the trained length and keeps the others: low = high = 1, a step without a blend.
SCOUT_SCALING = Llama3Scaling(factor=16.0, low=1.0, high=1.000001, trained=8192)
_SOURCE = "released configuration Llama-4-{}; meta-llama/llama-models, models/llama4/args.py"

ENTRIES = (
    Entry("llama-4-scout", 2025, "chunked and position-free layers, 1 of 16 experts and a shared one",
          _SOURCE.format("Scout-17B-16E"), partial(llama4, depth=48, experts=16, every=1, qk_norm=True, scaling=SCOUT_SCALING)),
    Entry("llama-4-maverick", 2025, "as Scout, 1 of 128 experts in every other layer",
          _SOURCE.format("Maverick-17B-128E"), partial(llama4, depth=48, experts=128, every=2, qk_norm=False)),
)  # fmt: skip
