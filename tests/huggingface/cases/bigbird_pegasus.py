"""BigBird-Pegasus that attends to everything, with biases and without."""

from __future__ import annotations

from huggingface.cases.bart import both

# Of transformers' two tanh forms of GELU, which differ in the last bit, an export names the class's own.
CASES = [
    both("bigbird_pegasus", attention_type="original_full")[0],
    both("bigbird_pegasus", attention_type="original_full", use_bias=True, activation_function="gelu_new")[1],
]
