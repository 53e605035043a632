"""Cohere's Command models, whose checkpoints rotate neighbours already."""

from __future__ import annotations

from anyformer.huggingface.gguf.lines import Follows, Key, Words, only
from anyformer.huggingface.gguf.rotary import RotaryLine
from anyformer.huggingface.gguf.shared import SILU, decoder
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.gguf.windows import LayerKinds

COMMON = (only("attention_bias", False), only("tie_word_embeddings", True), Key("logit_scale", "logit_scale", float))
NORM = Key("layer_norm_eps", "attention.layer_norm_epsilon", float)


def _large(table: Words) -> bool:
    """Whether llama.cpp expects norms of queries and keys: by the number of layers."""
    return bool(table["num_hidden_layers"] >= 64)


FORMS = (
    GgufForm(
        "command-r",
        "cohere",
        decoder(RotaryLine(), SILU, *COMMON, Follows("use_qk_norm", _large), head_dim=False, norm=NORM),
    ),
    GgufForm(
        "cohere2",
        "cohere2",
        decoder(
            RotaryLine(), SILU, *COMMON, Key("sliding_window", "attention.sliding_window"), LayerKinds(usual=4),
            head_dim=False, norm=NORM,
        ),
    ),
)  # fmt: skip
