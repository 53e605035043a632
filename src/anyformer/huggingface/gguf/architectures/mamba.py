"""Mamba 1 and 2, Falcon Mamba, and Granite 4, whose layers are of Mamba 2 or of attention."""

from __future__ import annotations

import math

from anyformer.huggingface.gguf.architectures.granite import MULTIPLIERS
from anyformer.huggingface.gguf.architectures.lfm import KindsByHeads
from anyformer.huggingface.gguf.changes import Halved, NegativeExponential, ShapedAs
from anyformer.huggingface.gguf.keys import GgufMetadata
from anyformer.huggingface.gguf.lines import (
    Always,
    ExpertWidth,
    Follows,
    GgufLine,
    HeadWidth,
    Key,
    Only,
    Repeats,
    SameAs,
    TiedHead,
    VocabularySize,
    Words,
    only,
)
from anyformer.huggingface.gguf.shared import NEIGHBOURS, RMS, SILU, SIZES
from anyformer.huggingface.gguf.spelling import Changes, GgufForm
from anyformer.huggingface.places import UNLIMITED
from anyformer.huggingface.rules import Op, Then

LENGTH = Key("max_position_embeddings", "context_length", int, UNLIMITED)
RECURRENT: tuple[GgufLine, ...] = (
    Key("hidden_size", "embedding_length"),
    Key("num_hidden_layers", "block_count"),
    LENGTH,
    VocabularySize(),
    TiedHead(),
    Always("feed_forward_length", 0),
    Always("attention.head_count", 0),
    Key("layer_norm_epsilon", "attention.layer_norm_rms_epsilon", float),
    Key("conv_kernel", "ssm.conv_kernel"),
    Key("state_size", "ssm.state_size"),
    Repeats("ssm.inner_size", lambda table: 2 * table["hidden_size"]),
    only("expand", 2),
    only("use_bias", False),
    only("use_conv_bias", True),
    SILU,
)
"""Models of one mixer, whose inner width is twice the model's."""


def _negative(table: Words) -> Op:
    return NegativeExponential()


def _narrow(table: Words) -> Op:
    """The kernels of a convolution of every channel by itself."""
    width: int = table["conv_kernel" if "conv_kernel" in table else "mamba_d_conv"]
    return ShapedAs((-1, width), (-1, 1, width))


def _column(table: Words) -> Op:
    return ShapedAs((-1, 1), (-1,))


def _negative_column(table: Words) -> Op:
    return Then(ShapedAs((-1, 1), (-1,)), NegativeExponential())


def _row(table: Words) -> Op:
    return ShapedAs((1, -1), (-1,))


def _normed(keys: GgufMetadata) -> bool:
    return bool(keys("ssm.dt_b_c_rms", False))


FIRST: Changes = {"ssm_a": _negative, "ssm_conv1d.weight": _narrow}
SECOND: Changes = {"ssm_a": _negative_column, "ssm_d": _column, "ssm_norm": _row, "ssm_conv1d.weight": _narrow}
"""Of Mamba 2 with one group, over which its norm goes."""

FORMS = (
    GgufForm(
        "mamba",
        "mamba",
        (*RECURRENT, Key("time_step_rank", "ssm.time_step_rank"), Always("ssm.dt_b_c_rms", False)),
        changes=FIRST,
        when=lambda keys: not _normed(keys),
    ),
    GgufForm(
        "mamba",
        "falcon_mamba",
        (
            *RECURRENT,
            Key("time_step_rank", "ssm.time_step_rank"),
            Always("ssm.dt_b_c_rms", True, required=True),
            SameAs("mixer_rms_eps", "layer_norm_epsilon"),
        ),
        changes=FIRST,
        when=_normed,
    ),
    GgufForm(
        "mamba2",
        "mamba2",
        (
            *RECURRENT,
            Key("num_heads", "ssm.time_step_rank"),
            Follows("head_dim", lambda table: 2 * table["hidden_size"] // table["num_heads"]),
            Always("ssm.group_count", 1),
            only("n_groups", 1),
            Only("time_step_limit", ([0.0, math.inf],), said=False),
        ),
        names={"mixer.dt_bias": "ssm_dt.bias"},
        changes=SECOND,
    ),
    GgufForm(
        "granitehybrid",
        "granitemoehybrid",
        (
            *SIZES, *MULTIPLIERS, RMS, SILU, Key("num_attention_heads", "attention.head_count"),
            KindsByHeads("linear_attention"), HeadWidth(said=False), Always("rope.scaling.finetuned", False, required=True),
            Key("mamba_d_conv", "ssm.conv_kernel"), Key("mamba_d_state", "ssm.state_size"),
            Key("mamba_n_heads", "ssm.time_step_rank"), Always("ssm.group_count", 1), only("mamba_n_groups", 1),
            only("mamba_expand", 2), Repeats("ssm.inner_size", lambda table: 2 * table["hidden_size"]),
            Follows("mamba_d_head", lambda table: 2 * table["hidden_size"] // table["mamba_n_heads"]),
            only("mamba_conv_bias", True), only("mamba_proj_bias", False), only("attention_bias", False),
            Key("num_local_experts", "expert_count"), Key("num_experts_per_tok", "expert_used_count"),
            Key("intermediate_size", "feed_forward_length"), ExpertWidth("intermediate_size"),
            Key("shared_intermediate_size", "expert_shared_feed_forward_length"),
        ),
        names={
            "block_sparse_moe.input_linear": ("ffn_gate_exps", "ffn_up_exps"),
            "block_sparse_moe.output_linear": "ffn_down_exps",
            "block_sparse_moe.router.layer": "ffn_gate_inp",
            "shared_mlp.input_linear": ("ffn_gate_shexp", "ffn_up_shexp"),
            "shared_mlp.output_linear": "ffn_down_shexp",
            "mamba.dt_bias": "ssm_dt.bias",
        },
        changes={
            **NEIGHBOURS, **SECOND,
            "ffn_gate_exps": lambda table: Halved(1), "ffn_gate_shexp": lambda table: Halved(0),
        },
    ),
)  # fmt: skip
