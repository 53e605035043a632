"""GPT-NeoX, Falcon, BLOOM, MPT, GPT-BigCode and StarCoder 2: decoders with LayerNorm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.changes import Ungrouped
from anyformer.huggingface.gguf.keys import GgufKeys, GgufMetadata
from anyformer.huggingface.gguf.lines import (
    Always,
    GgufLine,
    HeadWidth,
    Key,
    Repeats,
    TanhGelu,
    TiedHead,
    VocabularySize,
    Words,
    only,
)
from anyformer.huggingface.gguf.rotary import RotaryLine
from anyformer.huggingface.gguf.shared import SIZES, WIDE, decoder
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.gguf.windows import NoWindow
from anyformer.huggingface.places import UNLIMITED
from anyformer.huggingface.rules import Op

EPS = "attention.layer_norm_epsilon"
LENGTH = Key("max_position_embeddings", "context_length", int, UNLIMITED)
"""Of models whose configuration says no length."""


def _by_head(word: str) -> Any:
    """Rows of a query's head, its key's and its value's, head by head."""

    def change(table: Words) -> Op:
        return Ungrouped(table[word], 1)

    return change


def _by_group(table: Words) -> Op:
    """Rows of Falcon's groups of queries with one head of keys and values."""
    groups = table["num_kv_heads"] if table["new_decoder_architecture"] or not table["multi_query"] else 1
    return Ungrouped(groups, table["num_attention_heads"] // groups)


@dataclass(frozen=True)
class FalconHeads:
    """Heads of keys, and norms: of the newer layers many and one or two, of older ones one head, or as many as of queries."""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        heads, queries = keys("attention.head_count_kv", 1), table["num_attention_heads"]
        two = "blk.0.attn_norm_2.weight" in keys.shapes
        newer = two or heads > 1
        table |= {"num_kv_heads": heads, "multi_query": not newer and heads < queries, "new_decoder_architecture": newer}
        if newer:
            table["num_ln_in_parallel_attn"] = 2 if two else 1

    def write(self, words: Config, keys: GgufKeys) -> None:
        newer, heads = words("new_decoder_architecture", False), words("num_kv_heads", None)
        words("num_ln_in_parallel_attn", None)
        shared = words("multi_query", True) and not newer
        keys.put("attention.head_count_kv", 1 if shared else int(heads))


@dataclass(frozen=True)
class MptAttention:
    """The table `attn_config`, of which the graph has the slopes of ALiBi and the clipping."""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        keys.expect("attention.max_alibi_bias", 8.0)
        clip = keys("attention.clamp_kqv", None)
        table["attn_config"] = {} if clip is None else {"clip_qkv": clip}

    def write(self, words: Config, keys: GgufKeys) -> None:
        left = {name: value for name, value in words("attn_config", {}).items() if value is not None}
        keys.put("attention.max_alibi_bias", 8.0)
        if (clip := left.pop("clip_qkv", None)) is not None:
            keys.put("attention.clamp_kqv", float(clip))
        left.pop("attn_pdrop", None)
        if left:
            name, value = next(iter(left.items()))
            raise HuggingFaceError(f"{words.where}: attn_config.{name} = {value} is not in llama.cpp's graph of mpt")


def _wide(width: str) -> GgufLine:
    return Repeats("feed_forward_length", lambda table: 4 * table[width])


FORMS = (
    GgufForm(
        "gptneox",
        "gpt_neox",
        (
            *SIZES, WIDE, Key("num_attention_heads", "attention.head_count"), HeadWidth(said=False),
            Key("layer_norm_eps", EPS, float), RotaryLine(partial=True), TanhGelu(), only("attention_bias", True),
            Key("use_parallel_residual", "use_parallel_residual", bool),
        ),
        changes={"attn_qkv": _by_head("num_attention_heads")},
        output=True,
    ),
    GgufForm(
        "falcon",
        "falcon",
        (
            Key("hidden_size", "embedding_length"), Key("num_hidden_layers", "block_count"), LENGTH, VocabularySize(),
            TiedHead(), Key("ffn_hidden_size", "feed_forward_length"), Key("num_attention_heads", "attention.head_count"),
            FalconHeads(), HeadWidth(said=False), Key("layer_norm_epsilon", EPS, float), RotaryLine(), TanhGelu("activation"),
            Always("tensor_data_layout", "jploski"), only("alibi", False), only("bias", False), only("parallel_attn", True),
        ),
        changes={"attn_qkv": _by_group},
    ),
    GgufForm(
        "bloom",
        "bloom",
        (
            Key("hidden_size", "embedding_length"), Key("n_layer", "block_count"), LENGTH, VocabularySize(), TiedHead(),
            Key("n_head", "attention.head_count"), Repeats("attention.head_count_kv", lambda table: table["n_head"]),
            _wide("hidden_size"), Key("layer_norm_epsilon", EPS, float),
            only("apply_residual_connection_post_layernorm", False),
        ),
        changes={"attn_qkv": _by_head("n_head")},
    ),
    GgufForm(
        "mpt",
        "mpt",
        (
            Key("d_model", "embedding_length"), Key("n_layers", "block_count"), Key("max_seq_len", "context_length"),
            VocabularySize(), TiedHead(), Key("n_heads", "attention.head_count"), _wide("d_model"),
            Key("layer_norm_epsilon", EPS, float), MptAttention(), TanhGelu(""),
        ),
    ),
    GgufForm(
        "starcoder",
        "gpt_bigcode",
        (
            VocabularySize(), TiedHead(), Key("n_embd", "embedding_length"), Key("n_layer", "block_count"),
            Key("n_head", "attention.head_count"), Always("attention.head_count_kv", 1), Key("n_inner", "feed_forward_length"),
            Key("n_positions", "context_length"), Key("layer_norm_epsilon", EPS, float),
            TanhGelu("activation_function", "gelu_pytorch_tanh"), only("multi_query", True), only("scale_attn_weights", True),
        ),
    ),
    GgufForm(
        "starcoder2",
        "starcoder2",
        decoder(
            RotaryLine(), TanhGelu("hidden_act", "gelu_pytorch_tanh"), only("use_bias", True), NoWindow(), head_dim=False,
            norm=Key("norm_epsilon", EPS, float),
        ),
    ),
)  # fmt: skip
