"""Inputs of each layer: the keys of their sizes, and the names of their weights, in Gemma 3n and 4."""

from __future__ import annotations

from anyformer.huggingface.config import Config
from anyformer.huggingface.rules import Table
from anyformer.parts import LayerInputs
from anyformer.parts.norms.norm import Norm


def layer_inputs(config: Config, norm: Norm, *, width: int = 256, beyond: int | None = None) -> LayerInputs | None:
    """`hidden_size_per_layer_input` features per layer, `width` where the key is absent; None for 0.

    `beyond`: the row of tokens beyond the table.
    """
    size = config("hidden_size_per_layer_input", width, lambda target: target.get("stack.layer_inputs.width") or 0)
    vocab = config("vocab_size_per_layer_input", 262_144, "stack.layer_inputs.vocab")
    if not size:
        return None
    return LayerInputs(
        width=size,
        vocab=vocab,
        table_scale=float(size**0.5),
        beyond=beyond,
        projection_scale="inverse_sqrt_width",
        norm=norm,
        factor=float(2**-0.5),
    )


LAYER_INPUT: Table = {
    "layer_input.input": "per_layer_input_gate",
    "layer_input.output": "per_layer_projection",
    "layer_input.norm_after": "post_per_layer_input_norm",
}
LAYER_INPUTS_OUTSIDE: Table = {
    f"{stack}.layer_inputs.{ours}": f"model.{theirs}"
    for stack in ("decoder", "encoder")
    for ours, theirs in (
        ("table", "embed_tokens_per_layer.weight"),
        ("projection", "per_layer_model_projection"),
        ("norm", "per_layer_projection_norm"),
    )
}
