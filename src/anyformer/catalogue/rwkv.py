"""RWKV: recurrent networks of time and channel mixing."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import RWKV, Embedding, Head, LayerNorm, RWKVChannelMix, pre_norm


def rwkv4(*, width: int, depth: int) -> Architecture:
    """Peng et al. 2023 (arXiv 2305.13048), section 3: a norm behind the embedding, time mixing, channel mixing of 4 D."""
    norm = LayerNorm(eps=1e-5)
    block = pre_norm(norm, RWKV(channels=width), RWKVChannelMix(width=4 * width))
    embedding, head = Embedding(vocab=50_277), Head()
    return decoder_only(embedding, width, [block] * depth, input_norm=norm, final_norm=norm, head=head)


_SOURCE = "arXiv 2305.13048, table 2; released configuration RWKV/rwkv-4-{}-pile"
_SIZES = (
    ("169m", 768, 12), ("430m", 1024, 24), ("1b5", 2048, 24), ("3b", 2560, 32), ("7b", 4096, 32), ("14b", 5120, 40),
)  # fmt: skip
ENTRIES = tuple(
    Entry(f"rwkv-4-{size}", 2023, "averages of decaying weights in place of attention", _SOURCE.format(size),
          partial(rwkv4, width=width, depth=depth)) for size, width, depth in _SIZES
)  # fmt: skip
