"""LFM 2: short convolutions between layers of attention."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.huggingface.config import Config
from anyformer.huggingface.gguf.changes import ShapedAs
from anyformer.huggingface.gguf.keys import GgufKeys, GgufMetadata
from anyformer.huggingface.gguf.lines import Always, ExpertWidth, Follows, HeadWidth, Key, Words, only
from anyformer.huggingface.gguf.rotary import RotaryLine
from anyformer.huggingface.gguf.shared import SIZES, WIDE
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.gguf.windows import FULL
from anyformer.huggingface.rules import Op

CONVOLUTION = "conv"


@dataclass(frozen=True)
class KindsByHeads:
    """`layer_types` and the heads of keys: a list with 0 for a layer without attention."""

    other: str = CONVOLUTION

    def read(self, keys: GgufMetadata, table: Words) -> None:
        heads = keys("attention.head_count_kv")
        heads = heads if isinstance(heads, list) else [heads] * table["num_hidden_layers"]
        table["layer_types"] = [FULL if each else self.other for each in heads]
        table["num_key_value_heads"] = max(heads)

    def write(self, words: Config, keys: GgufKeys) -> None:
        heads = int(words("num_key_value_heads"))
        keys.put("attention.head_count_kv", [heads if kind == FULL else 0 for kind in words("layer_types")])


def _narrow(table: Words) -> Op:
    return ShapedAs((-1, table["conv_L_cache"]), (-1, 1, table["conv_L_cache"]))


def _stream(table: Words) -> int:
    """What other engines read again under another word."""
    return int(table["hidden_size"])


COMMON = (
    *SIZES, WIDE, Key("num_attention_heads", "attention.head_count"), KindsByHeads(), HeadWidth(said=False),
    Key("norm_eps", "attention.layer_norm_rms_epsilon", float), RotaryLine(), Key("conv_L_cache", "shortconv.l_cache"),
    only("conv_bias", False), Follows("conv_dim", _stream),
)  # fmt: skip
SIGMOID = 2

FORMS = (
    GgufForm(
        "lfm2",
        "lfm2",
        (*COMMON, only("block_auto_adjust_ff_dim", False), Follows("block_dim", _stream)),
        changes={"shortconv.conv": _narrow},
    ),
    GgufForm(
        "lfm2moe",
        "lfm2_moe",
        (
            *COMMON, Key("num_dense_layers", "leading_dense_block_count"), Key("num_experts", "expert_count"),
            Key("num_experts_per_tok", "expert_used_count"), ExpertWidth(), Always("expert_gating_func", SIGMOID),
            only("use_expert_bias", True), only("norm_topk_prob", True), only("routed_scaling_factor", 1.0),
        ),
        names={
            "feed_forward.experts.{x}.w1": "ffn_gate_exps",
            "feed_forward.experts.{x}.w2": "ffn_down_exps",
            "feed_forward.experts.{x}.w3": "ffn_up_exps",
            "feed_forward.expert_bias": "exp_probs_b.bias",
        },
        changes={"shortconv.conv": _narrow},
    ),
)  # fmt: skip
