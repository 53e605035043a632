"""A.X K2: latent attention over chosen keys, queries and a gate from the queries' latent, and norms that a gate weighs."""

from __future__ import annotations

from anyformer.describe import change
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import GroupedRows, Names, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.latent import indexer
from anyformer.huggingface.words.names import CORRECTION, FEEDFORWARD, NORMS, ROUTED, SHARED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Gate, GatedNorm, pre_norm


def read(config: Config) -> Architecture:
    """Queries always have a latent; layers with experts have a gated norm before them too."""
    config.assume(vocab_size=163_840, hidden_size=2048, num_hidden_layers=48, num_attention_heads=32, intermediate_size=5120)
    config.put(bos_token_id=None, eos_token_id=None)  # the class's own ids may lie outside a small vocabulary
    config.expect("moe_layer_freq", 1)
    config("q_lora_rank", 384, kind=SIZE)
    plain = words.latent_attention(config, q_rank=384, kv_rank=128, nope=64, rope=32, value=64, pairing="adjacent")
    attention = plain.but(
        queries_from="both", gate=Gate(), gate_from="queries", choice=indexer(config, plain, heads=16, pairing="halves")
    )
    norm = words.rms_norm(config)
    gated = GatedNorm(norm=norm, rank=config("gated_norm_rank", 16, "latent_attention.norm_before.rank"))
    routed = words.experts(
        config, words.v3_router(config, groups=None, keep=None, scale=2.5), count=128, chosen=8, width=512,
        counted=("n_routed_experts", "num_local_experts"),
    )  # fmt: skip
    experts = words.shared_of(config, routed, 1, "n_shared_experts")
    blocks = {
        "dense": change(pre_norm(gated, attention, words.feedforward(config)), "feedforward.norm_before", norm),
        "experts": pre_norm(gated, attention, experts),
    }
    kinds = words.mlp_types(config, config("first_k_dense_replace", 1))
    return words.decoder(config, words.layered(blocks.__getitem__, kinds), norm)


def _gated_names(ours: str, theirs: str) -> dict[str, str]:
    return {f"{ours}.norm": f"{theirs}.norm", f"{ours}.down": f"{theirs}.W_down", f"{ours}.up": f"{theirs}.W_up"}


def names(architecture: Architecture) -> Names:
    """One matrix makes queries and gates, head by head."""
    latent = words.latent_names(architecture)
    heads = Target(architecture)("latent_attention.heads")
    both = {("latent_attention.query_up", "latent_attention.gate.projection"): To("self_attn.q_b_proj", GroupedRows(heads))}
    attention: Table = {ours: theirs for ours, theirs in latent.items() if ours != "latent_attention.query_up"} | both
    gated = _gated_names("latent_attention.norm_before", "input_layernorm")
    gated |= _gated_names("experts.norm_before", "post_attention_layernorm")
    return decoder_names(attention, ROUTED, CORRECTION, SHARED, FEEDFORWARD, NORMS, gated)


FAMILIES = (Family("axk2", read, names, "AXK2ForCausalLM", inert=("head_dim", "layer_types", "scoring_func", "topk_method")),)
"""`head_dim` repeats the width of the rotated features, and `layer_types` says of each layer that it has an indexer."""
