"""Fairseq's line (OPT, XGLM, BioGPT, BART and its kin): names of weights, and the first row of position tables."""

from __future__ import annotations

from anyformer.huggingface.rules import Table
from anyformer.huggingface.words.names import projections

FIRST = 2
"""The row of the first token's position in a table of positions."""
ATTENTION = projections("self_attn.*_proj", "self_attn.out_proj")
PLAIN: Table = {"feedforward.up": "fc1", "feedforward.down": "fc2"}
NORMS: Table = {
    "attention.norm_before": "self_attn_layer_norm",
    "feedforward.norm_before": "final_layer_norm",
    "step_0_norm_after": "self_attn_layer_norm",
    "step_1_norm_after": "final_layer_norm",
}
"""Norms of pre-norm and of post-norm layers: names without a weight are passed over."""
