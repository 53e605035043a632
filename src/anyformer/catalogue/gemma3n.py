"""Gemma 3n: four streams of which layers compute one, a residual of low rank, sparse gates, inputs of each layer."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Affine,
    AlternatingUpdates,
    Attention,
    Block,
    Branch,
    Causal,
    Embedding,
    FeedForward,
    Head,
    LayerInput,
    LayerInputs,
    LowRankResidual,
    Projection,
    QKNorm,
    RMSNorm,
    Rotary,
    Score,
    StatisticalTopK,
    Step,
    ValueNorm,
    Window,
)

NORM = RMSNorm(eps=1e-6, cast="after_gain")
_ROOT = 2**-0.5


def gemma3n(*, depth: int, ffn: int, shared: int, width: int = 2048, sparse: int = 10, vocab: int = 262_400) -> Architecture:
    """Every fifth layer is global; the last `shared` layers read keys and values of the last before them of their kind, and the
    first `sparse` keep a twentieth of what their networks compute. The table of inputs of layers has no rows for the tokens of
    images and sound.
    """
    inputs = LayerInputs(
        width=256,
        vocab=262_144,
        table_scale=16.0,
        beyond=0,
        projection_scale="inverse_sqrt_width",
        norm=NORM,
        factor=_ROOT,
    )
    local = Attention(
        heads=8,
        kv_heads=2,
        head_width=256,
        mask=Window(size=512),
        project=Projection(adjust=(QKNorm(norm=NORM), ValueNorm.of(NORM.but(gain="none")))),
        place=Rotary(theta=10_000.0),
        score=Score(scale=1.0),
    )
    kinds = {"local": local, "full": local.but(mask=Causal(), rotary=Rotary(theta=1_000_000.0))}
    network = FeedForward(width=ffn, activation="gelu_tanh", gated=True)
    top = network.but(sparse=StatisticalTopK(sparsity=0.95))
    own = {name: layer(heads, network) for name, heads in kinds.items()}
    first = {f"{name}_sparse": layer(heads, top) for name, heads in kinds.items()}
    last = {f"{name}_shared": layer(heads.but(keys_from=name, value_norm=None), network) for name, heads in kinds.items()}
    blocks: Named[Block] = Named({**first, **own, **last})
    names = ["full" if i % 5 == 4 else "local" for i in range(depth)]
    ends = ["_sparse" if i < sparse else "_shared" if i >= depth - shared else "" for i in range(depth)]
    return decoder_only(
        Embedding(vocab=vocab, scale="sqrt_width"),
        width,
        [blocks[name + end] for name, end in zip(names, ends, strict=True)],
        names=blocks,
        final_norm=NORM,
        layer_inputs=inputs,
        streams=AlternatingUpdates(norm=NORM),
        head=Head(tied=True, softcap=30.0),
    )


def layer(attention: Attention, network: FeedForward) -> Block:
    """Attention and both residuals over sqrt(2); the network; then the layer's input, which is added to the other streams."""
    first = {
        "attention": Branch(sublayer=attention, norm_after=NORM, multiplier=_ROOT),
        "laurel": Branch(sublayer=LowRankResidual(rank=64, norm=NORM), multiplier=_ROOT),
    }
    own = Branch(sublayer=LayerInput(width=256), norm_after=NORM)
    return Block(
        steps=(
            Step(norm_before=NORM, branches=Named(first), residual_scale=_ROOT),
            Step(branches=Named(feedforward=Branch(norm_before=NORM, sublayer=network, norm_after=NORM))),
            Step(norm_before=Affine(bias=False), branches=Named(layer_input=own), residual="inactive"),
        )
    )


_SOURCE = "released configuration gemma-3n-{}, its text model"

ENTRIES = (
    Entry("gemma-3n-e2b", 2025, "layers compute one of four streams and predict the others", _SOURCE.format("E2B"),
          partial(gemma3n, depth=30, ffn=8192, shared=10)),
    Entry("gemma-3n-e4b", 2025, "layers compute one of four streams and predict the others", _SOURCE.format("E4B"),
          partial(gemma3n, depth=35, ffn=16_384, shared=15)),
)  # fmt: skip
