"""Ettin: ModernBERT's layers as decoders, beside encoders of the same sizes and data."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.catalogue.modernbert import modernbert

_WHAT = "ModernBERT as a decoder, for the next token"
_PAPER = "arXiv 2507.11412, table 1; windows and rotary of transformers' ModernBertDecoderConfig"

ENTRIES = (
    *(Entry(f"ettin-decoder-{size}", 2025, _WHAT, _PAPER,
            partial(modernbert, width=width, depth=depth, heads=heads, ffn=ffn, causal=True))
      for size, width, depth, heads, ffn in (
          ("17m", 256, 7, 4, 384), ("32m", 384, 10, 6, 576), ("68m", 512, 19, 8, 768), ("150m", 768, 22, 12, 1152),
          ("400m", 1024, 28, 16, 2624), ("1b", 1792, 28, 28, 3840))),
)  # fmt: skip
