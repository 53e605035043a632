"""BigBird-Pegasus where every token of the source sees all others: Pegasus with learned positions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.bart import DECODER, ENCODER, Line, learned, names
from anyformer.huggingface.rules import Names, Table
from anyformer.model import Architecture
from anyformer.parts import pre_norm
from anyformer.parts.heads import PROJECTIONS

BIGBIRD = Line(*learned(0, 4096), wiring=pre_norm, final_norm=True, scaled=True, activation="gelu_new", projections=())
ATTENTION: Table = {
    **{f"attention.{name}": f"self_attn.self.{name}" for name in PROJECTIONS[:3]},
    "attention.output": "self_attn.output",
}


def read(config: Config) -> Architecture:
    if config("attention_type", "block_sparse") != "original_full":
        raise HuggingFaceError(
            f"{config.where}: blocks chosen at random are not known here; up to (5 + 2 num_random_blocks) block_size tokens "
            f"transformers attends to all, and so does attention_type = original_full"
        )
    biased = replace(BIGBIRD, projections=PROJECTIONS if config("use_bias", False) else ())
    return biased.read(config)


def write(architecture: Architecture) -> dict[str, Any]:
    return BIGBIRD.write(architecture) | {
        "attention_type": "original_full",
        "use_bias": bool(get(architecture, "decoder.layer.attention.sublayer.bias")),
    }


def tables(architecture: Architecture) -> Names:
    """What is called a norm of the embeddings stands at the end."""
    outside = names(architecture).outside
    around: Table = {f"{side}.final_norm": f"model.{side}.layernorm_embedding" for side in ("encoder", "decoder")}
    return Names(
        {**outside, **around},
        {
            "encoder": ("model.encoder.layers.{i}.", {**ENCODER, **ATTENTION}),
            "decoder": ("model.decoder.layers.{i}.", DECODER),
        },
    )


FAMILIES = (
    BIGBIRD.family(
        "bigbird_pegasus", "BigBirdPegasusForConditionalGeneration", read=read, write=write, names=tables,
        inert=("block_size", "num_random_blocks"),
    ),
)  # fmt: skip
