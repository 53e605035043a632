"""StarCoder 2: LayerNorm before, a plain feed-forward with biases, rotary positions in a sliding window."""

from __future__ import annotations

from typing import Any

from anyformer.describe import change, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, each, masked, model, needs, plain, renamed, repeated
from anyformer.huggingface.families.llama import ATTENTION, NORMS, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import read_rope
from anyformer.model import Architecture
from anyformer.parts import LayerNorm, pre_norm
from anyformer.parts.attention.heads import PROJECTIONS

FEEDFORWARD: Table = {"feedforward.up": "mlp.c_fc", "feedforward.down": "mlp.c_proj"}


def read(config: Config) -> Architecture:
    config.assume(num_key_value_heads=2, tie_word_embeddings=True, initializer_range=0.018042)
    needs(config, "num_key_value_heads")
    config.expect("norm_type", "layer_norm")
    config.expect("mlp_type", "default")
    norm = LayerNorm(eps=config("norm_epsilon", 1e-5))
    bias = config("use_bias", True)
    mask = masked(config("sliding_window", None))
    heads = attention(config, rotary=read_rope(config), mask=mask, bias=PROJECTIONS if bias else ())
    network = plain(config, "gelu_pytorch_tanh", bias=bias)
    block = pre_norm(norm, heads, network, dropout=config("residual_dropout", 0.0))
    return change(model(config, repeated(config, block), norm), "decoder.dropout", config("embedding_dropout", 0.0))


def write(architecture: Architecture) -> dict[str, Any]:
    return {
        **renamed(decoder.write(architecture), rms_norm_eps="norm_epsilon"),
        "use_bias": decoder.biased(architecture),
        "sliding_window": each(architecture, "attention.mask")[0].reach,
        "residual_dropout": each(architecture, "attention.dropout")[0],
        "embedding_dropout": get(architecture, "decoder.dropout"),
    }


FAMILIES = (
    Family(
        "starcoder2",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, FEEDFORWARD, NORMS),
        "Starcoder2ForCausalLM",
        # Keys of StarCoder 1 in published files, which the class does not read.
        inert=(
            "activation_function",
            "attention_softmax_in_fp32",
            "layer_norm_epsilon",
            "scale_attention_softmax_in_fp32",
            "scale_attn_weights",
        ),
        ignored=BUFFERS,
    ),
)
