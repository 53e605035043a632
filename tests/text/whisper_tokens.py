"""A small tokenizer with Whisper's special tokens and times, as transformers makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import WhisperTokenizer

SPECIAL = [
    "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|zh|>", "<|translate|>", "<|transcribe|>", "<|startoflm|>",
    "<|startofprev|>", "<|nocaptions|>", "<|notimestamps|>",
]  # fmt: skip
TIMES = [f"<|{count * 0.02:.2f}|>" for count in range(101)]


def written(place: Path) -> Any:
    """Written into a directory, and as transformers has it."""
    words = [*map(chr, range(33, 127)), "Ġ", *SPECIAL, *TIMES]
    made = WhisperTokenizer(vocab={word: number for number, word in enumerate(words)}, merges=[])
    made.add_special_tokens({"additional_special_tokens": SPECIAL[1:]})
    made.add_tokens(TIMES)
    made.save_pretrained(place)
    return made
