"""Tiny architectures that together hold every part and every field: what the contract tests run over."""

from __future__ import annotations

from anyformer.catalogue.gpt import gpt2
from anyformer.catalogue.llama import llama
from anyformer.catalogue.original import original
from anyformer.describe import Named, change_all
from anyformer.model import Architecture, decoder_only, encoder_decoder, encoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    Causal,
    CrossAttention,
    Embedding,
    FeedForward,
    Head,
    Initialisation,
    LayerNorm,
    LearnedPosition,
    Normal,
    Prefix,
    RMSNorm,
    Rotary,
    SinusoidalPosition,
    Stack,
    TruncatedNormal,
    Window,
    Xavier,
    output_norm,
    parallel,
    post_norm,
    pre_norm,
    sandwich,
    stack,
)
from anyformer.parts.feedforward import ACTIVATIONS

VOCAB, WIDTH = 37, 24
# Larger than in practice, so that every part leaves a trace in the logits.
LOUD = Initialisation(matrix=Normal(std=0.25), embedding=Normal(std=0.7), head=Normal(std=0.3))
RMS, LAYER = RMSNorm(), LayerNorm()
ALL = ("query", "key", "value", "output")


def _decoder(*blocks, **more) -> Architecture:
    more = {"final_norm": RMS, "head": Head(), "initialisation": LOUD} | more
    return decoder_only(Embedding(vocab=VOCAB), WIDTH, blocks, **more)


def _llama(**changes) -> Architecture:
    base = llama(width=WIDTH, depth=2, heads=4, kv_heads=4, ffn=20, vocab=VOCAB)
    return change_all(base.but(initialisation=LOUD), changes)


def _at(**changes) -> dict:
    return {f"decoder.layer.attention.{name}": value for name, value in changes.items()}


FEED = FeedForward(width=20)
PLAIN_FEED = FeedForward(width=20, activation="relu", gated=False, bias=("up", "down"))
SELF, BOTH = Attention(heads=4, rotary=Rotary()), Attention(heads=4, mask=Bidirectional())
LOCAL, GLOBAL = (
    pre_norm(RMS, Attention(heads=4, kv_heads=2, mask=mask, rotary=Rotary()), FEED) for mask in (Window(size=4), Causal())
)

