"""Fairseq's line (OPT, XGLM, BioGPT, BART and its kin): names of weights, and what positions begin with."""

from __future__ import annotations

from anyformer.huggingface.rules import Table
from anyformer.huggingface.words.heads import ALL

FIRST = 2
"""The row of a table of positions where the first token's stands."""
PLAIN: Table = {"feedforward.up": "fc1", "feedforward.down": "fc2"}
NORMS: Table = {
    "attention.norm_before": "self_attn_layer_norm",
    "feedforward.norm_before": "final_layer_norm",
    "step_0_norm_after": "self_attn_layer_norm",
    "step_1_norm_after": "final_layer_norm",
}
"""Of both placements of the norms: those that are not there are passed over."""


def projections(ours: str, theirs: str) -> Table:
    """The four projections of an attention."""
    return {f"{ours}.{name}": f"{theirs}.{name[0] if name != 'output' else 'out'}_proj" for name in ALL}
