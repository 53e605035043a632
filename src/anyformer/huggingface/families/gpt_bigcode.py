"""GPT-BigCode (SantaCoder, StarCoder): GPT-2 with one head of keys and values."""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families import gpt2
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Groups, Names, Table, To
from anyformer.huggingface.spelling import write_activation
from anyformer.model import Architecture
from anyformer.parts import Attention, LayerNorm
from anyformer.parts.heads import PROJECTIONS

FEEDFORWARD: Table = {"feedforward.up": "mlp.c_fc", "feedforward.down": "mlp.c_proj"}
ROUNDING = ("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32")
SERVING = (
    "inference_runner", "max_batch_size", "max_sequence_length", "pad_key_length", "pre_allocate_kv_cache",
    "runner_max_sequence_length", "validate_runner_input",
)  # fmt: skip


def read(config: Config) -> Architecture:
    heads, shared = config("n_head", 12), config("multi_query", True)
    config.expect("num_key_value_heads", 1 if shared else heads, why="it follows from multi_query")
    attention = Attention(
        heads=heads,
        kv_heads=1 if shared else None,
        bias=PROJECTIONS,
        scale=None if config("scale_attn_weights", True) else 1.0,
        dropout=config("attn_pdrop", 0.1),
    )
    attentions = [attention] * config("n_layer", 12)
    return gpt2.learned_decoder(config, config("n_embd", 768), attentions, "gelu_pytorch_tanh", LayerNorm())


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = get(architecture, "decoder.layer.attention.sublayer")
    return gpt2.common(architecture) | {
        "n_positions": get(architecture, "decoder.position.length"),
        "n_inner": get(architecture, "decoder.layer.feedforward.width"),
        "activation_function": write_activation(get(architecture, "decoder.layer.feedforward.activation")),
        "attn_pdrop": attention.dropout,
        "scale_attn_weights": attention.scale != 1.0,
        "multi_query": attention.kv_heads == 1,
    }


def names(architecture: Architecture) -> Names:
    groups = get(architecture, "decoder.layer.attention.sublayer").groups
    table: Table = {gpt2.QKV: To("attn.c_attn", Groups(groups)), "attention.output": "attn.c_proj"}
    return Names(gpt2.OUTSIDE, {"decoder": (gpt2.LAYER, {**gpt2.NORMS, **table, **FEEDFORWARD})})


FAMILIES = (
    Family(
        "gpt_bigcode",
        read,
        write,
        names,
        "GPTBigCodeForCausalLM",
        inert=(*gpt2.INERT, *ROUNDING, *SERVING),
        ignored=(gpt2.MASKS, r"(transformer\.)?bias"),
        base=gpt2.BASE,
    ),
)
