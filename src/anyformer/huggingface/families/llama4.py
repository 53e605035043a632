"""Llama 4's text model: chunked layers with rotary positions, full layers without, experts of scaled inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, has_experts, window
from anyformer.huggingface.rules import Rows, Table, Then, To, Transposed
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.names import ATTENTION, NORMS, decoder_names, gated_names, shared_names
from anyformer.model import Architecture
from anyformer.parts import Attention, Causal, Chunk, Experts, LogTemperature, QKNorm, RMSNorm, Router, TopK

CHUNKED = "chunked_attention"
_NAMES: Table = {
    **gated_names("feed_forward"),
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
    places = ["rotary" if turn else "unplaced" for turn in turned]
    known = {CHUNKED: "local", FULL: "full"}
    kinds = words.types(config, lambda i: CHUNKED if turned[i] else FULL, known=known, at=_types)
    norm, chunk = words.rms_norm(config, 1e-5), config("attention_chunk_size", 8192, window)
    if chunk is None and "local" in kinds:
        raise config.refused("attention_chunk_size", None, f"a number where layer_types names {CHUNKED}")
    masks = {"full": Causal(), "local": Causal() if chunk is None else Causal() & Chunk(size=chunk)}
    heads, usual = _heads(config, norm), {"local": "rotary", "full": "unplaced"}

    def attention(kind: str, *others: str) -> Attention:
        place = others[0] if len(others) == 2 else usual[kind]
        return heads[place].but(mask=masks[kind])

    differing = [] if places == [usual[kind] for kind in kinds] else [places]
    experts, dense = _experts(config), words.feedforward(config, size="intermediate_size_mlp", width=16384)
    layers = words.expert_layers(config, norm, attention, experts, dense, kinds, *differing, _sparse(config))
    return words.decoder(config, layers, norm)


def _types(target: Target) -> list[str]:
    return [CHUNKED if mask.window else FULL for mask in target.each("attention.mask")]


def _heads(config: Config, norm: RMSNorm) -> dict[str, Attention]:
    """Heads with rotary positions, then norms without gain; and heads without, whose queries grow with the position."""
    plain = words.attention(config, kv_heads=8, head_width=128)
    rotary = plain.but(rotary=words.rotary(config, theta=5e5, pairing="adjacent", rotate_in="fp32"))
    if config("use_qk_norm", True, lambda target: any(target.each("attention.qk_norm"))):
        rotary = rotary.but(qk_norm=QKNorm(norm=norm.but(gain="none"), at="after_rotary"))
    tuned = config("attn_temperature_tuning", True, lambda target: bool(_temperatures(target)))
    strength, span = config("attn_scale", 0.1, _temperature("strength")), config("floor_scale", 8192, _temperature("span"))
    return {
        "rotary": rotary,
        "unplaced": plain.but(temperature=LogTemperature(strength=strength, span=span) if tuned else None),
    }


def _temperatures(target: Target) -> list[Any]:
    return [temperature for temperature in target.each("attention.temperature") if temperature is not None]


def _temperature(field: str) -> Callable[[Target], Any]:
    """A field of the temperature of the first layer that has one."""

    def value(target: Target) -> Any:
        for each in _temperatures(target):
            if field in each.plain():
                return each.plain()[field]
        raise MismatchError(f"no layer has a temperature with a {field}")

    return value


def _sparse(config: Config) -> list[str]:
    """`experts` or `dense` for every layer."""
    depth, step = config("num_hidden_layers"), config("interleave_moe_layer_step", 1)
    sparse = config("moe_layers", None, lambda target: [i for i, there in enumerate(has_experts(target)) if there])
    sparse = range(step - 1, depth, step) if sparse is None else sparse
    return ["experts" if i in sparse else "dense" for i in range(depth)]


def _experts(config: Config) -> Experts:
    router, size = Router(score="sigmoid", choice=TopK(by="logits")), "intermediate_size"
    experts = words.experts(
        config, router, count=16, chosen=1, width=8192, counted=("num_local_experts",), size=size, weigh="input"
    )
    return experts.but(shared=words.shared_expert(experts.width, experts.activation))


FAMILIES = (
    Family(
        "llama4_text",
        read,
        decoder_names(ATTENTION, _NAMES, NORMS),
        "Llama4ForCausalLM",
        inert=("for_llm_compressor", "router_jitter_noise"),
    ),
)
