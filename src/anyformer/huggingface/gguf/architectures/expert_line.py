"""ERNIE 4.5 and Hunyuan with experts, some of which read every token."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.huggingface.config import Config
from anyformer.huggingface.gguf.changes import ShapedAs
from anyformer.huggingface.gguf.keys import GgufKeys, GgufMetadata
from anyformer.huggingface.gguf.lines import ExpertWidth, Follows, Key, Only, Repeats, Words, only
from anyformer.huggingface.gguf.rotary import RotaryLine
from anyformer.huggingface.gguf.shared import SILU, decoder
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.rules import Op


@dataclass(frozen=True)
class OneForAll:
    """A number of experts that Hunyuan's configuration may say layer by layer, and the graph once."""

    word: str = "moe_topk"

    def read(self, keys: GgufMetadata, table: Words) -> None:
        table[self.word] = keys("expert_used_count")

    def write(self, words: Config, keys: GgufKeys) -> None:
        found = words(self.word)
        first = found[0] if isinstance(found, list) else found
        words.expect(self.word, first, [first] * words("num_hidden_layers"), why="llama.cpp's graph has one for all layers")
        keys.put("expert_used_count", int(first))


def _shared(table: Words) -> int:
    """The width of all experts that read every token."""
    width: int = table["moe_intermediate_size"] * table["moe_num_shared_experts"]
    return width


def _one_row(table: Words) -> Op:
    return ShapedAs((-1,), (1, -1))


FORMS = (
    GgufForm(
        "ernie4_5-moe",
        "ernie4_5_moe",
        decoder(
            RotaryLine(), SILU, only("use_bias", False), Key("moe_num_experts", "expert_count"),
            Key("moe_k", "expert_used_count"), ExpertWidth(), Key("moe_num_shared_experts", "expert_shared_count"),
            Repeats("expert_shared_feed_forward_length", _shared, checked=False),
            Key("moe_layer_interval", "interleave_moe_layer_step"),
            Key("moe_layer_start_index", "leading_dense_block_count", int, 0),
            Follows("moe_layer_end_index", lambda table: table["num_hidden_layers"] - 1),
            Only("moe_norm_min", (1e-12,), said=False),
        ),
        names={"mlp.moe_statics.e_score_correction_bias": "exp_probs_b.bias"},
        changes={"exp_probs_b": _one_row},
    ),
    GgufForm(
        "hunyuan-moe",
        "hunyuan_v1_moe",
        decoder(
            RotaryLine(), SILU, only("attention_bias", False), Key("num_experts", "expert_count"), OneForAll(),
            Repeats("expert_feed_forward_length", lambda table: table["intermediate_size"]),
            Repeats("expert_shared_feed_forward_length", lambda table: table["intermediate_size"]),
            Repeats("expert_shared_count", lambda table: 1),
        ),
    ),
)  # fmt: skip
