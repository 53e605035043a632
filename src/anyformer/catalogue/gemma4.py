"""Gemma 4: wide global layers whose keys are the values, normed values, a factor per layer; experts beside a dense network;
small models with inputs of each layer."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Branch,
    Causal,
    Embedding,
    Experts,
    FeedForward,
    Gain,
    Head,
    LayerInput,
    LayerInputs,
    Projection,
    Proportional,
    QKNorm,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    Score,
    Step,
    ValueNorm,
    Window,
)

NORM = RMSNorm(eps=1e-6, cast="after_gain")


def gemma4(
    *,
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    global_kv_heads: int,
    ffn: int,
    experts: Experts | None = None,
    window: int = 1024,
    vocab: int = 262_144,
) -> Architecture:
    """Five local layers to one global. Scores are not scaled, gains are the weights themselves, not 1 + w.

    With `experts` the dense network and they read the stream side by side, each with norms of its own and one for their sum.
    """
    local = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=256,
        mask=Window(size=window),
        project=Projection(adjust=(QKNorm(norm=NORM), ValueNorm.of(NORM.but(gain="none")))),
        place=Rotary(theta=10_000.0),
        score=Score(scale=1.0),
    )
    global_ = local.but(
        mask=Causal(),
        kv_heads=global_kv_heads,
        head_width=512,
        values="keys",
        rotary=Rotary(theta=1_000_000.0, scaling=Proportional(fraction=0.25)),
    )
    feedforward = FeedForward(width=ffn, activation="gelu_tanh", gated=True)
    blocks: Named[Block] = Named(
        {"local": four_norms(local, feedforward, experts), "global": four_norms(global_, feedforward, experts)}
    )
    return decoder_only(
        Embedding(vocab=vocab, scale="sqrt_width"),
        width,
        [blocks["global" if layer % 6 == 5 else "local"] for layer in range(depth)],
        names=blocks,
        final_norm=NORM,
        head=Head(tied=True, softcap=30.0),
    )


def four_norms(attention: Attention, feedforward: FeedForward, experts: Experts | None) -> Block:
    """Norms before and after each of the two, and a number that multiplies the stream as it leaves."""
    dense = Branch(norm_before=NORM, sublayer=feedforward, norm_after=NORM)
    beside = {} if experts is None else {"experts": Branch(sublayer=experts, norm_after=NORM)}
    return Block(
        steps=(
            Step(branches=Named(attention=Branch(norm_before=NORM, sublayer=attention, norm_after=NORM))),
            Step(
                branches=Named({"feedforward": dense, **beside}),
                norm_branches=NORM if beside else None,
                gain=Gain(per="branch", initial=1.0),
            ),
        )
    )


def gemma4_experts(*, width: int, experts: int, chosen: int, expert: int) -> Experts:
    """The router reads the stream through a norm of its own, times D^-0.5; a learned factor for every expert."""
    router = Router(norm=NORM, multiplier="inverse_sqrt_width", renormalise=Renormalise(eps=0.0), expert_scale=True)
    return Experts(experts=experts, chosen=chosen, width=expert, activation="gelu_tanh", norm=NORM, router=router)


def gemma4_small(
    *, width: int, depth: int, heads: int, kv_heads: int, ffn: int, period: int, shared: int, double: bool, vocab: int = 262_144
) -> Architecture:
    """Every `period`-th layer is global; the last `shared` layers read keys and values of the last before them of their kind,
    with networks twice as wide if `double`. Every layer reads features of its own, made of the token and of its embedding.
    """
    inputs = LayerInputs(
        width=256,
        vocab=vocab,
        table_scale=16.0,
        projection_scale="inverse_sqrt_width",
        norm=NORM,
        factor=float(2**-0.5),
    )
    local = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=256,
        mask=Window(size=512),
        project=Projection(adjust=(QKNorm(norm=NORM), ValueNorm.of(NORM.but(gain="none")))),
        place=Rotary(theta=10_000.0),
        score=Score(scale=1.0),
    )
    wide = Rotary(theta=1_000_000.0, scaling=Proportional(fraction=0.25))
    kinds = {"local": local, "global": local.but(mask=Causal(), head_width=512, rotary=wide)}
    network = FeedForward(width=ffn, activation="gelu_tanh", gated=True)
    late = network.but(width=2 * ffn) if double else network
    own = {name: _with_input(four_norms(heads, network, None)) for name, heads in kinds.items()}
    reading = {
        f"{name}_shared": _with_input(four_norms(heads.but(keys_from=name, value_norm=None), late, None))
        for name, heads in kinds.items()
    }
    blocks: Named[Block] = Named({**own, **reading})
    names = ["global" if layer % period == period - 1 else "local" for layer in range(depth)]
    return decoder_only(
        Embedding(vocab=vocab, scale="sqrt_width"),
        width,
        [blocks[name if layer < depth - shared else f"{name}_shared"] for layer, name in enumerate(names)],
        names=blocks,
        final_norm=NORM,
        layer_inputs=inputs,
        head=Head(tied=True, softcap=30.0),
    )


def _with_input(block: Block) -> Block:
    """The block with its layer's own input as the last step, behind which stands the number that multiplies the stream."""
    *first, last = block.steps
    own = Branch(sublayer=LayerInput(width=256), norm_after=NORM)
    return Block(steps=(*first, last.but(gain=None), Step(branches=Named(layer_input=own), gain=last.gain)))


_SOURCE = "released configuration gemma-4-{}, its text model"

ENTRIES = (
    Entry("gemma-4-e2b", 2026, "every layer reads features of its own of the token; 20 of 35 layers read others' keys",
          _SOURCE.format("E2B"),
          partial(gemma4_small, width=1536, depth=35, heads=8, kv_heads=1, ffn=6144, period=5, shared=20, double=True)),
    Entry("gemma-4-e4b", 2026, "every layer reads features of its own of the token; 18 of 42 layers read others' keys",
          _SOURCE.format("E4B"),
          partial(gemma4_small, width=2560, depth=42, heads=8, kv_heads=2, ffn=10_240, period=6, shared=18, double=False)),
    Entry("gemma-4-26b-a4b", 2026, "a dense network beside 8 of 128 experts, each with norms", _SOURCE.format("26B-A4B"),
          partial(gemma4, width=2816, depth=30, heads=16, kv_heads=8, global_kv_heads=2, ffn=2112,
                  experts=gemma4_experts(width=2816, experts=128, chosen=8, expert=704))),
    Entry("gemma-4-31b", 2026, "five local layers to one global, whose keys are its values", _SOURCE.format("31B"),
          partial(gemma4, width=5376, depth=60, heads=32, kv_heads=16, global_kv_heads=4, ffn=21_504)),
)  # fmt: skip
