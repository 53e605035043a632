"""Hy4's line: latent attention with sinks and gates over keys that layers choose together, and streams that are never mixed."""

from __future__ import annotations

from typing import Literal

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.indexers import EARLIER, INDEXERS, OWN, sharing_layers
from anyformer.huggingface.words.latent import indexer
from anyformer.huggingface.words.names import CORRECTION, FEEDFORWARD, NORMS, OUTSIDE, SHARED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Experts, Gate, IndependentConnections, LayerNorm, RMSNorm


def read_of(
    config: Config, *, q_rank: int, index_heads: int, expert_width: int, pairing: Literal["halves", "adjacent"]
) -> Architecture:
    """The model; the numbers are defaults of absent keys, `pairing` says which features turn together."""
    config.assume(initializer_range=0.006)
    config.put(bos_token_id=None, eos_token_id=None)  # the class's own ids may lie outside a small vocabulary
    config.expect("hidden_act", "silu", why="the experts have silu, whatever the key says")
    config("q_lora_rank", q_rank, kind=SIZE)
    norm = words.rms_norm(config, 1e-5)
    plain = words.latent_attention(config, q_rank=q_rank, nope=192, value=256, pairing=pairing)
    attention = plain.but(gate=Gate(), sink="head")
    choice = indexer(config, plain, heads=index_heads, pairing=pairing, place="last", norm=LayerNorm(eps=norm.eps))
    networks = {"dense": words.feedforward(config), "experts": _experts(config, expert_width)}

    def absent(layer: int) -> str:
        return OWN if layer == 0 or layer % 4 == 1 else EARLIER

    indexers = words.types(config, absent, "indexer_types", INDEXERS)
    layers = sharing_layers(config, norm, attention, choice, networks, indexers, words.mlp_types(config, 1))
    return words.decoder(config, layers, norm, around={"streams": _streams(config, norm)})


def _experts(config: Config, width: int) -> Experts:
    """The routed ones have a clamp, and the shared one none."""
    clamp = float(config("swiglu_limit", 10.0, "experts.clamp"))
    if clamp <= 0:
        raise HuggingFaceError(
            f"{config.where}: swiglu_limit = {clamp:g} is not supported, only numbers above 0: transformers documents it as no "
            "clamp, and clamps all the same"
        )
    router, counted = words.v3_router(config, scale=2.827), ("n_routed_experts", "num_local_experts")
    routed = words.experts(config, router, count=256, chosen=8, width=width, counted=counted, clamp=clamp)
    return words.shared_of(config, routed, 1, "n_shared_experts")


def _streams(config: Config, norm: RMSNorm) -> IndependentConnections:
    return IndependentConnections(
        count=config("hc_mult", 4, "stack.streams.count"),
        magnitude=float(config("hc_magnitude", 2.0, "stack.streams.magnitude")),
        eps=float(config("hc_eps", 1e-6, "stack.streams.eps")),
        norm_eps=norm.eps,
        merge="learned",
    )


_ATTENTION: Table = {
    "latent_attention.gate.projection": "self_attn.linear_gate",
    "latent_attention.sink": "self_attn.learnable_sink_param",
}
_NETWORKS: Table = {
    **FEEDFORWARD,
    **SHARED,
    "feedforward.gate": "mlp.linear_gate",
    "experts.shared.gate": "mlp.shared_experts.linear_gate",
    "experts.router": "mlp.gate",
    ("experts.gate", "experts.up"): To("mlp.experts.gate_up_proj", Rows(dim=1)),
    "experts.down": "mlp.experts.down_proj",
}
_WEIGHTS = {"dynamic.weight": "fn", "static": "base", "strength": "scale"}
"""Weights of streams."""
_STREAMS: Table = {
    f"step_{step}_streams.{ours}": f"hc_pre.hc_{name}_layer.hc_{theirs}"
    for step, name in enumerate(("attn", "mlp"))
    for ours, theirs in _WEIGHTS.items()
}
_OUTSIDE: Table = {
    **OUTSIDE,
    **{f"decoder.streams.leave.{ours}": f"model.hc_pre.hc_head.hc_head_{theirs}" for ours, theirs in _WEIGHTS.items()},
}
SPELLINGS = {
    r"\.gate_proj\.": ".linear_gate.",
    r"\.sinks$": ".learnable_sink_param",
    r"\.attn_hc\.|(\.hc_pre)?\.hc_attn_layer(\.hc_pre)?\.hc_": ".hc_pre.hc_attn_layer.hc_",
    r"\.ffn_hc\.|(\.hc_pre)?\.hc_mlp_layer(\.hc_pre)?\.hc_": ".hc_pre.hc_mlp_layer.hc_",
    r"(^|\.)(?:hc_pre\.)?hc_head\.(?:hc_pre\.)?hc_(?:head_)?": r"\1hc_pre.hc_head.hc_head_",
}
"""Pattern in names that transformers loads, of released files and of its modules -> what it writes there, gates included."""


def names(architecture: Architecture) -> Names:
    latent = words.latent_names(architecture)
    return decoder_names(latent, _ATTENTION, _NETWORKS, CORRECTION, NORMS, _STREAMS, outside=_OUTSIDE)


INERT = ("head_dim", "layer_types", "learnable_sink_init", "num_nextn_predict_layers")
"""`head_dim` repeats the width of the rotated features, and `layer_types` says of each layer that it has chosen keys."""
