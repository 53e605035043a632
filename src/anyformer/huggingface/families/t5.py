"""T5, mT5 and UMT5: encoder-decoders with buckets of relative positions."""

from __future__ import annotations

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.t5_line import IGNORED, Line, t5_names
from anyformer.model import Architecture

T5 = Line("T5EncoderModel", proj="relu")
MT5 = Line("MT5EncoderModel", scales=False)
UMT5 = Line("UMT5EncoderModel", shared_bias=False)


def read_umt5(config: Config) -> Architecture:
    if config.target is not None and config.target.get("head.scale") == 1.0:
        raise HuggingFaceError(
            "umt5: transformers multiplies the logits by d_model^-0.5, and head.scale is 1; set it, or save in our own layout"
        )
    return UMT5.read(config)


_INERT = ("n_positions", "scalable_attention")
FAMILIES = tuple(
    Family(model_type, read, t5_names, f"{name}ForConditionalGeneration", inert=_INERT, ignored=IGNORED, kernel="sdpa")
    for model_type, read, name in (("t5", T5.read, "T5"), ("mt5", MT5.read, "MT5"), ("umt5", read_umt5, "UMT5"))
)
