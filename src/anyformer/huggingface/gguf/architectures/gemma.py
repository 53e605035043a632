"""Gemma 1 to 3: gains of 1 + w."""

from __future__ import annotations

from collections.abc import Callable

from anyformer.huggingface.gguf.lines import Follows, Key, Only, Words, only
from anyformer.huggingface.gguf.rotary import RotaryLine
from anyformer.huggingface.gguf.shared import decoder, shifted
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.gguf.windows import LayerKinds

GAINS = dict.fromkeys(
    ("attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm", "attn_q_norm", "attn_k_norm", "output_norm"), shifted
)
GELU = only("hidden_activation", "gelu_pytorch_tanh")
COMMON = (only("attention_bias", False), only("tie_word_embeddings", True))
WINDOW = Key("sliding_window", "attention.sliding_window")


def scaled(deep: int) -> Callable[[Words], float]:
    """What llama.cpp divides scores by, squared: of models of `deep` layers, D / H, else the width of a head."""

    def value(table: Words) -> float:
        filled: int = table["hidden_size"] // table["num_attention_heads"]
        width: int = table.get("head_dim", filled)
        return filled if table["num_hidden_layers"] == deep else width

    return value


FORMS = (
    GgufForm("gemma", "gemma", decoder(RotaryLine(), only("hidden_act", "gelu_pytorch_tanh"), *COMMON), changes=GAINS),
    GgufForm(
        "gemma2",
        "gemma2",
        decoder(
            RotaryLine(), GELU, *COMMON, WINDOW, LayerKinds(usual=2),
            Follows("query_pre_attn_scalar", scaled(46)),
            Key("attn_logit_softcapping", "attn_logit_softcapping", float, 50.0),
            Key("final_logit_softcapping", "final_logit_softcapping", float, 30.0),
        ),
        changes=GAINS,
    ),
    GgufForm(
        "gemma3",
        "gemma3_text",
        decoder(
            RotaryLine(swa=True, usual=(1_000_000.0, 10_000.0)), GELU, *COMMON, WINDOW, LayerKinds(usual=6),
            Follows("query_pre_attn_scalar", scaled(62)),
            Key("final_logit_softcapping", "final_logit_softcapping", float, None),
            Only("use_bidirectional_attention", (False,), said=False),
            Only("attn_logit_softcapping", (None,), said=False),
        ),
        changes=GAINS,
    ),
)  # fmt: skip
