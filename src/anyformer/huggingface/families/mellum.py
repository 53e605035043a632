"""Mellum 2: Qwen 3 MoE with windows, rotary settings per type of layer, and dense layers by a list."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, QK_NORM, ROUTED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Attention, QKNorm


def read(config: Config) -> Architecture:
    config.assume(sliding_window=1024)
    config.expect("rope_scaling", None)
    norm, tables = words.rms_norm(config), words.tables_by_type(config, {FULL: 500_000.0, SLIDING: 10_000.0})
    rotary = {"full": words.from_table(tables[FULL]), "local": words.from_table(tables[SLIDING])}
    heads = words.attention(config, kv_heads=4, head_width=128, qk_norm=QKNorm(norm=norm))
    router = words.softmax_router(config, renormalises=True)
    experts = words.experts(config, router, count=64, chosen=8, width=896)
    dense = words.feedforward(config, width=7168)

    def attention(kind: str, _: str) -> Attention:
        return heads.but(rotary=rotary[kind], mask=words.mask(config, kind))

    kinds, networks = words.windows(config, lambda i: FULL), words.mlp_types(config, 0)
    return words.decoder(config, words.expert_layers(config, norm, attention, experts, dense, kinds, networks), norm)


FAMILIES = (
    Family(
        "mellum",
        read,
        decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, ROUTED, NORMS),
        "MellumForCausalLM",
        # The layer that predicts a second token is not read.
        inert=("num_mtp_layers", "num_nextn_predict_layers", "mtp_layer_types", "mtp_mlp_layer_types"),
        ignored=(r"mtp\..*",),
    ),
)
