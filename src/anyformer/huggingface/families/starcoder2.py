"""StarCoder 2: LayerNorm before, a plain feed-forward with biases, rotary positions in a sliding window."""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.dense import (
    PLAIN,
    present,
    read_attention,
    read_decoder,
    read_feedforward,
    read_positions,
    repeated,
    write_attention,
    write_decoder,
    write_sublayers,
)
from anyformer.huggingface.families.llama import ATTENTION, NORMS, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import write_activation
from anyformer.model import Architecture
from anyformer.parts import Causal, LayerNorm, Window, pre_norm
from anyformer.parts.heads import PROJECTIONS

FEEDFORWARD: Table = {"feedforward.up": "mlp.c_fc", "feedforward.down": "mlp.c_proj"}


def read(config: Config) -> Architecture:
    config.expect("norm_type", "layer_norm")
    config.expect("mlp_type", "default")
    norm = LayerNorm(eps=config("norm_epsilon", 1e-5))
    window = config("sliding_window", None)
    bias = config("use_bias", True)
    attention = read_attention(
        config,
        read_positions(config),
        kv_heads=2,
        bias=PROJECTIONS if bias else (),
        mask=Causal() if window is None else Window(size=window),
    )
    feedforward = read_feedforward(config, "gelu_pytorch_tanh", bias=PLAIN if bias else (), gated=False)
    return read_decoder(
        config,
        repeated(config, pre_norm(norm, attention, feedforward, dropout=config("residual_dropout", 0.0))),
        tied=True,
        dropout=config("embedding_dropout", 0.0),
        final_norm=norm,
    )


def write(architecture: Architecture) -> dict[str, Any]:
    attention, feedforward = write_sublayers(architecture)
    written = write_decoder(architecture, "norm_epsilon") | write_attention(attention)
    return present(written) | {
        "use_bias": bool(attention.bias),
        "sliding_window": attention.mask.reach,
        "residual_dropout": get(architecture, "decoder.layer.attention.dropout"),
        "embedding_dropout": get(architecture, "decoder.dropout"),
        "intermediate_size": feedforward.width,
        "hidden_act": write_activation(feedforward.activation),
    }


FAMILIES = (
    Family(
        "starcoder2",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, FEEDFORWARD, NORMS),
        "Starcoder2ForCausalLM",
        ignored=(r".*rotary_emb\.inv_freq",),
    ),
)
