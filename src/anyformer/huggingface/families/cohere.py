"""Cohere's Command R: one centred norm before attention and feed-forward in parallel; R7B: windows, others unplaced."""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, feedforward, kind, masked, model
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Shaped, Table, To
from anyformer.huggingface.spelling import read_rotary, rope_parameters
from anyformer.model import Architecture
from anyformer.parts import LayerNorm, Rotary
from anyformer.parts.layers.wiring import parallel

NORM: Table = {"step_0_norm_before": "input_layernorm"}


def read(config: Config) -> Architecture:
    config.assume(use_qk_norm=False)
    norm, rotary = _norm(config), _rotary(config, 500_000.0)
    fields = {"qk_norm": norm, "qk_norm_over": "each_head"} if config("use_qk_norm") else {}
    layer = parallel(norm, attention(config, rotary=rotary, **fields), feedforward(config))
    return _scaled(config, [("layer", layer)] * config("num_hidden_layers"), norm)


def write(architecture: Architecture) -> dict[str, Any]:
    qk_norm = decoder.each(architecture, "attention.qk_norm")[0]
    return {**_write(architecture), "use_qk_norm": qk_norm is not None}


def read2(config: Config) -> Architecture:
    period = config("sliding_window_pattern", 4)
    config.assume(sliding_window=4096, layer_switch=period)
    # Left by the first files; transformers looks at none of these.
    config.expect("layer_switch", period)
    config.expect("order_of_interleaved_layers", "local_attn_first")
    config.expect("position_embedding_type", "rope_gptj")
    config.expect("rotary_pct", 1.0)
    for wiring in ("use_parallel_block", "use_gated_activation", "use_embedding_sharing"):
        config.expect(wiring, True)
    norm, rotary, network = _norm(config), _rotary(config, 10_000.0), feedforward(config)
    layers = [
        (
            kind(window),
            parallel(norm, attention(config, rotary=rotary if window else None, mask=masked(window)), network),
        )
        for window in decoder.windows(config, decoder.every(period, config("num_hidden_layers")))
    ]
    return _scaled(config, layers, norm)


def write2(architecture: Architecture) -> dict[str, Any]:
    return {**_write(architecture), **decoder.write_windows(architecture, 4096)}


def _norm(config: Config) -> LayerNorm:
    return LayerNorm(eps=config("layer_norm_eps", 1e-5), bias=False)


def _rotary(config: Config, theta: float) -> Rotary:
    return read_rotary(rope_parameters(config, theta=theta), pairing="adjacent", rotate_in="fp32")


def _scaled(config: Config, layers: list[tuple[str, Any]], norm: LayerNorm) -> Architecture:
    config.assume(tie_word_embeddings=True)
    return model(config, layers, norm, scale=config("logit_scale", 0.0625))


def _write(architecture: Architecture) -> dict[str, Any]:
    written = decoder.write(architecture)
    eps = written.pop("rms_norm_eps")
    return {
        **written,
        "layer_norm_eps": eps,
        "attention_bias": decoder.biased(architecture),
        "logit_scale": get(architecture, "head.scale"),
    }


def names(architecture: Architecture) -> Names:
    # One gain per head there, (H, E); side by side here.
    heads = decoder.each(architecture, "attention.sublayer")[0]
    apart = Shaped((-1, heads.width_of_head(architecture.width)))
    qk_norm: Table = {
        "attention.query_norm": To("self_attn.q_norm", apart),
        "attention.key_norm": To("self_attn.k_norm", apart),
    }
    return decoder_names(ATTENTION, qk_norm, FEEDFORWARD, NORM)


FAMILIES = (
    Family("cohere", read, write, names, "CohereForCausalLM", ignored=BUFFERS),
    Family(
        "cohere2",
        read2,
        write2,
        names,
        "Cohere2ForCausalLM",
        inert=("cache_implementation", "use_parallel_embedding"),
        ignored=BUFFERS,
    ),
)
