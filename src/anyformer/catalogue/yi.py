"""01.AI's Yi: Llama with grouped queries at every size."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.catalogue.llama import llama

_YI = partial(llama, vocab=64_000, theta=5_000_000.0)
_PAPER = "arXiv 2403.04652, table 1; released configuration Yi-{}"
_WHAT = "a Llama with grouped queries, theta 5,000,000"

ENTRIES = (
    Entry("yi-6b", 2024, _WHAT, _PAPER.format("6B"), partial(_YI, width=4096, depth=32, heads=32, kv_heads=4, ffn=11_008)),
    Entry("yi-9b", 2024, "Yi 6B, deeper", "arXiv 2403.04652, section 7; released configuration Yi-9B",
          partial(_YI, width=4096, depth=48, heads=32, kv_heads=4, ffn=11_008, eps=1e-6)),
    Entry("yi-34b", 2024, _WHAT, _PAPER.format("34B"), partial(_YI, width=7168, depth=60, heads=56, kv_heads=8, ffn=20_480)),
)  # fmt: skip
