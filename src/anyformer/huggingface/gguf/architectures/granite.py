"""Granite, with and without experts: multipliers of embeddings, attention, residuals and logits."""

from __future__ import annotations

from anyformer.huggingface.gguf.changes import Halved
from anyformer.huggingface.gguf.lines import ExpertWidth, Key, Present, Words
from anyformer.huggingface.gguf.rotary import RotaryLine
from anyformer.huggingface.gguf.shared import NEIGHBOURS, SILU, decoder
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.rules import Op

MULTIPLIERS = (
    Key("attention_multiplier", "attention.scale", float),
    Key("residual_multiplier", "residual_scale", float),
    Key("embedding_multiplier", "embedding_scale", float),
    Key("logits_scaling", "logit_scale", float),
)
BIAS = Present("attention_bias", "attn_q.bias")
ROTARY = RotaryLine(("default", "linear", "yarn", "llama3"))


def _halved(table: Words) -> Op:
    return Halved(1)


FORMS = (
    GgufForm(
        "granite",
        "granite",
        decoder(ROTARY, SILU, BIAS, *MULTIPLIERS, Present("mlp_bias", "ffn_up.bias"), head_dim=False),
        changes=NEIGHBOURS,
    ),
    GgufForm(
        "granitemoe",
        "granitemoe",
        decoder(
            ROTARY, SILU, BIAS, *MULTIPLIERS, Key("num_local_experts", "expert_count"),
            Key("num_experts_per_tok", "expert_used_count"), ExpertWidth("intermediate_size"),
            head_dim=False,
        ),
        names={
            "block_sparse_moe.input_linear": ("ffn_gate_exps", "ffn_up_exps"),
            "block_sparse_moe.output_linear": "ffn_down_exps",
            "block_sparse_moe.router.layer": "ffn_gate_inp",
        },
        changes={**NEIGHBOURS, "ffn_gate_exps": _halved},
    ),
)  # fmt: skip
