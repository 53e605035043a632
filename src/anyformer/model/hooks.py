"""What TransformerLens calls the values inside a decoder, which files of other libraries name.

`decoder.layer[1].output` is `blocks.1.hook_resid_post`. Not named are a gate and what it multiplies: `mlp.hook_pre` is the one
in networks with a gate, and the other without. TransformerLens (github.com/TransformerLensOrg/TransformerLens),
`components/transformer_block.py`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Final

OF_MODEL: Final[Mapping[str, str]] = {
    "embedding.output": "hook_embed",
    "decoder.position.output": "hook_pos_embed",
    "decoder.final_norm.scale": "ln_final.hook_scale", "decoder.final_norm.normalized": "ln_final.hook_normalized",
}  # fmt: skip
"""Path -> hook."""
OF_LAYER: Final[Mapping[str, str]] = {
    "input": "hook_resid_pre", "attention.after": "hook_resid_mid", "output": "hook_resid_post",
    "attention.norm_before.scale": "ln1.hook_scale", "feedforward.norm_before.scale": "ln2.hook_scale",
    "attention.norm_before.normalized": "ln1.hook_normalized", "feedforward.norm_before.normalized": "ln2.hook_normalized",
    "attention.query": "attn.hook_q", "attention.key": "attn.hook_k", "attention.value": "attn.hook_v",
    "attention.placed_query": "attn.hook_rot_q", "attention.placed_key": "attn.hook_rot_k",
    "attention.scores": "attn.hook_attn_scores", "attention.weights": "attn.hook_pattern",
    "attention.heads": "attn.hook_z", "attention.head_outputs": "attn.hook_result", "attention.output": "hook_attn_out",
    "feedforward.hidden": "mlp.hook_post", "feedforward.output": "hook_mlp_out",
}  # fmt: skip
"""Path in a layer -> hook of a block."""
_BY_GATE: Final = {"mlp.hook_pre": ("feedforward.gate", "feedforward.up"), "mlp.hook_pre_linear": ("feedforward.up",)}
_PATHS: Final = {hook: path for path, hook in OF_MODEL.items()}
_PATHS_OF_LAYER: Final = {hook: path for path, hook in OF_LAYER.items()}
_LAYER: Final = re.compile(r"decoder\.layer\[(\d+)\]\.(.+)")
_BLOCK: Final = re.compile(r"blocks\.(\d+)\.(.+)")


def hook_of(path: str) -> str:
    """The hook at a path; the path itself where no hook has this value."""
    layer = _LAYER.fullmatch(path)
    if layer is None:
        return OF_MODEL.get(path, path)
    hook = OF_LAYER.get(layer[2])
    return path if hook is None else f"blocks.{layer[1]}.{hook}"


def path_of(hook: str) -> str | None:
    """The path of a hook; None of one that is not known here."""
    block = _BLOCK.fullmatch(hook)
    if block is None:
        return _PATHS.get(hook)
    path = _PATHS_OF_LAYER.get(block[2])
    return None if path is None else f"decoder.layer[{block[1]}].{path}"


def path_in(hook: str, known: Container[str]) -> str | None:
    """The path of a hook among the `known` ones of a model, also of one whose path depends on whether its network has a gate;
    None where there is none."""
    block = _BLOCK.fullmatch(hook)
    ways = _BY_GATE.get(block[2], ()) if block else ()
    found = [path_of(hook), *(f"decoder.layer[{block[1]}].{way}" for way in ways if block)]
    return next((path for path in found if path is not None and path in known), None)
