"""StableLM."""

from __future__ import annotations

from anyformer.huggingface.gguf.lines import Key, Present
from anyformer.huggingface.gguf.rotary import RotaryLine
from anyformer.huggingface.gguf.shared import SILU, decoder
from anyformer.huggingface.gguf.spelling import GgufForm

FORMS = (
    GgufForm(
        "stablelm",
        "stablelm",
        decoder(
            RotaryLine(partial=True),
            SILU,
            Present("use_qkv_bias", "attn_q.bias"),
            Present("qk_layernorm", "attn_q_norm.weight"),
            Key("use_parallel_residual", "use_parallel_residual", bool),
            head_dim=False,
            norm=Key("layer_norm_eps", "attention.layer_norm_epsilon", float),
        ),
        names={
            "self_attn.q_layernorm.norms.{x}.weight": "attn_q_norm.weight",
            "self_attn.k_layernorm.norms.{x}.weight": "attn_k_norm.weight",
        },
        output=True,
    ),
)
