"""Speech2Text: two convolutions and one, scaled and not, and frames of several channels."""

from __future__ import annotations

from huggingface.case import Case
from huggingface.cases.bart import APART, BASE

SHARED = {key: value for key, value in BASE.items() if key != "max_position_embeddings"} | {
    "input_feat_per_channel": 3, "input_channels": 2, "conv_kernel_sizes": [3, 5], "num_conv_layers": 2, "conv_channels": 10,
    "max_source_positions": 36, "max_target_positions": 17,
}  # fmt: skip
ONE = {"conv_kernel_sizes": [5], "num_conv_layers": 1}

CASES = [
    Case("speech_to_text", SHARED, "SpeechSeq2Seq", "tied", time_first=True),
    Case("speech_to_text", SHARED | APART | ONE, "SpeechSeq2Seq", "apart", time_first=True),
]
