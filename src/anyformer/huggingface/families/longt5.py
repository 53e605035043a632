"""LongT5 with local attention: T5 whose encoder sees so many tokens to either side."""

from __future__ import annotations

from typing import Any

from anyformer.describe import change, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.t5 import IGNORED, Line, names
from anyformer.huggingface.family import old as Family
from anyformer.model import Architecture
from anyformer.parts import Window

LONG = Line("LongT5EncoderModel", proj="relu")
RADIUS = "encoder.layer.attention.mask.after"


def read(config: Config) -> Architecture:
    config.expect("encoder_attention_type", "local", why="keys that are means of blocks are not known here")
    radius = config("local_radius", 127)
    return change(LONG.read(config), "encoder.layer.attention.mask", Window(size=radius + 1, after=radius))


def write(architecture: Architecture) -> dict[str, Any]:
    return LONG.write(architecture) | {"encoder_attention_type": "local", "local_radius": get(architecture, RADIUS)}


FAMILIES = (
    Family(
        "longt5", read, write, lambda architecture: names(architecture, "LocalSelfAttention"),
        "LongT5ForConditionalGeneration", inert=("global_block_size", "n_positions"), ignored=IGNORED,
    ),
)  # fmt: skip
