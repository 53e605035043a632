"""Qwen 2 and 3, with and without experts."""

from __future__ import annotations

from anyformer.huggingface.gguf.changes import ShapedAs
from anyformer.huggingface.gguf.lines import Key, Only, Words, only
from anyformer.huggingface.gguf.rotary import RotaryLine
from anyformer.huggingface.gguf.shared import MAYBE_WIDE, NO_WINDOW, ROUTED, SILU, decoder
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.rules import Op

ROTARY = RotaryLine()
COUNT = Key("num_experts", "expert_count")
EVERYWHERE = (Only("mlp_only_layers", ([],), said=False), Only("decoder_sparse_step", (1,), said=False))


def one_row(table: Words) -> Op:
    """A matrix of one row, in the file a vector."""
    return ShapedAs((-1,), (1, -1))


FORMS = (
    GgufForm("qwen2", "qwen2", decoder(ROTARY, SILU, *NO_WINDOW, head_dim=False)),
    GgufForm("qwen3", "qwen3", decoder(ROTARY, SILU, *NO_WINDOW, only("attention_bias", False))),
    GgufForm(
        "qwen2moe",
        "qwen2_moe",
        decoder(
            ROTARY, SILU, *NO_WINDOW, COUNT, *ROUTED, *EVERYWHERE, only("norm_topk_prob", False), only("qkv_bias", True),
            Key("shared_expert_intermediate_size", "expert_shared_feed_forward_length"),
            head_dim=False, wide=MAYBE_WIDE,
        ),
        changes={"ffn_gate_inp_shexp": one_row},
    ),
    GgufForm(
        "qwen3moe",
        "qwen3_moe",
        decoder(
            ROTARY, SILU, *NO_WINDOW, COUNT, *ROUTED, *EVERYWHERE, only("norm_topk_prob", True), only("attention_bias", False),
            wide=MAYBE_WIDE,
        ),
    ),
)  # fmt: skip
