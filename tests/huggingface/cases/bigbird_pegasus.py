"""BigBird-Pegasus that attends to everything, with biases and without."""

from __future__ import annotations

from huggingface.cases.bart import both

CASES = [
    both("bigbird_pegasus", attention_type="original_full", use_bias=biased)[number]
    for number, biased in enumerate((False, True))
]
