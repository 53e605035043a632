"""Phi 1 and 2: attention beside feed-forward under one LayerNorm, biases everywhere. Phi 3 and 4: Llama, fused, LongRoPE."""

from __future__ import annotations

import math
from typing import Any

from anyformer.describe import change, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import (
    BUFFERS,
    FUSED_GATE,
    FUSED_QKV,
    attention,
    each,
    feedforward,
    masked,
    model,
    plain,
    renamed,
    repeated,
)
from anyformer.huggingface.families.llama import ATTENTION, NORMS, OUTSIDE, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import read_rope, read_rotary, rope_parameters
from anyformer.model import Architecture
from anyformer.parts import LayerNorm, RMSNorm, Rotary, parallel, pre_norm
from anyformer.parts.attention.heads import PROJECTIONS

PHI_LAYER: Table = {
    **ATTENTION,
    "attention.output": "self_attn.dense",
    "attention.query_norm": "self_attn.q_layernorm",
    "attention.key_norm": "self_attn.k_layernorm",
    "feedforward.up": "mlp.fc1",
    "feedforward.down": "mlp.fc2",
    "step_0_norm_before": "input_layernorm",
}
PHI_OUTSIDE: Table = {**OUTSIDE, "decoder.final_norm": "model.final_layernorm"}

PHI3_ONLY = {"attention_bias": False, "mlp_bias": False, "lm_head_bias": False, "full_attn_mod": 1, "interpolate_factor": 1}
"""Keys of published files that the class does not read, and what they must say for it to be right."""


def read_phi(config: Config) -> Architecture:
    norm = LayerNorm(eps=config("layer_norm_eps", 1e-5))
    qk_norm = norm if config("qk_layernorm", False) else None
    heads = attention(config, rotary=read_rope(config, fraction=0.5), bias=PROJECTIONS, qk_norm=qk_norm)
    network = plain(config, "gelu_new", bias=True)
    block = parallel(norm, heads, network, dropout=config("resid_pdrop", 0.0))
    made = model(config, repeated(config, block), norm, bias=True)
    return change(made, "decoder.dropout", config("embd_pdrop", 0.0))


def write_phi(architecture: Architecture) -> dict[str, Any]:
    written = renamed(decoder.write(architecture), rms_norm_eps="layer_norm_eps")
    written["rope_parameters"].setdefault("partial_rotary_factor", 1.0)
    return {
        **written,
        "qk_layernorm": each(architecture, "attention.qk_norm")[0] is not None,
        "resid_pdrop": each(architecture, "attention.dropout")[0],
        "embd_pdrop": get(architecture, "decoder.dropout"),
        # Of transformers' two tanh forms of GELU, other bits each, this is the family's.
        "hidden_act": {"gelu_pytorch_tanh": "gelu_new"}.get(written["hidden_act"], written["hidden_act"]),
    }


def read_phi3(config: Config) -> Architecture:
    for name, only in PHI3_ONLY.items():
        config.expect(name, only)
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5))
    heads = attention(config, rotary=read_long(config), mask=masked(config("sliding_window", None)), bias=())
    block = pre_norm(norm, heads, feedforward(config), dropout=config("resid_pdrop", 0.0))
    return model(config, repeated(config, block), norm)


def read_long(config: Config) -> Rotary:
    """LongRoPE, also under its older names; the factor of the waves follows from the lengths unless it is given."""
    table = rope_parameters(config)
    fraction = float(table.pop("partial_rotary_factor", config("partial_rotary_factor", 1.0)))
    trained, longest = config("original_max_position_embeddings", 4096), config("max_position_embeddings", 4096)
    if table["rope_type"] not in ("su", "yarn", "longrope"):
        return read_rotary(table, fraction=fraction)
    factor = table.pop("factor", None) or longest / trained
    if trained < 2:
        raise config.refused("original_max_position_embeddings", trained, "at least 2")
    if table.get("attention_factor") is None:
        table["attention_factor"] = math.sqrt(1 + math.log(factor) / math.log(trained)) if factor > 1 else 1.0
    table |= {"rope_type": "longrope", "original_max_position_embeddings": trained}
    return read_rotary(table, fraction=fraction)


def write_phi3(architecture: Architecture) -> dict[str, Any]:
    written = decoder.write(architecture)
    return {
        **written,
        "original_max_position_embeddings": written["rope_parameters"].get("original_max_position_embeddings", 4096),
        "sliding_window": each(architecture, "attention.mask")[0].reach,
        "resid_pdrop": each(architecture, "attention.dropout")[0],
    }


FAMILIES = (
    Family(
        "phi",
        read_phi,
        write_phi,
        lambda architecture: decoder_names(PHI_LAYER, outside=PHI_OUTSIDE),
        "PhiForCausalLM",
        ignored=BUFFERS,
    ),
    Family(
        "phi3",
        read_phi3,
        write_phi3,
        lambda architecture: decoder_names(FUSED_QKV, FUSED_GATE, NORMS),
        "Phi3ForCausalLM",
        inert=("embd_pdrop",),
        ignored=BUFFERS,
    ),
)
