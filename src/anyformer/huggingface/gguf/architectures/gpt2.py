"""GPT-2, whose matrices are stored as (inputs, outputs)."""

from __future__ import annotations

from anyformer.huggingface.gguf.lines import Key, TiedHead, VocabularySize, Words, only
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.rules import Op, Transposed


def _turned(table: Words) -> Op:
    return Transposed()


FORMS = (
    GgufForm(
        "gpt2",
        "gpt2",
        (
            VocabularySize(),
            Key("n_embd", "embedding_length"),
            Key("n_layer", "block_count"),
            Key("n_head", "attention.head_count"),
            Key("n_inner", "feed_forward_length"),
            Key("n_positions", "context_length"),
            Key("layer_norm_epsilon", "attention.layer_norm_epsilon", float),
            TiedHead(),
            only("activation_function", "gelu_new", "gelu_pytorch_tanh"),
            only("scale_attn_weights", True),
            only("scale_attn_by_inverse_layer_idx", False),
        ),
        changes=dict.fromkeys(("attn_qkv", "attn_output", "ffn_up", "ffn_down"), _turned),
    ),
)
