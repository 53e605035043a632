"""RWKV: recurrent networks of time and channel mixing."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import RWKV, RWKV7, Block, Embedding, Head, LayerNorm, RWKV7ChannelMix, RWKVChannelMix, ValueGate, pre_norm


def rwkv4(*, width: int, depth: int) -> Architecture:
    """Peng et al. 2023 (arXiv 2305.13048), section 3: a norm behind the embedding, time mixing, channel mixing of 4 D."""
    norm = LayerNorm(eps=1e-5)
    block = pre_norm(norm, RWKV(channels=width), RWKVChannelMix(width=4 * width))
    embedding, head = Embedding(vocab=50_277), Head()
    return decoder_only(embedding, width, [block] * depth, input_norm=norm, final_norm=norm, head=head)


def rwkv7(*, width: int, depth: int, decay_rank: int, value_rank: int, gate_rank: int) -> Architecture:
    """Peng et al. 2025 (arXiv 2503.14456): heads of 64; every layer but the first mixes its values with the first's."""
    norm, mix = LayerNorm(eps=1e-5), RWKV7ChannelMix(width=4 * width)
    first = RWKV7(heads=width // 64, decay_rank=decay_rank, rate_rank=decay_rank, gate_rank=gate_rank)
    later = first.but(value_gate=ValueGate(variant="first", rank=value_rank))
    names = Named[Block](first=pre_norm(norm, first, mix), layer=pre_norm(norm, later, mix))
    layers = [names["first"], *[names["layer"]] * (depth - 1)]
    return decoder_only(Embedding(vocab=65_536), width, layers, names=names, input_norm=norm, final_norm=norm, head=Head())


_SOURCE = "arXiv 2305.13048, table 2; released configuration RWKV/rwkv-4-{}-pile"
_SIZES = (
    ("169m", 768, 12), ("430m", 1024, 24), ("1b5", 2048, 24), ("3b", 2560, 32), ("7b", 4096, 32), ("14b", 5120, 40),
)  # fmt: skip
_SOURCE_7 = "arXiv 2503.14456, table 16; released configuration fla-hub/rwkv7-{}-world"
_SIZES_7 = (
    ("0.1b", "191M", 768, 12, 64, 32, 128), ("0.4b", "0.4B", 1024, 24, 64, 32, 128), ("1.5b", "1.5B", 2048, 24, 96, 64, 256),
    ("2.9b", "2.9B", 2560, 32, 96, 64, 320),
)  # fmt: skip
ENTRIES = tuple(
    Entry(f"rwkv-4-{size}", 2023, "averages of decaying weights in place of attention", _SOURCE.format(size),
          partial(rwkv4, width=width, depth=depth)) for size, width, depth in _SIZES
) + tuple(
    Entry(f"rwkv-7-world-{size}", 2025, "a generalised delta rule in place of attention", _SOURCE_7.format(released),
          partial(rwkv7, width=width, depth=depth, decay_rank=decay, value_rank=value, gate_rank=gate))
    for size, released, width, depth, decay, value, gate in _SIZES_7
)  # fmt: skip
