"""Encoders of waves: wav2vec 2.0, HuBERT, data2vec; a character per position for CTC."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, encoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    ConvolutionalPosition,
    FeedForward,
    Head,
    InputProjection,
    LayerNorm,
    Projection,
    RowNorm,
    WaveLayer,
    Waves,
    post_norm,
    pre_norm,
)

_KERNELS, _STRIDES = (10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2)
_AROUND = ConvolutionalPosition(kernel=128, groups=16, weights="normed")
_SEVERAL = ConvolutionalPosition(kernel=19, groups=16, layers=5, norm=LayerNorm(gain="none", bias=False))


def wave_encoder(
    *, width: int, depth: int, heads: int, position: ConvolutionalPosition, large: bool = False, normed: bool = False
) -> Architecture:
    """Baevski et al. 2020 (arXiv 2006.11477), section 2: 512 channels, a position every 320 samples, FFN 4 D.

    `large`: norms before sublayers, and in the convolutions a bias and a norm over channels; `normed`: that norm alone.
    """
    norm = LayerNorm()
    inner: dict[str, Any] = {"bias": large, "norm": norm if large or normed else None}
    layers = [
        WaveLayer(kernel=kernel, stride=stride, channels=512, **inner)
        for kernel, stride in zip(_KERNELS, _STRIDES, strict=True)
    ]
    layers[-1] = layers[-1].but(channels=None)
    if not (large or normed):
        layers[0] = layers[0].but(row_norm=RowNorm())
    block = (pre_norm if large else post_norm)(
        norm,
        Attention(heads=heads, mask=Bidirectional(), project=Projection(bias=("query", "key", "value", "output"))),
        FeedForward(width=4 * width, activation="gelu", gated=False, bias=("up", "down")),
    )
    return encoder_only(
        Waves(layers=tuple(layers), norm=norm),
        width,
        [block] * depth,
        embedding_width=512,
        input_projection=InputProjection(place="first"),
        position=position,
        input_norm=None if large else norm,
        final_norm=norm if large else None,
        head=Head(outputs=32, bias=True),
    )


_BASE: Mapping[str, Any] = {"width": 768, "depth": 12, "heads": 12}
_LARGE: Mapping[str, Any] = {"width": 1024, "depth": 24, "heads": 16, "large": True}
_WHAT = "waves through 7 convolutions, characters by CTC"

ENTRIES = (
    Entry("wav2vec2-base", 2020, _WHAT, "arXiv 2006.11477, section 4.2; released configuration wav2vec2-base-960h",
          partial(wave_encoder, **_BASE, position=_AROUND)),
    Entry("wav2vec2-large", 2020, _WHAT, "arXiv 2006.11477, section 4.2; released configuration wav2vec2-large-960h-lv60-self",
          partial(wave_encoder, **_LARGE, position=_AROUND)),
    Entry("hubert-base", 2021, _WHAT, "arXiv 2106.07447, table 1; released configuration hubert-base-ls960",
          partial(wave_encoder, **_BASE, position=_AROUND)),
    Entry("hubert-large", 2021, _WHAT, "arXiv 2106.07447, table 1; released configuration hubert-large-ls960-ft",
          partial(wave_encoder, **_LARGE, position=_AROUND)),
    Entry("data2vec-audio-base", 2022, "five convolutions for positions, a norm in every convolution",
          "arXiv 2202.03555, section 4; released configuration data2vec-audio-base-960h",
          partial(wave_encoder, **_BASE, position=_SEVERAL, normed=True)),
)  # fmt: skip
