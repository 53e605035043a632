"""OLMo 1 to 3, and with experts."""

from __future__ import annotations

from anyformer.huggingface.gguf.keys import GgufMetadata
from anyformer.huggingface.gguf.lines import Always, ExpertWidth, Key, Only, SameAs, only
from anyformer.huggingface.gguf.rotary import RotaryLine
from anyformer.huggingface.gguf.shared import NEIGHBOURS, RMS, SILU, decoder
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.gguf.windows import LayerKinds

CLIP = Key("clip_qkv", "attention.clamp_kqv", float, None)
NO_BIAS = only("attention_bias", False)


def _windows(keys: GgufMetadata) -> bool:
    return bool(keys("attention.sliding_window", 0))


FORMS = (
    GgufForm(
        "olmo",
        "olmo",
        decoder(RotaryLine(), SILU, NO_BIAS, CLIP, head_dim=False, norm=Always("attention.layer_norm_epsilon", 1e-5)),
        changes=NEIGHBOURS,
    ),
    GgufForm(
        "olmo2",
        "olmo2",
        decoder(RotaryLine(), SILU, NO_BIAS, head_dim=False),
        when=lambda keys: not _windows(keys),
        output=True,
    ),
    GgufForm(
        "olmo2",
        "olmo3",
        decoder(
            RotaryLine(swa=True), SILU, NO_BIAS, Key("sliding_window", "attention.sliding_window"), LayerKinds(usual=4),
            head_dim=False,
        ),
        when=_windows,
        output=True,
    ),
    GgufForm(
        "olmoe",
        "olmoe",
        decoder(
            RotaryLine(), SILU, NO_BIAS, SameAs("num_key_value_heads", "num_attention_heads"),
            Key("num_experts", "expert_count"), Key("num_experts_per_tok", "expert_used_count"),
            ExpertWidth("intermediate_size"), only("norm_topk_prob", False), Only("clip_qkv", (None,)),
            head_dim=False, norm=RMS,
        ),
        output=True,
    ),
)  # fmt: skip
