"""Phi 2 and Phi 3."""

from __future__ import annotations

from anyformer.huggingface.gguf.lines import Key, Only, only
from anyformer.huggingface.gguf.rotary import OriginalLength, RotaryLine
from anyformer.huggingface.gguf.shared import SILU, decoder
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.gguf.windows import NoWindow

FORMS = (
    GgufForm(
        "phi3",
        "phi3",
        decoder(
            RotaryLine(("default", "longrope"), partial=True, beside=True),
            SILU,
            NoWindow(key="attention.sliding_window"),
            OriginalLength(),
            head_dim=False,
        ),
    ),
    GgufForm(
        "phi2",
        "phi",
        decoder(
            RotaryLine(("default",), partial=True),
            only("hidden_act", "gelu_new"),
            Only("qk_layernorm", (False,)),
            head_dim=False,
            norm=Key("layer_norm_eps", "attention.layer_norm_epsilon", float),
        ),
    ),
)
