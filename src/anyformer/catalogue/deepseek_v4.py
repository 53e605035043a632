"""DeepSeek-V4: a window beside compressed entries, manifold hyper-connections, and experts by a table in the first layers."""

from __future__ import annotations

from functools import partial
from itertools import cycle, islice

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Block,
    CompressedAttention,
    Compressor,
    Embedding,
    EntryIndexer,
    Experts,
    FeedForward,
    GroupedOutput,
    Head,
    ManifoldConnections,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    ScoreCorrectionBias,
    SharedExpert,
    TokenTable,
    TopK,
    YaRN,
    pre_norm,
)

NORM = RMSNorm(eps=1e-6, cast="after_gain")
VOCAB, TABLED = 129_280, 3
"""Tokens, and layers whose experts a table names."""
_ROTARY = Rotary(pairing="adjacent", place="last", rotate_in="fp32", fraction=64 / 512)
_OF_ENTRIES = _ROTARY.but(theta=160_000.0, scaling=YaRN(factor=16.0, trained=65_536, attention_factor=1.0))


def attentions(*, heads: int, q_rank: int, groups: int, keep: int) -> dict[str, CompressedAttention]:
    """arXiv 2606.19348, section 2.3: with a window alone, with the best entries of 4 positions, with all of 128."""
    window = CompressedAttention(
        heads=heads, head_width=512, window=128, q_rank=q_rank, norm=NORM, head_norm=RMSNorm(eps=1e-6, gain="none"),
        rotary=_ROTARY, sink="head", output=GroupedOutput(groups=groups, rank=1024),
    )  # fmt: skip
    choice = EntryIndexer(keep=keep, heads=64, head_width=128, rotary=_OF_ENTRIES.but(fraction=0.5))
    chosen = window.but(rotary=_OF_ENTRIES, compressor=Compressor(block=4, span=2, norm=NORM), choice=choice)
    every = window.but(rotary=_OF_ENTRIES, compressor=Compressor(block=128, norm=NORM))
    return {"window": window, "chosen": chosen, "all": every}


def deepseek_v4(
    first: str, *, width: int, depth: int, heads: int, q_rank: int, groups: int, keep: int, experts: int, ffn: int, scale: float
) -> Architecture:
    """Two layers of the kind `first`, then chosen entries and all in turn; 6 experts of each token beside a shared one."""
    kinds = [first] * 2 + list(islice(cycle(["chosen", "all"]), depth - 2))
    router = Router(score="sqrt_softplus", choice=TokenTable(vocab=VOCAB), renormalise=Renormalise(), scale=scale)
    table = Experts(
        experts=experts, chosen=6, width=ffn, clamp=10.0, router=router,
        shared=SharedExpert(feedforward=FeedForward(width=ffn, clamp=10.0)),
    )  # fmt: skip
    networks = {"table": table, "scores": table.but(router=router.but(choice=TopK(correction=ScoreCorrectionBias())))}
    own = attentions(heads=heads, q_rank=q_rank, groups=groups, keep=keep)
    named = [(kind, "table" if i < TABLED else "scores") for i, kind in enumerate(kinds)]
    blocks = {pair: pre_norm(NORM, own[pair[0]], networks[pair[1]]) for pair in dict.fromkeys(named)}
    names: Named[Block] = Named({"_".join(pair): block for pair, block in blocks.items()})
    return decoder_only(
        Embedding(vocab=VOCAB), width, [blocks[pair] for pair in named], names=names, final_norm=NORM, head=Head(),
        streams=ManifoldConnections(count=4, iterations=20, merge="learned"),
    )  # fmt: skip


ENTRIES = (
    Entry("deepseek-v4-flash", 2026, "a window, 512 of the entries of 4 positions or all of 128, and 6 of 256 experts",
          "arXiv 2606.19348, section 2.3; released configuration DeepSeek-V4-Flash",
          partial(deepseek_v4, "window", width=4096, depth=43, heads=64, q_rank=1024, groups=8, keep=512, experts=256, ffn=2048,
                  scale=1.5)),
    Entry("deepseek-v4-pro", 2026, "a window, 1024 of the entries of 4 positions or all of 128, and 6 of 384 experts",
          "arXiv 2606.19348, section 2.3; released configuration DeepSeek-V4-Pro",
          partial(deepseek_v4, "all", width=7168, depth=61, heads=128, q_rank=1536, groups=16, keep=1024, experts=384, ffn=3072,
                  scale=2.5)),
)  # fmt: skip
