"""Phi 1 and 2: attention beside feed-forward under one LayerNorm, biases everywhere. Phi 3 and 4: Llama, fused, LongRoPE."""

from __future__ import annotations

import math
from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.dense import (
    FUSED_GATE,
    FUSED_QKV,
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
from anyformer.huggingface.families.llama import ATTENTION, NORMS, OUTSIDE, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import read_rotary, rope_parameters, write_activation
from anyformer.model import Architecture
from anyformer.parts import Causal, Head, LayerNorm, RMSNorm, Rotary, Window, parallel, pre_norm
from anyformer.parts.heads import PROJECTIONS

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


def read_phi(config: Config) -> Architecture:
    norm = LayerNorm(eps=config("layer_norm_eps", 1e-5))
    attention = read_attention(
        config,
        read_positions(config, fraction=0.5),
        bias=PROJECTIONS,
        qk_norm=norm if config("qk_layernorm", False) else None,
    )
    feedforward = read_feedforward(config, "gelu_new", bias=PLAIN, gated=False)
    return read_decoder(
        config,
        repeated(config, parallel(norm, attention, feedforward, dropout=config("resid_pdrop", 0.0))),
        head=Head(bias=True),
        dropout=config("embd_pdrop", 0.0),
        final_norm=norm,
    )


def write_phi(architecture: Architecture) -> dict[str, Any]:
    attention, feedforward = write_sublayers(architecture)
    written = write_decoder(architecture, "layer_norm_eps") | write_attention(attention)
    written["rope_parameters"].setdefault("partial_rotary_factor", 1.0)
    return present(written) | {
        "qk_layernorm": attention.qk_norm is not None,
        "resid_pdrop": get(architecture, "decoder.layer.attention.dropout"),
        "embd_pdrop": get(architecture, "decoder.dropout"),
        "intermediate_size": feedforward.width,
        # Of transformers' two tanh forms of GELU, other bits each, this is the family's.
        "hidden_act": {"gelu_tanh": "gelu_new"}.get(feedforward.activation) or write_activation(feedforward.activation),
    }


def read_phi3(config: Config) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5))
    window = config("sliding_window", None)
    attention = read_attention(config, read_long(config), mask=Causal() if window is None else Window(size=window))
    feedforward = read_feedforward(config, "silu")
    block = pre_norm(norm, attention, feedforward, dropout=config("resid_pdrop", 0.0))
    return read_decoder(config, repeated(config, block), final_norm=norm)


def read_long(config: Config) -> Rotary:
    """LongRoPE, also under its older names; the factor of the waves follows from the lengths unless it is given."""
    table = rope_parameters(config)
    fraction = float(table.pop("partial_rotary_factor", config("partial_rotary_factor", 1.0)))
    trained, longest = config("original_max_position_embeddings", 4096), config("max_position_embeddings", 4096)
    if table["rope_type"] not in ("su", "yarn", "longrope"):
        return read_rotary(table, fraction=fraction)
    factor = table.pop("factor", None) or longest / trained
    if table.get("attention_factor") is None:
        table["attention_factor"] = math.sqrt(1 + math.log(factor) / math.log(trained)) if factor > 1 else 1.0
    table |= {"rope_type": "longrope", "original_max_position_embeddings": trained}
    return read_rotary(table, fraction=fraction)


def write_phi3(architecture: Architecture) -> dict[str, Any]:
    attention, feedforward = write_sublayers(architecture)
    written = write_decoder(architecture) | write_attention(attention)
    trained = written["rope_parameters"].get("original_max_position_embeddings", 4096)
    return present(written) | {
        "original_max_position_embeddings": trained,
        "sliding_window": attention.mask.reach,
        "resid_pdrop": get(architecture, "decoder.layer.attention.dropout"),
        "intermediate_size": feedforward.width,
        "hidden_act": write_activation(feedforward.activation),
        # The class's own default lies beyond a small vocabulary, and then refuses to load.
        "pad_token_id": None,
    }


FAMILIES = (
    Family(
        "phi",
        read_phi,
        write_phi,
        lambda architecture: decoder_names(PHI_LAYER, outside=PHI_OUTSIDE),
        "PhiForCausalLM",
        ignored=(r".*rotary_emb\.inv_freq",),
    ),
    Family(
        "phi3",
        read_phi3,
        write_phi3,
        lambda architecture: decoder_names(FUSED_QKV, {"attention.output": "self_attn.o_proj"}, FUSED_GATE, NORMS),
        "Phi3ForCausalLM",
        inert=("embd_pdrop",),
        ignored=(r".*rotary_emb\.inv_freq",),
    ),
)
