"""Llama, Mistral and Mixtral, which share a graph: neighbours rotate."""

from __future__ import annotations

from anyformer.huggingface.gguf.keys import GgufMetadata
from anyformer.huggingface.gguf.lines import Key, Present
from anyformer.huggingface.gguf.rotary import RotaryLine
from anyformer.huggingface.gguf.shared import EXPERTS, NEIGHBOURS, SILU, decoder
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.gguf.windows import NoWindow

ROTARY = RotaryLine(("default", "linear", "yarn", "llama3", "longrope"))


def _routed(keys: GgufMetadata) -> bool:
    return bool(keys("expert_count", 0))


def _plain(keys: GgufMetadata) -> bool:
    return not _routed(keys)


def _never(keys: GgufMetadata) -> bool:
    """A file does not tell these from Llama, which computes the same."""
    return False


NO_WINDOW = NoWindow()

BIASES = (Present("attention_bias", "attn_q.bias"), Present("mlp_bias", "ffn_up.bias"))

FORMS = (
    GgufForm(
        "llama",
        "llama",
        decoder(ROTARY, SILU, *BIASES),
        changes=NEIGHBOURS,
        when=_plain,
    ),
    GgufForm("llama", "mistral", decoder(ROTARY, SILU, NO_WINDOW), changes=NEIGHBOURS, when=_never),
    GgufForm("llama", "internlm3", decoder(ROTARY, SILU, *BIASES), changes=NEIGHBOURS, when=_never),
    GgufForm(
        "llama",
        "mixtral",
        decoder(
            ROTARY,
            SILU,
            NO_WINDOW,
            Key("num_local_experts", "expert_count"),
            Key("num_experts_per_tok", "expert_used_count"),
        ),
        names=EXPERTS,
        changes=NEIGHBOURS,
        when=_routed,
    ),
)
