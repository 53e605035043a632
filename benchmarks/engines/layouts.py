"""Tiny models that no model type of transformers expresses, or that are written in our own layout all the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.engines.models import VOCABULARY

from anyformer.catalogue.gpt import gpt2
from anyformer.describe import Named, change_all
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    DynamicTanh,
    Embedding,
    Experts,
    FeedForward,
    Gate,
    Head,
    HyperConnections,
    LayerNorm,
    QKNorm,
    RMSNorm,
    Rotary,
    Stack,
    ValueResidual,
    Window,
    output_norm,
    parallel,
    pre_norm,
    sandwich,
)

WIDTH, HEADS, E = 64, 4, 32
RMS = RMSNorm(eps=1e-6)
FEED = FeedForward(width=96)


def attention(**fields: object) -> Attention:
    """Grouped attention with heads of 32 features, which every engine's kernels hold."""
    own = Attention(heads=HEADS, kv_heads=2, head_width=E, place=Rotary())
    return own.but(**fields)


def decoder(*blocks: Block, **more: object) -> Architecture:
    """A decoder of these blocks."""
    return decoder_only(Embedding(vocab=VOCABULARY), WIDTH, blocks, **{"final_norm": RMS, "head": Head(), **more})


def unusual() -> Architecture:
    """Dynamic tanh in the place of norms, squared ReLU, half of every head rotated, biases."""
    tanh = DynamicTanh()
    feed = FeedForward(width=96, activation="relu_squared", gated=False, bias=("up", "down"))
    turned = attention(rotary=Rotary(fraction=0.5, pairing="adjacent"), bias=("query", "key", "value", "output"))
    return decoder(*[pre_norm(tanh, turned, feed)] * 2, final_norm=tanh)


def capped() -> Architecture:
    """Sandwich norms, windows on every other layer, soft-caps of scores and logits, a tied and scaled table."""
    local, full = (
        sandwich(RMSNorm(gain="one_plus_weight"), attention(softcap=5.0, scale=0.2, **more), FEED) for more in _MIXED
    )
    tied = decoder(local, full, local, full, head=Head(tied=True, softcap=8.0))
    return change_all(tied, {"embedding.scale": "sqrt_width"})


_MIXED: tuple[dict[str, object], ...] = ({"mask": Window(size=16)}, {})


def side_by_side() -> Architecture:
    """Attention and network side by side behind one norm, no positions on every other layer, logits scaled."""
    norm = LayerNorm(bias=False)
    turned, bare = parallel(norm, attention(), FEED), parallel(norm, attention(rotary=None), FEED)
    return decoder(turned, bare, turned, final_norm=norm, head=Head(tied=True, scale=0.25))


def normed_heads() -> Architecture:
    """Norms behind the sublayers, normed queries and keys, windows with rotations of their own."""
    normed = {"qk_norm": QKNorm(norm=RMS)}
    local = output_norm(RMS, attention(mask=Window(size=20), rotary=Rotary(theta=100.0), **normed), FEED)
    return decoder(local, output_norm(RMS, attention(**normed), FEED), local)


def learned() -> Architecture:
    """A learned table of positions, biases, LayerNorm: GPT-2."""
    return gpt2(width=WIDTH, depth=2, heads=2, vocab=VOCABULARY, length=128)


def streams() -> Architecture:
    """Four residual streams, mixed by what they hold (hyper-connections)."""
    return decoder(*[pre_norm(RMS, attention(), FEED)] * 2, streams=HyperConnections(count=4))


def gated() -> Architecture:
    """Gates of the mixed heads, and values that hold those of the first layer."""
    first = pre_norm(RMS, attention(gate=Gate()), FEED)
    later = pre_norm(RMS, attention(gate=Gate(per="head"), value_residual=ValueResidual(variant="first")), FEED)
    made = decoder(first)
    return made.but(decoder=Stack(variants=Named(first=first, later=later), order="first later*2", final_norm=RMS))


def experts() -> Architecture:
    """Four experts, of which every token takes two."""
    return decoder(*[pre_norm(RMS, attention(), Experts(experts=4, chosen=2, width=48))] * 2)


LAYOUTS: Mapping[str, Callable[[], Architecture]] = {
    "dynamic tanh, squared ReLU, half rotated": unusual,
    "sandwich norms, mixed windows, soft-caps": capped,
    "parallel blocks, layers without positions": side_by_side,
    "output norms, QK-norm, mixed windows": normed_heads,
    "learned positions": learned,
    "hyper-connections": streams,
    "gated heads, value residual": gated,
    "experts": experts,
}
"""Row -> its architecture: softmax attention, full and of windows, in layers of every form."""
