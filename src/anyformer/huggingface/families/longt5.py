"""LongT5 with local attention: T5 whose encoder sees so many tokens to either side."""

from __future__ import annotations

from functools import partial

from anyformer.describe import change
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.t5_line import IGNORED, Line, t5_names
from anyformer.model import Architecture
from anyformer.parts import Window

LONG = Line("LongT5EncoderModel", proj="relu")


def read(config: Config) -> Architecture:
    config.put(encoder_attention_type="local")
    config.expect("encoder_attention_type", "local", why="keys that are means of blocks are not known here")
    radius = config("local_radius", 127, "encoder:attention.mask.after")
    return change(LONG.read(config), "encoder.layer.attention.mask", Window(size=radius + 1, after=radius))


FAMILIES = (
    Family(
        "longt5",
        read,
        partial(t5_names, encodes="LocalSelfAttention"),
        "LongT5ForConditionalGeneration",
        inert=("global_block_size", "n_positions"),
        ignored=IGNORED,
    ),
)
