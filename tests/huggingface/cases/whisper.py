"""Whisper, whose source is mel frames, exactly twice as many as it has positions."""

from __future__ import annotations

from huggingface.case import Case, S
from huggingface.cases.bart import APART, BASE

MORE = {
    "num_mel_bins": 7, "max_source_positions": S, "max_target_positions": 17, "begin_suppress_tokens": [4],
    "median_filter_width": 5, "activation_function": "gelu",
}  # fmt: skip
SHARED = {key: value for key, value in BASE.items() if key != "max_position_embeddings"} | MORE

CASES = [
    Case("whisper", SHARED, "SpeechSeq2Seq", "tied"),
    Case("whisper", SHARED | APART, "SpeechSeq2Seq", "apart"),
]