DECODERS = {
    "llama": _llama(),
    "grouped": _llama(**_at(kv_heads=2)),
    "multi_query": _llama(**_at(kv_heads=1)),
    "head_width": _llama(**_at(head_width=10, kv_heads=2)),
    "biases": _llama(**_at(bias=list(ALL)), **{"decoder.layer.feedforward.bias": ["gate", "up", "down"]}),
    "one_bias": _llama(**_at(bias=["value"])),
    "window": _llama(**_at(mask=Window(size=4))),
    "window_1": _llama(**_at(mask=Window(size=1))),
    "softcap_scale_qk_norm": _llama(**_at(softcap=2.0, scale=0.4, qk_norm=RMSNorm(eps=1e-3))),
    "qk_layer_norm": _llama(**_at(qk_norm=LayerNorm(bias=False), kv_heads=2)),
    "rotary_adjacent": _llama(
        **{"decoder.layer.attention.rotary.pairing": "adjacent", "decoder.layer.attention.rotary.theta": 100.0}
    ),
    "rotary_partial_fp32": _llama(
        **{"decoder.layer.attention.rotary.fraction": 0.67, "decoder.layer.attention.rotary.rotate_in": "fp32"}
    ),
    "no_position": _llama(**_at(rotary=None)),
    "head_options": _llama(head=Head(tied=True, bias=True, scale=0.5, softcap=3.0), **{"embedding.scale": 4.9}),
    "gain_variants": _decoder(
        pre_norm(RMSNorm(gain="one_plus_weight", cast="after_gain"), SELF, FEED),
        pre_norm(RMSNorm(gain="none"), SELF, FEED),
        pre_norm(RMSNorm(bias=True), SELF, FEED),
        pre_norm(LayerNorm(gain="one_plus_weight", cast="before_gain"), SELF, FEED),
    ),
    "gpt2": gpt2(width=WIDTH, depth=2, heads=3, vocab=VOCAB, length=32, dropout=0.0).but(initialisation=LOUD),
    "learned_offset": _decoder(pre_norm(LAYER, BOTH.but(mask=Causal()), FEED), position=LearnedPosition(length=40, offset=2)),
    "sinusoids": _decoder(pre_norm(LAYER, BOTH.but(mask=Causal()), FEED), position=SinusoidalPosition()),
    "sinusoids_halves": _decoder(
        pre_norm(LAYER, BOTH.but(mask=Causal()), FEED),
        position=SinusoidalPosition(layout="halves", spacing="inclusive", offset=2, theta=500.0),
    ),
    "post_norm": _decoder(post_norm(LAYER, SELF, PLAIN_FEED), final_norm=None, input_norm=LAYER),
    "sandwich": _decoder(sandwich(RMS, SELF, FEED)),
    "output_norm": _decoder(output_norm(RMS, SELF, FEED)),
    "parallel_one_norm": _decoder(parallel(LAYER, SELF, FEED)),
    "parallel_two_norms": _decoder(parallel(LAYER, SELF, FEED, shared_norm=False)),
    "multiplier": change_all(
        _llama(), {"decoder.layer.attention.multiplier": 0.22, "decoder.layer.feedforward.multiplier": 2.0}
    ),
    "local_global": _decoder(LOCAL, LOCAL, GLOBAL, LOCAL).but(
        decoder=Stack(variants=Named(local=LOCAL, full=GLOBAL), order="(local*2 full) local", final_norm=RMS)
    ),
    "prefix": _llama(**_at(mask=Causal() | Prefix())),
    "prefix_or_window": _llama(**_at(mask=Window(size=3) | Prefix())),
    **{f"activation_{name}": _llama(**{"decoder.layer.feedforward.activation": name}) for name in ACTIVATIONS},
    "not_gated": _llama(**{"decoder.layer.feedforward.gated": False}),
    "truncated_init": _llama(initialisation=Initialisation(matrix=TruncatedNormal(std=0.3), embedding=Normal(std=1.0))),
    "xavier_init": _llama(initialisation=Initialisation(matrix=Xavier(), embedding=Normal(std=1.0), residual_scale=0.5)),
}


def _encoder(*blocks, **more) -> Architecture:
    return encoder_only(Embedding(vocab=VOCAB), WIDTH, blocks, initialisation=LOUD, **more)


ENCODERS = {
    "encoder": _encoder(
        *[post_norm(LAYER, BOTH, PLAIN_FEED)] * 2,
        position=LearnedPosition(length=32),
        input_norm=LAYER,
        head=Head(tied=True, bias=True),
    ),
    "encoder_features": _encoder(*[pre_norm(RMS, BOTH.but(rotary=Rotary()), FEED)] * 2),
    "encoder_window": _encoder(
        *[pre_norm(RMS, BOTH.but(mask=Window(size=3, after=2)), FEED)] * 2, position=SinusoidalPosition(), head=Head()
    ),
}

CROSS = CrossAttention(heads=4, kv_heads=2, head_width=5, bias=ALL, qk_norm=RMS)
PAIRS = {
    "original": original(width=WIDTH, depth=2, heads=4, ffn=20, vocab=VOCAB, dropout=0.0).but(initialisation=LOUD),
    "pair_pre_norm": encoder_decoder(
        Embedding(vocab=VOCAB),
        WIDTH,
        stack([pre_norm(RMS, BOTH.but(rotary=Rotary()), FEED)], final_norm=RMS),
        stack([pre_norm(RMS, SELF, CROSS, FEED)] * 2, final_norm=RMS),
        decoder_embedding=Embedding(vocab=29),
        initialisation=LOUD,
    ),
    "pair_window": encoder_decoder(
        Embedding(vocab=VOCAB),
        WIDTH,
        stack([pre_norm(RMS, BOTH, FEED)], position=LearnedPosition(length=32)),
        stack([pre_norm(RMS, SELF.but(mask=Window(size=3)), CrossAttention(heads=2, softcap=3.0), FEED)] * 2),
        initialisation=LOUD,
    ),
}

ZOO: dict[str, Architecture] = {**DECODERS, **ENCODERS, **PAIRS}
