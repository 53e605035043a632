"""Switch Transformer, GShard and NLLB-MoE: encoder-decoders in which some feed-forward networks are many experts."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry, Size
from anyformer.catalogue.t5 import t5
from anyformer.catalogue.translation import FAIRSEQ, translator
from anyformer.describe import Named
from anyformer.model import Architecture, encoder_decoder
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    Capacity,
    CrossAttention,
    Embedding,
    Experts,
    FeedForward,
    Head,
    LayerNorm,
    Renormalise,
    Router,
    SinusoidalPosition,
    Stack,
    post_norm,
    stack,
)
from anyformer.parts.sublayer import Sublayer


def switch(*, width: int, depth: int, heads: int, ffn: int, experts: int, every: int = 2, gated: bool = False) -> Architecture:
    """Fedus et al. 2021 (arXiv 2101.03961), section 2: T5 with one of many experts in every `every`-th layer of `depth` a side.

    The input of the router is jittered in training, in which an expert takes at most 1.25 times its even share.
    """
    routed = Experts(
        experts=experts,
        chosen=1,
        width=ffn,
        activation="gelu_tanh" if gated else "relu",
        gated=gated,
        router=Router(jitter=0.01),
        capacity=Capacity(factor=1.25),
    )
    return t5(width=width, depth=depth, heads=heads, ffn=ffn, gated=gated, experts=routed, every=every)


def gshard(*, width: int, depth: int, heads: int, head_width: int, ffn: int, experts: int, vocab: int = 64_000) -> Architecture:
    """Lepikhin et al. 2020 (arXiv 2006.16668), section 2: the original Transformer, two of many experts in every other layer.

    `depth` counts both sides. Each expert takes its even share; the two weights are renormalised.
    """
    norm = LayerNorm(eps=1e-6)
    dense = FeedForward(width=ffn, activation="relu", gated=False)
    sparse = Experts(
        experts=experts,
        chosen=2,
        width=ffn,
        activation="relu",
        gated=False,
        router=Router(renormalise=Renormalise(eps=0.0)),
        capacity=Capacity(factor=1.0),
    )
    past = Attention(heads=heads, head_width=head_width)
    cross = CrossAttention(heads=heads, head_width=head_width)

    def side(*attentions: Sublayer) -> Stack:
        blocks: Named[Block] = Named(dense=post_norm(norm, *attentions, dense), sparse=post_norm(norm, *attentions, sparse))
        return stack([blocks["dense"], blocks["sparse"]] * (depth // 4), names=blocks, position=SinusoidalPosition())

    return encoder_decoder(
        Embedding(vocab=vocab, scale="sqrt_width"),
        width,
        side(past.but(mask=Bidirectional())),
        side(past, cross),
        head=Head(tied=True),
    )


def nllb_moe() -> Architecture:
    """NLLB team 2022 (arXiv 2207.04672), section 8: two of 128 experts in every fourth layer, beside NLLB-200 3.3B's others."""
    made = translator(
        width=2048, encoder=24, decoder=24, heads=16, ffn=8192, vocab=256_206, position=FAIRSEQ, head_bias=False,
        attention_dropout=0.1,
    )  # fmt: skip
    experts = Experts(
        experts=128, chosen=2, width=8192, activation="relu", gated=False, bias=("up", "down"),
        router=Router(renormalise=Renormalise(eps=0.0, least=1.1920928955078125e-07), scale=1 - 0.2),
    )  # fmt: skip

    def side(dense: Stack) -> Stack:
        (block,) = dense.variants.values()
        *before, last = block.steps
        branch = last.branches["feedforward"].but(dropout=0.0)
        steps = {"feedforward": branch, "experts": branch.but(sublayer=experts)}
        made = {name: block.but(steps=(*before, last.but(branches=Named({name: own})))) for name, own in steps.items()}
        named: Named[Block] = Named(dense=made["feedforward"], sparse=made["experts"])
        layers = [*[named["dense"]] * 3, named["sparse"]] * (dense.depth // 4)
        around = {name: getattr(dense, name) for name in ("position", "dropout", "final_norm")}
        return stack(layers, names=named, **around)

    return made.but(**{name: side(dense) for name, dense in made.stacks.items()})


_BASE: Size = {"width": 768, "depth": 12, "heads": 12, "ffn": 3072}
_PAPER = "arXiv 2101.03961, table 9; released configuration switch-{}"
_WHAT = "T5, one of {} experts in every other layer"
_GSHARD = partial(gshard, width=1024, heads=16, head_width=128, ffn=8192)
_OF_GSHARD = "arXiv 2006.16668, table 1"
_SPLIT = "half of the layers on each side, the original Transformer's norms and a vocabulary of 64,000 are put in"

ENTRIES = (
    Entry("switch-base-8", 2021, _WHAT.format(8), _PAPER.format("base-8"), partial(switch, **_BASE, experts=8)),
    Entry("switch-base-16", 2021, _WHAT.format(16), _PAPER.format("base-16"), partial(switch, **_BASE, experts=16)),
    Entry("switch-base-32", 2021, _WHAT.format(32), _PAPER.format("base-32"), partial(switch, **_BASE, experts=32)),
    Entry("switch-base-64", 2021, _WHAT.format(64), _PAPER.format("base-64"), partial(switch, **_BASE, experts=64)),
    Entry("switch-base-128", 2021, _WHAT.format(128), _PAPER.format("base-128"), partial(switch, **_BASE, experts=128)),
    Entry("switch-base-256", 2021, _WHAT.format(256), _PAPER.format("base-256"), partial(switch, **_BASE, experts=256)),
    Entry("switch-large-128", 2021, _WHAT.format(128), _PAPER.format("large-128"),
          partial(switch, width=1024, depth=24, heads=16, ffn=4096, experts=128)),
    Entry("switch-xxl-128", 2021, "T5 with gated GELU, one of 128 experts in every other layer", _PAPER.format("xxl-128"),
          partial(switch, width=4096, depth=24, heads=64, ffn=10_240, experts=128, gated=True)),
    Entry("switch-c-2048", 2021, "T5, one of 2048 experts in every layer", _PAPER.format("c-2048"),
          partial(switch, width=2080, depth=15, heads=32, ffn=6144, experts=2048, every=1)),
    Entry("nllb-moe-54b", 2022, "200 languages into each other, two of 128 experts in every fourth layer",
          "arXiv 2207.04672, section 8; released configuration nllb-moe-54b", nllb_moe, organisation="Meta"),
    Entry("gshard-37b", 2020, "translation, two of 128 experts in every other layer", _OF_GSHARD,
          partial(_GSHARD, depth=36, experts=128), _SPLIT),
    Entry("gshard-150b", 2020, "translation, two of 512 experts in every other layer", _OF_GSHARD,
          partial(_GSHARD, depth=36, experts=512), _SPLIT),
    Entry("gshard-600b", 2020, "translation, two of 2048 experts in every other layer", _OF_GSHARD,
          partial(_GSHARD, depth=36, experts=2048), _SPLIT),
)  # fmt: skip
