"""T5, mT5 and UMT5: encoder-decoders with buckets of relative positions; LongT5 whose encoder sees within a window."""

from __future__ import annotations

from functools import partial

from anyformer.describe import change
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.t5_line import IGNORED, STAND_INS, T5Variant, t5_names
from anyformer.model import Architecture
from anyformer.parts import Window

T5 = T5Variant("T5EncoderModel", proj="relu")
MT5 = T5Variant("MT5EncoderModel", scales=False)
UMT5 = T5Variant("UMT5EncoderModel", shared_bias=False)
LONG = T5Variant("LongT5EncoderModel", proj="relu")


def read_umt5(config: Config) -> Architecture:
    if config.target is not None and config.target.get("head.scale") == 1.0:
        raise HuggingFaceError(
            "umt5: transformers multiplies the logits by d_model^-0.5, and head.scale is 1; set it, or save in our own layout"
        )
    config.expect("scale_decoder_outputs", True, why="transformers multiplies the logits always")
    return UMT5.read(config)


def read_long(config: Config) -> Architecture:
    config.put(encoder_attention_type="local")
    config.expect("encoder_attention_type", "local", why="keys that are means of blocks are not known here")
    radius = config("local_radius", 127, "encoder:attention.mask.after")
    return change(LONG.read(config), "encoder.layer.attention.mask", Window(size=radius + 1, after=radius))


_INERT = ("n_positions", "scalable_attention")
FAMILIES = (
    *(
        Family(
            model_type,
            read,
            t5_names,
            f"{name}ForConditionalGeneration",
            inert=_INERT,
            ignored=IGNORED,
            kernel="sdpa",
            stand_ins=STAND_INS,
            beyond_fp16=True,
        )
        for model_type, read, name in (("t5", T5.read, "T5"), ("mt5", MT5.read, "MT5"), ("umt5", read_umt5, "UMT5"))
    ),
    Family(
        "longt5",
        read_long,
        partial(t5_names, encodes="LocalSelfAttention"),
        "LongT5ForConditionalGeneration",
        inert=("global_block_size", "n_positions"),
        ignored=IGNORED,
        stand_ins=STAND_INS,
        beyond_fp16=True,
    ),
)
