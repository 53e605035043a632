"""Phi 1 and 2: parallel attention and network with one LayerNorm, biases everywhere. Phi 3 and 4: Llama, fused, LongRoPE."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.names import ATTENTION, FUSED_GATE, FUSED_QKV, NORMS, OUTSIDE, SHARED_NORM, decoder_names
from anyformer.model import Architecture
from anyformer.parts import QKNorm, Rotary, parallel, pre_norm

_PHI = {
    "attention.output": "self_attn.dense",
    "attention.query_norm": "self_attn.q_layernorm",
    "attention.key_norm": "self_attn.k_layernorm",
    "feedforward.up": "mlp.fc1",
    "feedforward.down": "mlp.fc2",
}


def read(config: Config) -> Architecture:
    norm = words.layer_norm(config)
    qk_norm = QKNorm(norm=norm) if config("qk_layernorm", False) else None
    heads = words.attention(config, rotary=words.rotary(config, fraction=0.5), bias=words.ALL, qk_norm=qk_norm)
    block = parallel(norm, heads, words.plain(config, "gelu_new"), dropout=config("resid_pdrop", 0.0))
    around = {"dropout": config("embd_pdrop", 0.0)}
    return words.decoder(config, words.repeated(config, block), norm, around=around, bias=True)


def read3(config: Config) -> Architecture:
    # Keys of published files that transformers does not read.
    config.expect_all(attention_bias=False, mlp_bias=False, lm_head_bias=False, full_attn_mod=1, interpolate_factor=1)
    norm = words.rms_norm(config, 1e-5)
    heads = words.attention(config, rotary=_long(config), mask=words.mask_of_all(config), bias=())
    block = pre_norm(norm, heads, words.feedforward(config), dropout=config("resid_pdrop", 0.0))
    return words.decoder(config, words.repeated(config, block), norm)


def _long(config: Config) -> Rotary:
    """LongRoPE, also under its older names; its attention factor follows from the lengths unless it is given."""
    key = "original_max_position_embeddings"
    trained = config(key, 4096, lambda target: words.rope_table(target).get(key, 4096))
    config.assume(max_position_embeddings=4096)
    table = words.rope_parameters(config, trained=trained)
    fraction = float(table.pop("partial_rotary_factor", config("partial_rotary_factor", 1.0)))
    if table["rope_type"] not in ("su", "yarn", "longrope"):
        return words.from_table(table, fraction=fraction)
    if trained < 2:
        raise config.refused(key, trained, "at least 2")
    factor = config("max_position_embeddings") / trained
    return words.from_table({"factor": factor, **table, "rope_type": "longrope"}, fraction=fraction)


FAMILIES = (
    Family(
        "phi",
        read,
        decoder_names(ATTENTION, _PHI, SHARED_NORM, outside={**OUTSIDE, "decoder.final_norm": "model.final_layernorm"}),
        "PhiForCausalLM",
    ),
    Family("phi3", read3, decoder_names(FUSED_QKV, FUSED_GATE, NORMS), "Phi3ForCausalLM", inert=("embd_pdrop",)),
)
