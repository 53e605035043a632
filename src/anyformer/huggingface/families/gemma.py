"""Gemma: norms of 1 + w, embeddings times sqrt(D); Gemma 2: norms around, windows and soft caps; Gemma 3: normed heads."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, block, feedforward, kind, masked, model
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.huggingface.families.olmo import AFTER
from anyformer.huggingface.families.qwen import QK_NORM
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import FULL, SLIDING, activation, read_rotary, rope_parameters
from anyformer.huggingface.vocabulary import SIZE
from anyformer.model import Architecture
from anyformer.parts import Bidirectional, Block, QKNorm, RMSNorm, Window

BEFORE: Table = {"attention.norm_before": "input_layernorm", "feedforward.norm_before": "pre_feedforward_layernorm"}
TANH = "gelu_pytorch_tanh"


def read(config: Config) -> Architecture:
    config.assume(num_key_value_heads=16, hidden_act=TANH)
    # The released files say gelu and mean its approximation.
    act = TANH if config("hidden_act") == "gelu" else config("hidden_act")
    config.expect("use_bidirectional_attention", None, False)
    norm = _shared(config)
    network = feedforward(config).but(activation=activation(act))
    layer = block(attention(config, rotary=read_rotary(rope_parameters(config))), network, before=norm)
    return _scaled(config, [("layer", layer)] * config("num_hidden_layers"), norm)


def write(architecture: Architecture) -> dict[str, Any]:
    return {**decoder.write(architecture), "attention_bias": decoder.biased(architecture)}


def read2(config: Config, *, norm_after: bool = True) -> Architecture:
    norm = _shared(config)
    config.assume(num_key_value_heads=4, hidden_activation=TANH, query_pre_attn_scalar=256, sliding_window=4096,
                  attn_logit_softcapping=50.0, final_logit_softcapping=30.0)  # fmt: skip
    config.expect("use_bidirectional_attention", None, False)
    rotary, network = read_rotary(rope_parameters(config)), feedforward(config, "hidden_activation")
    fields = {"scale": config("query_pre_attn_scalar") ** -0.5, "softcap": config("attn_logit_softcapping"), "rotary": rotary}
    layers = [
        (
            kind(window),
            block(attention(config, mask=masked(window), **fields), network, before=norm, after=norm if norm_after else None),
        )
        for window in decoder.windows(config, decoder.every(2, config("num_hidden_layers")))
    ]
    return _scaled(config, layers, norm, softcap=config("final_logit_softcapping"))


def write2(architecture: Architecture) -> dict[str, Any]:
    return {
        **decoder.write(architecture, "hidden_activation"),
        **decoder.write_windows(architecture, 4096),
        "attention_bias": decoder.biased(architecture),
        "query_pre_attn_scalar": round(decoder.scale(architecture) ** -2),
        "attn_logit_softcapping": decoder.each(architecture, "attention.softcap")[0],
        "final_logit_softcapping": None if architecture.head is None else architecture.head.softcap,
    }


def read_vault(config: Config) -> Architecture:
    return read2(config, norm_after=False)


def read3(config: Config) -> Architecture:
    norm = _shared(config)
    config.assume(num_key_value_heads=4, hidden_activation=TANH, query_pre_attn_scalar=256, sliding_window=4096)
    both_ways = config("use_bidirectional_attention", False)
    tables = decoder.rope_by_type(
        config, {FULL: config("rope_theta", 1_000_000.0), SLIDING: config("rope_local_base_freq", 10_000.0)}
    )
    rotary = {name: read_rotary(table, unread=("truncate",)) for name, table in tables.items()}
    fields = {"scale": config("query_pre_attn_scalar") ** -0.5, "qk_norm": QKNorm(norm=norm)}
    network = feedforward(config, "hidden_activation")
    layers: list[tuple[str, Block]] = []
    for window in decoder.windows(
        config, decoder.every(config("sliding_window_pattern", 6, kind=SIZE), config("num_hidden_layers"))
    ):
        mask = seen_both_ways(window) if both_ways else masked(window)
        heads = attention(config, rotary=rotary[SLIDING if window else FULL], mask=mask, **fields)
        layers.append((kind(window), block(heads, network, before=norm, after=norm)))
    found = _scaled(config, layers, norm, softcap=config("final_logit_softcapping", None))
    headless = found.but(head=None) if config.task == "Model" else found
    return headless.but(decoder=None, encoder=headless.decoder) if both_ways else headless


def seen_both_ways(window: int | None) -> Bidirectional | Window:
    """`sliding_window` // 2 to either side, or everything."""
    return Window(size=window // 2 + 1, after=window // 2) if window else Bidirectional()


def write3(architecture: Architecture) -> dict[str, Any]:
    written = {**write2(architecture), **decoder.write_rope_by_type(architecture)}
    del written["attn_logit_softcapping"]
    both_ways = architecture.encoder is not None
    if both_ways:
        written["sliding_window"] = 2 * (written["sliding_window"] - 1)
    if architecture.head is None:
        written["architectures"] = ["Gemma3TextModel"]
    return {**written, "use_bidirectional_attention": both_ways}


def _shared(config: Config) -> RMSNorm:
    """The norm of all places, and what else every Gemma takes for granted."""
    config.assume(head_dim=256, tie_word_embeddings=True)
    return RMSNorm(eps=config("rms_norm_eps", 1e-6), gain="one_plus_weight", cast="after_gain")


def _scaled(config: Config, layers: list[tuple[str, Block]], norm: RMSNorm, **head: Any) -> Architecture:
    return model(config, layers, norm, embedding_scale=config("hidden_size") ** 0.5, **head)


def names(architecture: Architecture) -> Names:
    return decoder_names(ATTENTION, FEEDFORWARD, NORMS)


def names2(architecture: Architecture) -> Names:
    return decoder_names(ATTENTION, FEEDFORWARD, BEFORE, AFTER)


def names3(architecture: Architecture) -> Names:
    stack, prefix = "decoder" if architecture.encoder is None else "encoder", "" if architecture.head is None else "model."
    layers: Table = {key: to for table in (ATTENTION, QK_NORM, FEEDFORWARD, BEFORE, AFTER) for key, to in table.items()}
    outside: Table = {"embedding": f"{prefix}embed_tokens", f"{stack}.final_norm": f"{prefix}norm", "head": "lm_head"}
    return Names(outside, {stack: (f"{prefix}layers.{{i}}.", layers)})


_OLD = ("cache_implementation",)
_OLD_TWO = (*_OLD, "hidden_act", "sliding_window_size")
FAMILIES = (
    Family("gemma", read, write, names, "GemmaForCausalLM", inert=(*_OLD, "hidden_activation"), ignored=BUFFERS),
    Family("gemma2", read2, write2, names2, "Gemma2ForCausalLM", inert=_OLD_TWO, ignored=BUFFERS),
    Family("vaultgemma", read_vault, write2, names2, "VaultGemmaForCausalLM", inert=_OLD, ignored=BUFFERS),
    Family(
        "gemma3_text",
        read3,
        write3,
        names3,
        "Gemma3ForCausalLM",
        # transformers stores a cap of the scores and never applies it.
        inert=(*_OLD, "attn_logit_softcapping", "_sliding_window_pattern"),
        ignored=BUFFERS,
    ),
)
