"""T5: an encoder and a decoder with buckets of relative positions; its head apart, since the graph scales no tied one."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.huggingface.config import Config
from anyformer.huggingface.gguf.keys import GgufKeys, GgufMetadata
from anyformer.huggingface.gguf.lines import Always, Key, Only, Repeats, VocabularySize, Words
from anyformer.huggingface.gguf.spelling import GgufForm

GATE = "enc.blk.0.ffn_gate.weight"
GATED, PLAIN = "gated-gelu", "relu"
LENGTH = 512
"""What files say of the longest text, which relative positions do not bound."""


@dataclass(frozen=True)
class DecoderDepth:
    """Layers of the decoder: by default as many as the encoder has."""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        table["num_decoder_layers"] = keys("decoder_block_count", table["num_layers"])

    def write(self, words: Config, keys: GgufKeys) -> None:
        both = words("num_layers")
        keys.put("decoder_block_count", int(words("num_decoder_layers", None) or both))


@dataclass(frozen=True)
class Form:
    """The network: with a gate GELU, which llama.cpp computes by its tanh form as T5 does, without one ReLU."""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        table["feed_forward_proj"] = GATED if GATE in keys.shapes else PLAIN

    def write(self, words: Config, keys: GgufKeys) -> None:
        words.expect("feed_forward_proj", PLAIN, GATED, why="no other is in llama.cpp's graph")
        gated = words.written["feed_forward_proj"] == GATED
        words.expect("is_gated_act", gated, why="the form says it")
        words.expect("dense_act_fn", "gelu_new" if gated else "relu", why="the form says it")


FORMS = (
    GgufForm(
        "t5",
        "t5",
        (
            Key("d_model", "embedding_length"), Key("num_layers", "block_count"), DecoderDepth(), VocabularySize(),
            Repeats("context_length", lambda table: LENGTH, checked=False), Key("d_ff", "feed_forward_length"),
            Key("num_heads", "attention.head_count"), Key("d_kv", "attention.key_length"),
            Repeats("attention.value_length", lambda table: table["d_kv"]),
            Key("layer_norm_epsilon", "attention.layer_norm_rms_epsilon", float),
            Key("relative_attention_num_buckets", "attention.relative_buckets_count"),
            Only("relative_attention_max_distance", (128,), said=False), Always("decoder_start_token_id", 0),
            Only("tie_word_embeddings", (False,)), Only("scale_decoder_outputs", (None, False), said=False), Form(),
        ),
        unread=("attention.layer_norm_epsilon",),
    ),
)  # fmt: skip
