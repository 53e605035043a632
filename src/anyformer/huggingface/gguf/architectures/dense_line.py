"""Decoders with RMSNorm or LayerNorm that differ from Llama in a part or two: SmolLM 3, Nemotron, EXAONE 4, Seed, Arcee, ..."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.huggingface.config import Config
from anyformer.huggingface.gguf.keys import GgufKeys, GgufMetadata
from anyformer.huggingface.gguf.lines import Follows, Key, Present, Words, only
from anyformer.huggingface.gguf.rotary import RotaryLine
from anyformer.huggingface.gguf.shared import NEIGHBOURS, NO_WINDOW, SILU, decoder, shifted
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.gguf.windows import AllFull, LayerKinds, NoWindow

ROTARY = RotaryLine()
WITH_FACTORS = RotaryLine(("default", "linear", "yarn", "llama3"))
NO_BIASES = (only("attention_bias", False), only("mlp_bias", False))
EPS = "attention.layer_norm_epsilon"


def _every_fourth_still(table: Words) -> list[int]:
    """1 for the layers that rotate: all but every fourth."""
    return [int((i + 1) % 4 != 0) for i in range(table["num_hidden_layers"])]


def _filled(table: Words) -> int:
    """Width of heads that fill the model's."""
    width: int = table["hidden_size"] // table["num_attention_heads"]
    return width


@dataclass(frozen=True)
class ExaoneWindows:
    """Windows in three of four layers, which llama.cpp gives to models of 64 layers and no others."""

    deep: int = 64

    def read(self, keys: GgufMetadata, table: Words) -> None:
        if table["num_hidden_layers"] == self.deep:
            table["sliding_window"] = keys("attention.sliding_window", 4096)
            LayerKinds(usual=4).read(keys, table)
        else:
            NoWindow(key="attention.sliding_window").read(keys, table)

    def write(self, words: Config, keys: GgufKeys) -> None:
        if words("num_hidden_layers") == self.deep:
            keys.put("attention.sliding_window", int(words("sliding_window")))
            LayerKinds(usual=4).write(words, keys)
        else:
            words.expect("sliding_window", None, why="llama.cpp gives windows to models of 64 layers alone")
            AllFull().write(words, keys)


FORMS = (
    GgufForm(
        "smollm3",
        "smollm3",
        decoder(ROTARY, SILU, *NO_BIASES, *NO_WINDOW, Follows("no_rope_layers", _every_fourth_still)),
        changes=NEIGHBOURS,
    ),
    GgufForm(
        "nemotron",
        "nemotron",
        decoder(
            RotaryLine(partial=True), only("hidden_act", "relu2"), Present("attention_bias", "attn_q.bias"),
            Present("mlp_bias", "ffn_up.bias"), head_dim=False, norm=Key("norm_eps", EPS, float),
        ),
        changes=dict.fromkeys(("attn_norm.weight", "ffn_norm.weight", "output_norm.weight"), shifted),
        output=True,
        unread=("attention.layer_norm_rms_epsilon",),
    ),
    GgufForm("exaone4", "exaone4", decoder(WITH_FACTORS, SILU, ExaoneWindows(), Follows("head_dim", _filled))),
    GgufForm(
        "seed_oss",
        "seed_oss",
        decoder(
            ROTARY, SILU, Present("attention_bias", "attn_q.bias"), only("attention_out_bias", False), only("mlp_bias", False)
        ),
    ),
    GgufForm(
        "arcee",
        "arcee",
        decoder(WITH_FACTORS, only("hidden_act", "relu2"), *NO_BIASES, head_dim=False),
        changes=NEIGHBOURS,
    ),
    GgufForm(
        "glm4",
        "glm4",
        decoder(RotaryLine(partial=True), SILU, Present("attention_bias", "attn_q.bias")),
    ),
    GgufForm("ernie4_5", "ernie4_5", decoder(ROTARY, SILU, only("use_bias", False))),
    GgufForm("hunyuan-dense", "hunyuan_v1_dense", decoder(ROTARY, SILU, only("attention_bias", False))),
    GgufForm(
        "jais2",
        "jais2",
        decoder(
            ROTARY, only("hidden_act", "relu2"), only("attention_bias", True), only("mlp_bias", True), head_dim=False,
            norm=Key("layer_norm_eps", EPS, float),
        ),
    ),
)  # fmt: skip
