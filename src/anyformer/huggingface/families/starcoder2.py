"""StarCoder 2: LayerNorm, a plain network with biases, rotary positions and a sliding window."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.names import ATTENTION, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import pre_norm

_FEEDFORWARD = {"feedforward.up": "mlp.c_fc", "feedforward.down": "mlp.c_proj"}


def read(config: Config) -> Architecture:
    config.assume(num_key_value_heads=2, initializer_range=0.018042)
    words.needs(config, "num_key_value_heads")
    config.expect_all(norm_type="layer_norm", mlp_type="default")
    norm, bias = words.layer_norm(config, key="norm_epsilon"), config("use_bias", True)
    heads = words.attention(config, rotary=words.rotary(config), mask=words.mask_of_all(config), bias=words.ALL if bias else ())
    network = words.plain(config, "gelu_pytorch_tanh", bias=bias)
    block = pre_norm(norm, heads, network, dropout=config("residual_dropout", 0.0))
    around = {"dropout": config("embedding_dropout", 0.0)}
    return words.decoder(config, words.repeated(config, block), norm, tied=True, around=around)


FAMILIES = (
    Family(
        "starcoder2",
        read,
        decoder_names(ATTENTION, _FEEDFORWARD, NORMS),
        "Starcoder2ForCausalLM",
        # Keys of StarCoder 1 in published files, which the class does not read.
        inert=(
            "activation_function", "attention_softmax_in_fp32", "layer_norm_epsilon", "scale_attention_softmax_in_fp32",
            "scale_attn_weights",
        ),
    ),
)  # fmt: skip
