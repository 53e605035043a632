"""BERT's line."""

from __future__ import annotations

from anyformer.huggingface.rules import Table

ATTENTION: Table = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
}
FEEDFORWARD: Table = {"feedforward.up": "intermediate.dense", "feedforward.down": "output.dense"}
POST_NORMS: Table = {"step_0_norm_after": "attention.output.LayerNorm", "step_1_norm_after": "output.LayerNorm"}
