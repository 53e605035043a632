"""Mistral 4: DeepSeek-V3's latent attention with a temperature of the queries, and softmax experts in groups."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.latent import stretched_table
from anyformer.huggingface.words.names import FEEDFORWARD, NORMS, SHARED, decoder_names
from anyformer.huggingface.words.rope import SHARE
from anyformer.model import Architecture
from anyformer.parts import Groups, LogTemperature, Renormalise, Router, TopK, pre_norm

_STRENGTH, _SPAN, _LONGEST = "llama_4_scaling_beta", "original_max_position_embeddings", "max_position_embeddings"
_ROPE = {
    "rope_type": "yarn", "rope_theta": 10_000.0, "factor": 128.0, _SPAN: 8192, "beta_fast": 32.0, "beta_slow": 1.0,
    "mscale_all_dim": 1.0, "mscale": 1.0, _STRENGTH: 0.1,
}  # fmt: skip
"""The rotary settings where the configuration has no table."""


def read(config: Config) -> Architecture:
    config.assume(vocab_size=131_072, hidden_size=4096, num_hidden_layers=36, num_attention_heads=32, intermediate_size=12_288)
    config.assume(max_position_embeddings=1_048_576, rope_parameters=_ROPE)
    table = words.rope_parameters(config, at=_table)
    if not table.get(_STRENGTH) or not table.get(_SPAN):
        raise HuggingFaceError(
            f"{config.where}: rope_parameters needs {_STRENGTH} and {_SPAN}, which the queries are scaled by"
        )
    if table["rope_type"] != "yarn":
        raise HuggingFaceError(f"{config.where}: rope_type = {table['rope_type']!r} is not supported for mistral4, only yarn")
    nope, rope = config("qk_nope_head_dim", 64), config("qk_rope_head_dim", 64)
    config.expect("head_dim", nope + rope, why="its share is what turns, and that is qk_rope_head_dim")
    attention = words.latent_attention(
        config, q_rank=1024, kv_rank=256, nope=64, rope=64, interleave=True, at=_table, share=rope / (nope + rope),
        unread=(_STRENGTH, _LONGEST),
    ).but(temperature=LogTemperature(strength=table[_STRENGTH], span=table[_SPAN], shift=0))  # fmt: skip
    count, kept = config("n_group", 1), config("topk_group", 1)
    groups = None if count == kept else Groups(count=count, keep=kept, score="top_2")
    router = Router(
        choice=TopK(groups=groups),
        renormalise=words.renormalised(config, True, rule=Renormalise()),
        scale=float(config("routed_scaling_factor", 1.0)),
    )
    counted = ("n_routed_experts", "num_local_experts")
    experts = words.experts(config, router, count=128, chosen=4, width=2048, counted=counted)
    experts, norm = words.shared_of(config, experts, 1, "n_shared_experts"), words.rms_norm(config)
    blocks = {"dense": pre_norm(norm, attention, words.feedforward(config)), "experts": pre_norm(norm, attention, experts)}
    return words.decoder(config, words.layered(blocks.__getitem__, words.dense_first(config, "first_k_dense_replace", 0)), norm)


def _table(target: Target) -> dict[str, Any]:
    """`rope_parameters`, with the temperature and the share of a head that turns."""
    attention = target("latent_attention.sublayer")
    warm = {_SPAN: target("latent_attention.temperature.span"), _STRENGTH: target("latent_attention.temperature.strength")}
    return {**stretched_table(target), **warm, SHARE: attention.rope_width / attention.query_width}


def names(architecture: Architecture) -> Names:
    return decoder_names(words.latent_names(architecture), _EXPERTS, SHARED, FEEDFORWARD, NORMS)


_EXPERTS: Table = {
    "experts.router": "mlp.gate",
    ("experts.gate", "experts.up"): To("mlp.experts.gate_up_proj", Rows(dim=1)),
    "experts.down": "mlp.experts.down_proj",
}
"""transformers stacks the experts of Mistral 4 in its files too."""


FAMILIES = (Family("mistral4", read, names, "Mistral4ForCausalLM"),)
