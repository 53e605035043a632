"""Pix2Struct's text decoder without the image that it reads: T5's layers, gated, and a head of its own."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.words.activations import known
from anyformer.huggingface.words.names import decoder_names
from anyformer.huggingface.words.t5_line import buckets, t5_activation
from anyformer.model import Architecture
from anyformer.parts import Attention, FeedForward, Score, SharedBias, Softmax, pre_norm


def read(config: Config) -> Architecture:
    config.assume(vocab_size=50_244, hidden_size=768, num_layers=12, num_heads=12, d_kv=64, d_ff=2048)
    config.expect_all(is_decoder=True, add_cross_attention=False)
    norm, dropout = words.rms_norm(config, key="layer_norm_epsilon"), config("dropout_rate", 0.1, "stack.dropout")
    heads, width = config("num_heads"), config("hidden_size")
    config.expect("d_kv", width // heads, why=f"hidden_size / num_heads = {width} / {heads}: heads share out the width")
    attention = Attention(heads=heads, score=Score(scale=1.0), weigh=Softmax(dropout=dropout))
    act = config("dense_act_fn", "gelu_new", lambda target: t5_activation(target("feedforward.activation")))
    network = FeedForward(width=config("d_ff"), activation=known(act), gated=True, dropout=dropout)
    block = pre_norm(norm, attention, network, dropout=dropout)
    bias = SharedBias(heads=heads, buckets=buckets(config, "decoder"))
    around = {"score_bias": bias, "dropout": dropout}
    layers = words.repeated(config, block, "num_layers")
    return words.decoder(config, layers, norm, length=None, around=around)


_NAMES: Table = {
    **{f"attention.{side}": f"self_attention.attention.{side}" for side in words.ALL},
    "attention.norm_before": "self_attention.layer_norm",
    "feedforward.gate": "mlp.DenseReluDense.wi_0",
    "feedforward.up": "mlp.DenseReluDense.wi_1",
    "feedforward.down": "mlp.DenseReluDense.wo",
    "feedforward.norm_before": "mlp.layer_norm",
}
_OUTSIDE: Table = {
    "embedding": "embed_tokens",
    "decoder.score_bias": "layer.0.self_attention.attention.relative_attention_bias",
    "decoder.final_norm": "final_layer_norm",
    "head": "lm_head",
}
FAMILIES = (
    Family(
        "pix2struct_text_model",
        read,
        decoder_names(_NAMES, outside=_OUTSIDE, prefix="layer.{i}."),
        "Pix2StructTextModel",
        inert=("decoder_start_token_id", "initializer_factor", "initializer_range", "is_encoder_decoder"),
    ),
)
