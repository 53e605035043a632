"""Zamba2: layers of Mamba-2, some of which read one of a few blocks that they share, with low-rank matrices of their own
(arXiv 2411.15242)."""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import has_part
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.words.names import ATTENTION, OUTSIDE
from anyformer.huggingface.words.shared_blocks import (
    HYBRID,
    SHARED,
    beside_embeddings,
    hybrid_names,
    hybrid_stack,
    hybrid_types,
    shared_block,
    shared_sets,
)
from anyformer.huggingface.words.state_space import KERNELS, LINEAR, MAMBA2, expansion, mamba2, mamba2_names
from anyformer.model import Architecture
from anyformer.parts import Block, Branch, LayerLoRA, Mamba2, RMSNorm, Step

_KEYS = {
    "heads": "n_mamba_heads", "state_width": "mamba_d_state", "groups": "mamba_ngroups", "kernel": "mamba_d_conv",
    "bias": "add_bias_linear",
}  # fmt: skip
_ABSENT = {"heads": 8, "state_width": 64, "groups": 1, "kernel": 4, "bias": False}
_USUAL = (LINEAR, *(*(LINEAR,) * 5, HYBRID) * 7, *(LINEAR,) * 4, HYBRID, *(LINEAR,) * 3, HYBRID, *(LINEAR,) * 2)
"""The layers where nothing lists them."""


def read(config: Config) -> Architecture:
    config.assume(vocab_size=32_000, hidden_size=2560, tie_word_embeddings=True)
    config.put(tie_word_embeddings=True)
    config.expect("tie_word_embeddings", True, why="transformers then gives every layer a block of its own")
    norm = words.rms_norm(config, 1e-5)
    kinds, sets = hybrid_types(config, len(_USUAL), lambda depth: _USUAL), config("num_mem_blocks", 1, shared_sets)
    mixes = Step(branches=Named({MAMBA2: Branch(norm_before=norm, sublayer=_mixer(config))}))
    stack = hybrid_stack(kinds, sets, lambda uses: _shared(config, norm, uses), mixes, norm)
    return words.decoder(config, [("layer", Block(steps=(mixes,)))], norm).but(decoder=stack)


def _mixer(config: Config) -> Mamba2:
    inner, heads = config("mamba_expand", 2, expansion) * config("hidden_size"), config("n_mamba_heads", 8, f"{MAMBA2}.heads")
    if inner % heads:
        raise config.refused("n_mamba_heads", heads, f"a divisor of the {inner} features of all heads")
    # transformers takes the least step of the initialisation for a limit.
    limits = config("time_step_min", 0.001, f"{MAMBA2}.step_floor"), None
    return mamba2(config, eps=1e-5, keys=_KEYS, absent=_ABSENT, act="silu", limits=limits, inner=inner)


def _shared(config: Config, norm: RMSNorm, uses: int) -> Block:
    """A block that stands before so many layers."""
    width, heads = config("hidden_size"), config("num_attention_heads", 32)
    config.expect("attention_head_dim", None, 2 * width // heads)
    rotary = words.rotary(config) if config("use_mem_rope", False, has_part("attention.rotary")) else None
    if rotary is not None and rotary.scaling is not None:
        config.expect("use_long_context", False, why="it changes the length that positions are scaled by")
    lora = LayerLoRA(rank=config("adapter_rank", 128, "feedforward.lora.rank"), layers=uses)
    attention = beside_embeddings(
        norm,
        heads=heads,
        kv_heads=config("num_key_value_heads", None) or heads,
        head_width=2 * width // heads,
        rotary=rotary,
        lora=lora if config("use_shared_attention_adapter", False, has_part("attention.lora")) else None,
        dropout=config("attention_dropout", 0.0),
    )
    size = words.four_times(config, width, "intermediate_size")
    network = words.feedforward(config, default="gelu", size=None, width=size, bias=config("add_bias_linear", False), lora=lora)
    return shared_block(attention, norm, network)


_SHARED: Table = {
    **ATTENTION,
    "attention.joined.norm": "input_layernorm",
    "feedforward.norm_before": "pre_ff_layernorm",
    ("feedforward.gate", "feedforward.up"): To("feed_forward.gate_up_proj", Rows()),
    "feedforward.down": "feed_forward.down_proj",
}


def names(architecture: Architecture) -> Names:
    stack = architecture.output_stack
    sets = len(stack.shared_weights)

    def shared(number: int) -> Table:
        """Low-rank matrices have the number of the layer among all that read a shared block."""
        table: dict[Any, str | To] = dict(_SHARED)
        for turn in range(stack.layers.count(stack.shared_weights[number])):
            reader = number + turn * sets
            network = f"feed_forward.gate_up_proj_adapter_list.{reader}"
            table[f"feedforward.lora.down.{turn}"] = f"{network}.0"
            table[f"feedforward.lora.gate.{turn}", f"feedforward.lora.up.{turn}"] = To(f"{network}.1", Rows())
            for side in ("query", "key", "value"):
                heads = f"self_attn.linear_{side[0]}_adapter_list.{reader}"
                table[f"attention.{side}_lora.down.{turn}"] = f"{heads}.0"
                table[f"attention.{side}_lora.up.{turn}"] = f"{heads}.1"
        return table

    mixer = {**mamba2_names(architecture, "mamba"), f"{MAMBA2}.norm_before": "input_layernorm"}
    layers = hybrid_names(architecture, "shared_transformer", shared, {f"{SHARED}.projection": "linear"}, lambda _: mixer)
    return Names({**OUTSIDE, "decoder.final_norm": "model.final_layernorm", **layers}, {})


_INERT = (
    *KERNELS, "attention_hidden_size", "hybrid_layer_ids", "kv_channels", "layer_types", "mamba_headdim",
    "num_logits_to_keep", "num_query_groups", "rope_parameters", "rope_scaling", "rope_theta", "time_step_floor",
    "time_step_max", "use_conv_bias", "use_long_context", "use_mem_eff_path",
)  # fmt: skip
FAMILIES = (Family("zamba2", read, names, "Zamba2ForCausalLM", inert=_INERT),)
