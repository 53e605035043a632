"""Models of which little is published: the published facts, and a stand-in for the others, so that they can be priced."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.catalogue.gpt import gpt2, gpt3
from anyformer.catalogue.llama import llama
from anyformer.catalogue.palm import palm
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, Experts, Renormalise, RMSNorm, Rotary, Router, pre_norm


def llama_of_experts(*, width: int, depth: int, heads: int, experts: int, chosen: int, expert: int, vocab: int) -> Architecture:
    """A Llama in which every feed-forward network stands `experts` times: (E - 1) * 3 h i N more parameters, and routers."""
    norm = RMSNorm(eps=1e-5)
    block = pre_norm(
        norm,
        Attention(heads=heads, place=Rotary()),
        Experts(experts=experts, chosen=chosen, width=expert, router=Router(renormalise=Renormalise(eps=0.0))),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


_REKA = partial(llama, width=6144, depth=44, heads=64, kv_heads=8, ffn=19_648, vocab=100_352, theta=8_000_000.0)

ENTRIES = (
    Entry("anthropic-lm-52b", 2021, "a decoder of 52 B over 8192 tokens", "arXiv 2112.00861, appendix A",
          partial(gpt2, width=8192, depth=64, heads=64, length=8192, dropout=0.0),
          "the block is not published: GPT-2's, 64 layers of width 8192, which make 12 L D^2 = 52 B", "Anthropic"),
    Entry("gpt-4", 2023, "a transformer that predicts the next token", "arXiv 2303.08774, section 2",
          partial(gpt3, width=12_288, depth=96, heads=96, head_width=128),
          "no size and no detail is published: GPT-3 175B", "OpenAI"),
    Entry("gemini-1.0", 2023, "a decoder with multi-query attention over 32k tokens", "arXiv 2312.11805, section 2",
          partial(palm, width=18_432, depth=118, heads=48),
          "no size and no detail but multi-query attention is published: PaLM 540B", "Google"),
    Entry("gemini-style-4t", 2025, "a worked example: a Llama 7B with 1000 experts, 2 of them for a token",
          "the arithmetic of mixtures of experts: dense + (E - 1) * 3 h i N parameters",
          partial(llama_of_experts, width=4096, depth=32, heads=32, experts=1000, chosen=2, expert=11_008, vocab=32_000),
          "an example of how trillions of parameters come about, not a description of a released model", "anyformer"),
    Entry("reka-flash", 2024, "21 B, SwiGLU, grouped queries, rotary, RMSNorm", "arXiv 2404.12387, section 2", _REKA,
          "layers and widths are not published, the encoder of images, video and sound is left out: Reka Flash 3", "Reka"),
    Entry("reka-flash-3", 2025, "a Llama", "released configuration reka-flash-3", _REKA, organisation="Reka"),
)  # fmt: skip
