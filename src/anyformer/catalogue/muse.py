"""Meta's Chameleon, whose tokens are of text and images, and the text models of Muse Glimmer and Muse Spark."""

from __future__ import annotations

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Branch,
    Embedding,
    FeedForward,
    GainedFirst,
    GatedResidual,
    Head,
    LatentExperts,
    LayerNorm,
    MixedNorm,
    OutputGate,
    Projection,
    QKNorm,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    Score,
    ScoreCorrectionBias,
    Step,
    TopK,
    Window,
    pre_norm,
)


def chameleon() -> Architecture:
    """Chameleon Team 2024 (arXiv 2405.09818), section 2.3: Llama's block, a norm per head of queries and keys."""
    norm = RMSNorm(eps=1e-5)
    attention = Attention(
        heads=32, project=Projection(adjust=QKNorm(norm=LayerNorm(eps=1e-5), over="each_head")), place=Rotary()
    )
    block = pre_norm(norm, attention, FeedForward(width=11_008, activation="silu", gated=True))
    return decoder_only(Embedding(vocab=65_536), 4096, [block] * 32, final_norm=norm)


def muse_glimmer() -> Architecture:
    """Meta 2026: three local layers to a global one without positions, gated attention, norms before and after.

    Heads are normed without gains, and scores multiplied by 3.87 / sqrt(E).
    """
    norm = RMSNorm(eps=1e-5, gain="one_plus_weight", cast="after_gain")
    plain = RMSNorm(eps=1e-5, gain="none", cast="after_gain")
    full = Attention(
        heads=32,
        kv_heads=2,
        head_width=128,
        project=Projection(adjust=QKNorm(norm=plain)),
        score=Score(scale=3.87 / 128**0.5),
        combine=OutputGate(),
    )
    local = full.but(mask=Window(size=2048), rotary=Rotary(theta=500_000.0))
    network = FeedForward(width=19_968, activation="silu", gated=True)

    def around(attention: Attention) -> Block:
        """Attention and network, each between two norms, of which the second has a smaller eps."""
        branches = {s.kind: Branch(norm_before=norm, sublayer=s, norm_after=norm.but(eps=1e-8)) for s in (attention, network)}
        return Block(steps=tuple(Step(branches=Named({name: branch})) for name, branch in branches.items()))

    names: Named[Block] = Named(local=around(local), full=around(full))
    return decoder_only(
        Embedding(vocab=202_048),
        6656,
        [names["full" if layer % 4 == 3 else "local"] for layer in range(52)],
        names=names,
        input_norm=plain,
        final_norm=RMSNorm(eps=1e-5, cast="after_gain"),
        head=Head(scale=26**-0.5, softcap=20.0),
    )


def muse_spark() -> Architecture:
    """Meta 2026: Glimmer's attention with a norm of every head, 8 of 256 experts in half of the features, gated residuals.

    The norm behind the experts multiplies by its gains first, so that what is added has a root mean square of 1.
    """
    norm = RMSNorm(eps=1e-5, gain="one_plus_weight", cast="after_gain")
    plain = RMSNorm(eps=1e-5, gain="none", cast="after_gain")
    unit, factor = GainedFirst(eps=1e-8, first="one_plus_weight"), 32**-0.5
    full = Attention(
        heads=128,
        kv_heads=16,
        head_width=64,
        project=Projection(adjust=QKNorm(norm=plain)),
        score=Score(scale=5.4730064863875 / 64**0.5),
        combine=(MixedNorm(norm=plain), OutputGate()),
    )
    experts = LatentExperts(
        experts=256,
        chosen=8,
        width=4096,
        latent=4096,
        norm=norm,
        output_norm=unit,
        router=Router(
            score="sigmoid",
            choice=TopK(correction=ScoreCorrectionBias()),
            renormalise=Renormalise(eps=1e-15),
            multiplier=factor,
        ),
    )

    def around(attention: Attention) -> Block:
        """Attention and experts, each between two norms."""
        after = {attention.called: plain.but(eps=1e-8), experts.called: unit}
        branches = {s.called: Branch(norm_before=norm, sublayer=s, norm_after=after[s.called]) for s in (attention, experts)}
        return Block(steps=tuple(Step(branches=Named({name: branch})) for name, branch in branches.items()))

    local = full.but(mask=Window(size=2048), rotary=Rotary(theta=500_000.0))
    names: Named[Block] = Named(local=around(local), full=around(full))
    return decoder_only(
        Embedding(vocab=202_048),
        8192,
        [names["local" if (61 - layer) % 4 else "full"] for layer in range(62)],
        names=names,
        input_norm=plain,
        final_norm=RMSNorm(eps=1e-5, cast="after_gain"),
        head=Head(scale=factor, softcap=20.0),
        streams=GatedResidual(),
    )


ENTRIES = (
    Entry("chameleon-7b", 2024, "a Llama over tokens of text and of images, a norm per head of queries and keys",
          "arXiv 2405.09818, table 1; transformers 5.23, defaults of ChameleonConfig (facebook/chameleon-7b)", chameleon),
    Entry("muse-glimmer-30b", 2026, "three local layers to a global one without positions, gated attention; the text model",
          "released configuration Muse-Glimmer-30B, which the defaults of MuseGlimmerTextConfig of transformers 5.23 are",
          muse_glimmer),
    Entry("muse-spark-816b-a42b", 2026, "8 of 256 experts in half of the features, gated residuals; its text model",
          "released configuration Muse-Spark-Open-816B-A42B, the defaults of MuseSparkTextConfig of transformers 5.23",
          muse_spark),
)  # fmt: skip
