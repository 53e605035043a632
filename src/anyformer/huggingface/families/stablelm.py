"""StableLM: LayerNorm, a partly rotated head, gated feed-forward; in parallel under one norm (12B) or one after the other."""

from __future__ import annotations

from typing import Any

from anyformer.describe import change
from anyformer.huggingface.config import Config
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, each, feedforward, model, needs, renamed, repeated
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Pieces, Table, To
from anyformer.huggingface.spelling import read_rope
from anyformer.model import Architecture
from anyformer.parts import Attention, LayerNorm, QKNorm, parallel, pre_norm

SHARED_NORM: Table = {"step_0_norm_before": "input_layernorm"}


def read(config: Config) -> Architecture:
    config.expect("head_dim", None, config("hidden_size") // config("num_attention_heads"))
    config.assume(num_key_value_heads=32)
    needs(config, "num_key_value_heads")
    norm = LayerNorm(eps=config("layer_norm_eps", 1e-5))
    normed = {"qk_norm": QKNorm(norm=norm.but(bias=False), over="each_head")} if config("qk_layernorm", False) else {}
    bias = ("query", "key", "value") if config("use_qkv_bias", False) else ()
    heads = attention(config, rotary=read_rope(config, fraction=0.25), bias=bias, **normed)
    wired = parallel if config("use_parallel_residual", False) else pre_norm
    block = change(wired(norm, heads, feedforward(config)), "feedforward.dropout", config("hidden_dropout", 0.0))
    return model(config, repeated(config, block), norm)


def write(architecture: Architecture) -> dict[str, Any]:
    written = renamed(decoder.write(architecture), rms_norm_eps="layer_norm_eps")
    written["rope_parameters"].setdefault("partial_rotary_factor", 1.0)
    blocks = architecture.output_stack.variants
    return {
        **written,
        "qk_layernorm": each(architecture, "attention.qk_norm")[0] is not None,
        "use_qkv_bias": decoder.biased(architecture),
        "use_parallel_residual": all(len(block.steps) == 1 for block in blocks.values()),
        "hidden_dropout": each(architecture, "feedforward.dropout")[0],
    }


def names(architecture: Architecture) -> Names:
    heads: Attention = each(architecture, "attention.sublayer")[0]
    norms: Table = {
        f"attention.{ours}_norm.weight": To(
            f"self_attn.{ours[0]}_layernorm.norms.{{x}}.weight", Pieces(count), tuple(str(head) for head in range(count))
        )
        for ours, count in (("query", heads.heads), ("key", heads.groups))
    }
    return decoder_names(ATTENTION, norms, FEEDFORWARD, NORMS, SHARED_NORM)


FAMILIES = (
    Family(
        "stablelm",
        read,
        write,
        names,
        "StableLmForCausalLM",
        ignored=BUFFERS,
    ),
)
