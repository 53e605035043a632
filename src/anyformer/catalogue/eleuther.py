"""EleutherAI's line: GPT-Neo with local layers, then rotary positions and attention parallel to the feed-forward network."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    LearnedPosition,
    Projection,
    Rotary,
    Score,
    Window,
    parallel,
    pre_norm,
)


def gpt_neo(*, width: int, depth: int, heads: int, vocab: int = 50_257, length: int = 2048, window: int = 256) -> Architecture:
    """Alternating global and local layers; scores are not scaled, and only the attention's output has a bias."""
    norm = LayerNorm(eps=1e-5)
    feedforward = FeedForward(width=4 * width, activation="gelu_tanh", gated=False, bias=("up", "down"))
    dense = pre_norm(norm, Attention(heads=heads, project=Projection(bias=("output",)), score=Score(scale=1.0)), feedforward)
    local = pre_norm(
        norm,
        Attention(heads=heads, mask=Window(size=window), project=Projection(bias=("output",)), score=Score(scale=1.0)),
        feedforward,
    )
    return decoder_only(
        Embedding(vocab=vocab),
        width,
        [dense, local] * (depth // 2),
        names=Named(dense=dense, local=local),
        position=LearnedPosition(length=length),
        final_norm=norm,
        head=Head(tied=True),
    )


def gpt_j(*, width: int, depth: int, heads: int, rotated: float, vocab: int) -> Architecture:
    """Attention and feed-forward read one norm together; rotary positions on neighbouring pairs of a part of each head."""
    norm = LayerNorm(eps=1e-5)
    block = parallel(
        norm,
        Attention(heads=heads, place=Rotary(fraction=rotated, pairing="adjacent")),
        FeedForward(width=4 * width, activation="gelu_tanh", gated=False, bias=("up", "down")),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm, head=Head(bias=True))


def gpt_neox(*, width: int, depth: int, heads: int, vocab: int = 50_304) -> Architecture:
    """Black et al. 2022 (arXiv 2204.06745), section 2: GPT-J with a norm for each of the two, and halves for pairs."""
    norm = LayerNorm(eps=1e-5)
    block = parallel(
        norm,
        Attention(heads=heads, project=Projection(bias=("query", "key", "value", "output")), place=Rotary(fraction=0.25)),
        FeedForward(width=4 * width, activation="gelu", gated=False, bias=("up", "down")),
        shared_norm=False,
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


_NEO = "released configuration gpt-neo-{}"
_J = "released configuration gpt-j-6B"
_NEOX = "arXiv 2204.06745, section 2; released configuration gpt-neox-20b"
_PYTHIA = "arXiv 2304.01373, table 1; released configurations, whose vocabulary is padded by the tensor parallelism"
_PARALLEL = "rotary on a quarter of each head, parallel layers with two norms"

ENTRIES = (
    Entry("gpt-neo-125m", 2021, "alternating global and local layers", _NEO.format("125m"),
          partial(gpt_neo, width=768, depth=12, heads=12)),
    Entry("gpt-neo-1.3b", 2021, "alternating global and local layers", _NEO.format("1.3B"),
          partial(gpt_neo, width=2048, depth=24, heads=16)),
    Entry("gpt-neo-2.7b", 2021, "alternating global and local layers", _NEO.format("2.7B"),
          partial(gpt_neo, width=2560, depth=32, heads=20)),
    Entry("gpt-j-6b", 2021, "rotary on a quarter of each head, parallel layers with one norm, a head with a bias", _J,
          partial(gpt_j, width=4096, depth=28, heads=16, rotated=0.25, vocab=50_400)),
    Entry("gpt-jt-6b", 2022, "GPT-J, trained further to see its prompt both ways", "released configuration GPT-JT-6B-v1",
          partial(gpt_j, width=4096, depth=28, heads=16, rotated=0.25, vocab=50_400), organisation="Together"),
    Entry("gpt-neox-20b", 2022, _PARALLEL, _NEOX, partial(gpt_neox, width=6144, depth=44, heads=64, vocab=50_432)),
    Entry("pythia-14m", 2023, _PARALLEL, _PYTHIA, partial(gpt_neox, width=128, depth=6, heads=4)),
    Entry("pythia-31m", 2023, _PARALLEL, _PYTHIA, partial(gpt_neox, width=256, depth=6, heads=8)),
    Entry("pythia-70m", 2023, _PARALLEL, _PYTHIA, partial(gpt_neox, width=512, depth=6, heads=8)),
    Entry("pythia-160m", 2023, _PARALLEL, _PYTHIA, partial(gpt_neox, width=768, depth=12, heads=12)),
    Entry("pythia-410m", 2023, _PARALLEL, _PYTHIA, partial(gpt_neox, width=1024, depth=24, heads=16)),
    Entry("pythia-1b", 2023, _PARALLEL, _PYTHIA, partial(gpt_neox, width=2048, depth=16, heads=8)),
    Entry("pythia-1.4b", 2023, _PARALLEL, _PYTHIA, partial(gpt_neox, width=2048, depth=24, heads=16)),
    Entry("pythia-2.8b", 2023, _PARALLEL, _PYTHIA, partial(gpt_neox, width=2560, depth=32, heads=32)),
    Entry("pythia-6.9b", 2023, _PARALLEL, _PYTHIA, partial(gpt_neox, width=4096, depth=32, heads=32, vocab=50_432)),
    Entry("pythia-12b", 2023, _PARALLEL, _PYTHIA, partial(gpt_neox, width=5120, depth=36, heads=40, vocab=50_688)),
)  # fmt: skip
