"""InternLM 2 and 3: Llama with grouped queries and a larger theta."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.catalogue.llama import llama
from anyformer.parts import DynamicScaling

_INTERNLM2 = partial(llama, vocab=92_544, theta=1_000_000.0)
_SOURCE = "arXiv 2403.17297; InternLM/InternEvo, configs/_base_/models/internlm2_{}.py"
_WHAT = "a Llama with grouped queries, theta 1,000,000"

ENTRIES = (
    Entry("internlm2-1.8b", 2024, _WHAT, _SOURCE.format("1B"),
          partial(_INTERNLM2, width=2048, depth=24, heads=16, kv_heads=8, ffn=8192)),
    Entry("internlm2-7b", 2024, _WHAT, _SOURCE.format("7B"),
          partial(_INTERNLM2, width=4096, depth=32, heads=32, kv_heads=8, ffn=14_336)),
    Entry("internlm2-20b", 2024, _WHAT, _SOURCE.format("20B"),
          partial(_INTERNLM2, width=6144, depth=48, heads=48, kv_heads=8, ffn=16_384)),
    Entry("internlm3-8b", 2025, "a Llama with two heads of keys and values, positions stretched beyond 32k tokens",
          "released configuration internlm3-8b-instruct; the defaults of its class in transformers 5.23",
          partial(llama, width=4096, depth=48, heads=32, kv_heads=2, head_width=128, ffn=10_240, vocab=128_512,
                  theta=50_000_000.0, scaling=DynamicScaling(factor=6.0, trained=32_768))),
)  # fmt: skip
