"""Llama 4's text model: layers of chunks with rotary positions, layers that see all without, experts of scaled inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.experts import (
    EXPERTS_NORM,
    decoder,
    dense_width,
    expert_layers,
    first,
    heads,
    label,
    layer_words,
    shared_expert,
    shared_names,
    sublayers,
    window_size,
    written_activation,
)
from anyformer.huggingface.families.old_llama import ATTENTION, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Rows, Table, Then, To, Transposed
from anyformer.huggingface.spelling import FULL, activation, read_rotary, rope_parameters, write_rope
from anyformer.huggingface.vocabulary import SIZE
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Causal,
    Chunk,
    Experts,
    FeedForward,
    LogTemperature,
    RMSNorm,
    Router,
    TopK,
    pre_norm,
)
from anyformer.parts.heads import PROJECTIONS
from anyformer.parts.mask import Mask

CHUNKED = "chunked_attention"
_NAMES: Table = {
    **{f"feedforward.{side}": f"feed_forward.{side}_proj" for side in ("gate", "up", "down")},
    "experts.router": "feed_forward.router",
    ("experts.gate", "experts.up"): To("feed_forward.experts.gate_up_proj", Then(Transposed(), Rows(dim=1))),
    "experts.down": To("feed_forward.experts.down_proj", Transposed()),
    **shared_names("feed_forward.shared_expert"),
}


def read(config: Config) -> Architecture:
    depth, step = config("num_hidden_layers"), config("no_rope_layer_interval", 4, kind=SIZE)
    turned = config("no_rope_layers", None) or [int((i + 1) % step != 0) for i in range(depth)]
    if len(turned) != depth:
        raise HuggingFaceError(f"{config.where}: no_rope_layers has {len(turned)} entries for {depth} layers")
    places = ["rotary" if turned[i] else "unplaced" for i in range(depth)]
    seen = layer_words(config, lambda i: CHUNKED if turned[i] else FULL)
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5))
    attentions, mlps, wide = _attentions(config, norm), _mlps(config), _networks(config)
    chunk, full = config("attention_chunk_size", 8192), Causal()
    masks: Mapping[str, Mask] = {"full": full} if chunk is None else {"full": full, "local": full & Chunk(size=chunk)}
    blocks = [
        pre_norm(norm, attentions[place].but(mask=masks[word]), wide[mlp])
        for place, word, mlp in zip(places, seen, mlps, strict=True)
    ]
    usual = all((word == "local") == (place == "rotary") for word, place in zip(seen, places, strict=True))
    return decoder(config, label(seen, *([] if usual else [places]), mlps), blocks, norm)


def _attentions(config: Config, norm: RMSNorm) -> dict[str, Attention]:
    """With rotary positions, and norms without gain after them; and without, whose queries grow with their position."""
    plain = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", 8),
        head_width=config("head_dim", 128),
        bias=PROJECTIONS if config("attention_bias", False) else (),
        dropout=config("attention_dropout", 0.0),
    )
    rotary = plain.but(rotary=read_rotary(rope_parameters(config, theta=5e5), pairing="adjacent", rotate_in="fp32"))
    if config("use_qk_norm", True):
        rotary = rotary.but(qk_norm=norm.but(gain="none"), qk_norm_at="after_rotary")
    strength, span = config("attn_scale", 0.1), config("floor_scale", 8192)
    tuned = LogTemperature(strength=strength, span=span) if config("attn_temperature_tuning", True) else None
    return {"rotary": rotary, "unplaced": plain.but(temperature=tuned)}


def _mlps(config: Config) -> list[str]:
    """What each layer holds after its attention."""
    depth, step, sparse = config("num_hidden_layers"), config("interleave_moe_layer_step", 1), config("moe_layers", None)
    sparse = range(step - 1, depth, step) if sparse is None else sparse
    return ["experts" if i in sparse else "dense" for i in range(depth)]


def _networks(config: Config) -> dict[str, Experts | FeedForward]:
    act, width = activation(config("hidden_act", "silu")), config("intermediate_size", 8192)
    experts = Experts(
        experts=config("num_local_experts", 16),
        chosen=config("num_experts_per_tok", 1),
        width=width,
        activation=act,
        router=Router(score="sigmoid", choice=TopK(by="logits")),
        weigh="input",
        shared=shared_expert(width, act),
    )
    return {"experts": experts, "dense": FeedForward(width=config("intermediate_size_mlp", 16384), activation=act)}


def write(architecture: Architecture) -> dict[str, Any]:
    attentions: list[Attention] = sublayers(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    turning = [attention for attention in attentions if attention.rotary is not None]
    tuned = [attention.temperature.plain() for attention in attentions if attention.temperature is not None]
    return (
        common(architecture)
        | heads(attentions[0])
        | {
            "attention_bias": bool(attentions[0].bias),
            "no_rope_layers": [int(attention.rotary is not None) for attention in attentions],
            **write_rope(turning[0].rotary if turning else None),
            "use_qk_norm": any(attention.qk_norm is not None for attention in turning),
            "layer_types": [CHUNKED if attention.mask.reach else FULL for attention in attentions],
            "attention_chunk_size": window_size(architecture),
            "attn_temperature_tuning": bool(tuned),
            **({"attn_scale": tuned[0]["strength"], "floor_scale": tuned[0]["span"]} if tuned else {}),
            "moe_layers": [i for i, sparse in enumerate(expert_layers(architecture)) if sparse],
            "num_local_experts": experts.experts,
            "num_experts_per_tok": experts.chosen,
            "intermediate_size": experts.width,
            "intermediate_size_mlp": dense_width(architecture, 16384),
            "hidden_act": written_activation(architecture),
        }
    )


FAMILIES = (
    Family(
        "llama4_text",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, _NAMES, NORMS, EXPERTS_NORM),
        "Llama4ForCausalLM",
        inert=("for_llm_compressor", "router_jitter_noise"),
    ),
)
