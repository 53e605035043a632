"""Gemma: norms of 1 + w, embeddings times sqrt(D); Gemma 2: sandwich norms, windows and soft caps; Gemma 3: normed heads."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING, encodes, window
from anyformer.huggingface.rules import Names, under
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.layers import Layers
from anyformer.huggingface.words.names import AFTER, ATTENTION, BEFORE, FEEDFORWARD, NORMS, QK_NORM, decoder_names, joined
from anyformer.model import Architecture
from anyformer.parts import Bidirectional, Block, QKNorm, RMSNorm, Window, pre_norm, sandwich

TANH = "gelu_pytorch_tanh"


def read(config: Config) -> Architecture:
    config.expect("use_bidirectional_attention", None, False)
    norm, network = _norm(config), words.feedforward(config, default=TANH)
    if config("hidden_act", TANH) == "gelu":  # The released files say gelu and mean its approximation.
        network = network.but(activation="gelu_tanh")
    heads = words.attention(config, kv_heads=16, rotary=words.rotary(config))
    return _scaled(config, words.repeated(config, pre_norm(norm, heads, network)), norm)


def read2(config: Config, wired: Any = sandwich) -> Architecture:
    config.assume(sliding_window=4096)
    config.expect("use_bidirectional_attention", None, False)
    norm, network = _norm(config), words.feedforward(config, "hidden_activation", TANH)
    heads = words.attention(
        config,
        kv_heads=4,
        rotary=words.rotary(config),
        scale=config("query_pre_attn_scalar", 256) ** -0.5,
        softcap=config("attn_logit_softcapping", 50.0),
    )
    layers = words.masked_layers(config, norm, heads, network, words.windows(config, words.every(2)), wired)
    return _scaled(config, layers, norm, softcap=config("final_logit_softcapping", 30.0))


def read_vault(config: Config) -> Architecture:
    return read2(config, pre_norm)


def read3(config: Config) -> Architecture:
    config.assume(sliding_window=4096)
    both_ways = config("use_bidirectional_attention", False, encodes)
    size = config("sliding_window", None, lambda target: 2 * (window(target) - 1) if encodes(target) else window(target))
    kinds = words.windows(config, words.every(config("sliding_window_pattern", 6, kind=SIZE)))
    thetas = {FULL: config("rope_theta", 1_000_000.0), SLIDING: config("rope_local_base_freq", 10_000.0)}
    tables = words.tables_by_type(config, thetas)
    rotary = {kind: words.from_table(table, unread=("truncate",)) for kind, table in tables.items()}
    norm, network = _norm(config), words.feedforward(config, "hidden_activation", TANH)
    heads = words.attention(config, kv_heads=4, qk_norm=QKNorm(norm=norm), scale=config("query_pre_attn_scalar", 256) ** -0.5)

    def block(kind: str) -> Block:
        near = Window(size=size // 2 + 1, after=size // 2) if kind == "local" else Bidirectional()
        mask = near if both_ways else words.mask(config, kind)
        return sandwich(norm, heads.but(mask=mask, rotary=rotary[SLIDING if kind == "local" else FULL]), network)

    made = _scaled(config, words.layered(block, kinds), norm, softcap=config("final_logit_softcapping", None))
    made = made.but(head=None) if words.headless(config, "Gemma3TextModel") else made
    return made.but(decoder=None, encoder=made.decoder) if both_ways else made


def _norm(config: Config) -> RMSNorm:
    """The norm of every Gemma; also sets defaults that all share."""
    config.assume(head_dim=256, tie_word_embeddings=True)
    return words.rms_norm(config, gain="one_plus_weight", cast="after_gain")


def _scaled(config: Config, layers: Layers, norm: RMSNorm, **head: Any) -> Architecture:
    return words.decoder(config, layers, norm, embedding_scale="sqrt_width", **head)


def names3(architecture: Architecture) -> Names:
    stack, prefix = "decoder" if architecture.encoder is None else "encoder", "" if architecture.head is None else "model."
    outside = under(prefix, {"embedding": "embed_tokens", f"{stack}.final_norm": "norm"})
    layers = joined(ATTENTION, QK_NORM, FEEDFORWARD, BEFORE, AFTER)
    return Names({**outside, "head": "lm_head"}, {stack: (f"{prefix}layers.{{i}}.", layers)})


_OLD = ("cache_implementation",)
_SANDWICH = decoder_names(ATTENTION, FEEDFORWARD, BEFORE, AFTER)
FAMILIES = (
    Family("gemma", read, decoder_names(ATTENTION, FEEDFORWARD, NORMS), "GemmaForCausalLM", inert=(*_OLD, "hidden_activation")),
    Family("gemma2", read2, _SANDWICH, "Gemma2ForCausalLM", inert=(*_OLD, "hidden_act", "sliding_window_size")),
    Family("vaultgemma", read_vault, _SANDWICH, "VaultGemmaForCausalLM", inert=_OLD),
    Family(
        "gemma3_text",
        read3,
        names3,
        "Gemma3ForCausalLM",
        # transformers saves a cap of the scores and never applies it.
        inert=(*_OLD, "attn_logit_softcapping", "_sliding_window_pattern"),
    ),
)
