"""RWKV-4: widths of the averages and of the network, a tied head."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "num_hidden_layers": 3, "layer_norm_epsilon": 1e-3, "context_length": 64,
}  # fmt: skip
OTHER = {"attention_hidden_size": 24, "intermediate_size": 40, "tie_word_embeddings": True}
LEAK = "transformers does not mask padding"
STATELESS = {"use_cache": False}
"""Its state has the stream's width, whatever the averages have, and is written where the backward pass reads it."""

CASES = [
    Case("rwkv", BASE, unpadded=LEAK, calls=STATELESS),
    Case("rwkv", BASE | OTHER, name="widths", unpadded=LEAK, calls=STATELESS),
]
