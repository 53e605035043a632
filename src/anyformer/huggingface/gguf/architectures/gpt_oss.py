"""gpt-oss: sinks, windows in every other layer, and experts with biases, whose gate and up alternate."""

from __future__ import annotations

from anyformer.huggingface.gguf.changes import AlternatingExperts, TurnedExperts
from anyformer.huggingface.gguf.lines import ExpertWidth, HeadWidth, Key, Repeats, Words, only
from anyformer.huggingface.gguf.rotary import RotaryLine
from anyformer.huggingface.gguf.shared import HEADS, RMS, SIZES
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.gguf.windows import LayerKinds
from anyformer.huggingface.rules import Op


def _alternating(table: Words) -> Op:
    return AlternatingExperts()


def _turned(table: Words) -> Op:
    return TurnedExperts()


FORMS = (
    GgufForm(
        "gpt-oss",
        "gpt_oss",
        (
            *SIZES, *HEADS, HeadWidth(), RMS, RotaryLine(), Key("sliding_window", "attention.sliding_window"),
            LayerKinds(usual=2), Key("num_local_experts", "expert_count"), Key("num_experts_per_tok", "expert_used_count"),
            ExpertWidth("intermediate_size"), Repeats("feed_forward_length", lambda table: table["intermediate_size"]),
            only("attention_bias", True), only("swiglu_limit", 7.0),
        ),
        names={
            "self_attn.sinks": "attn_sinks.weight",
            "mlp.experts.gate_up_proj": ("ffn_gate_exps.weight", "ffn_up_exps.weight"),
            "mlp.experts.gate_up_proj_bias": ("ffn_gate_exps.bias", "ffn_up_exps.bias"),
            "mlp.experts.down_proj": "ffn_down_exps.weight",
            "mlp.experts.down_proj_bias": "ffn_down_exps.bias",
        },
        changes={"ffn_gate_exps": _alternating, "ffn_down_exps": _turned},
        output=True,
    ),
)  # fmt: skip
