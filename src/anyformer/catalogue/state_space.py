"""State-space models: Mamba, Mamba-2 and Falcon Mamba alone; Jamba, Bamba, Nemotron-H and Falcon-H1 beside attention."""

from __future__ import annotations

from functools import partial
from typing import Any

from anyformer.catalogue.deepseek import by_correction
from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Embedding,
    Experts,
    FeedForward,
    GroupedRMSNorm,
    Head,
    LatentExperts,
    Mamba,
    Mamba2,
    RMSNorm,
    Rotary,
    Router,
    SharedExpert,
    ShortConvolution,
    parallel,
    pre_norm,
)
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sublayer import Sublayer

NORM = RMSNorm(eps=1e-5)
CONVOLUTION = ShortConvolution(kernel=4, activation="silu", bias=True)


def selective(width: int, *, inner_norm: Norm | None = None) -> Mamba:
    """The layer of Gu & Dao 2023 (arXiv 2312.00752), section 3.4: 2 D channels of 16, steps through D / 16 features."""
    return Mamba(channels=2 * width, state_width=16, step_rank=width // 16, convolution=CONVOLUTION, inner_norm=inner_norm)


def dual(width: int, *, groups: int = 1, step_floor: float = 0.0, heads: int | None = None) -> Mamba2:
    """The layer of Dao & Gu 2024 (arXiv 2405.21060), section 7: heads of 64 features, 2 D in all, keys of 128."""
    return Mamba2(
        heads=heads or 2 * width // 64,
        head_width=64,
        state_width=128,
        groups=groups,
        convolution=CONVOLUTION,
        step_floor=step_floor,
        norm=GroupedRMSNorm(groups=groups, eps=1e-5),
    )


def mamba(*, width: int, depth: int) -> Architecture:
    """Gu & Dao 2023 (arXiv 2312.00752), table 12: blocks of one mixer."""
    return _alone(selective(width), width=width, depth=depth, vocab=50_280)


def mamba2(*, width: int, depth: int) -> Architecture:
    """Dao & Gu 2024 (arXiv 2405.21060), table 10."""
    return _alone(dual(width), width=width, depth=depth, vocab=50_288)


def falcon_mamba() -> Architecture:
    """Zuo et al. 2024 (arXiv 2410.05355), section 3: norms without gain of steps, keys and queries."""
    mixer = selective(4096, inner_norm=RMSNorm(eps=1e-6, gain="none"))
    return _alone(mixer, width=4096, depth=64, vocab=65_024, tied=False)


def _alone(mixer: Mamba | Mamba2, *, width: int, depth: int, vocab: int, tied: bool = True) -> Architecture:
    block = pre_norm(NORM, mixer)
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=NORM, head=Head(tied=tied))


def jamba() -> Architecture:
    """Lieber et al. 2024 (arXiv 2403.19887), section 3: one of 8 layers attends, without positions; experts in every other."""
    norm = RMSNorm(eps=1e-6)
    mixers = {"mamba": selective(4096, inner_norm=norm), "attention": Attention(heads=32, kv_heads=8)}
    experts = Experts(experts=16, chosen=2, width=14_336, router=Router(), activation="silu")
    networks = {"dense": FeedForward(width=14_336, activation="silu", gated=True), "experts": experts}
    kinds = [("attention" if i % 8 == 4 else "mamba", "experts" if i % 2 else "dense") for i in range(32)]
    blocks = {f"{m}_{n}": pre_norm(norm, mixers[m], networks[n]) for m, n in dict.fromkeys(kinds)}
    order = [blocks[f"{m}_{n}"] for m, n in kinds]
    return decoder_only(Embedding(vocab=65_536), 4096, order, names=Named(blocks), final_norm=norm, head=Head())


def bamba() -> Architecture:
    """IBM, Princeton, CMU and UIUC 2024: Mamba-2 but for three layers of attention, which rotate half of each head."""
    attention = Attention(heads=32, kv_heads=8, place=Rotary(theta=10_000.0, fraction=0.5))
    feedforward = FeedForward(width=14_336, activation="silu", gated=True)
    linear, full = (pre_norm(NORM, mixer, feedforward) for mixer in (dual(4096), attention))
    order = [full if i in (9, 18, 27) else linear for i in range(32)]
    return decoder_only(
        Embedding(vocab=128_256), 4096, order, names=Named(linear=linear, full=full), final_norm=NORM, head=Head()
    )


def nemotron_h(network: Sublayer, *, width: int, order: str, kv_heads: int = 8, heads: int | None = None) -> Architecture:
    """NVIDIA 2025 (arXiv 2504.03624), section 2.1: each layer is one of Mamba-2 (M), attention (*) or a network (- or E).

    `heads`: those of Mamba-2.
    """
    norm = RMSNorm(eps=1e-5, cast="after_gain")
    blocks = {
        "mamba": pre_norm(norm, dual(width, groups=8, step_floor=0.001, heads=heads)),
        "attention": pre_norm(norm, Attention(heads=32, kv_heads=kv_heads, head_width=128)),
        "network": pre_norm(norm, network),
    }
    words = {"M": "mamba", "*": "attention", "-": "network", "E": "network"}
    layers = [blocks[words[letter]] for letter in order]
    return decoder_only(Embedding(vocab=131_072), width, layers, names=Named(blocks), final_norm=norm, head=Head())


def falcon_h1(
    *,
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    vocab: int,
    head_width: int = 128,
    mixer: dict[str, Any],
) -> Architecture:
    """Zuo et al. 2025 (arXiv 2507.22448), section 2: Mamba-2 beside attention on one norm, then a network.

    The factors of muP, which change no size, are left at 1.
    """
    attention = Attention(heads=heads, kv_heads=kv_heads, head_width=head_width, place=Rotary(theta=1e11))
    beside = parallel(NORM, Mamba2(convolution=CONVOLUTION, **mixer), attention)
    after = pre_norm(NORM, FeedForward(width=ffn, activation="silu", gated=True))
    block = Block(steps=(*beside.steps, *after.steps))
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=NORM, head=Head())


_MAMBA = "arXiv 2312.00752, table 12; released configuration state-spaces/{}"
_MAMBA2 = "arXiv 2405.21060; released configuration state-spaces/{}"
_EIGHT = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
_EIGHT_NETWORK = FeedForward(width=21_504, activation="relu_squared", gated=False)
_NANO = "MEMEM*E" * 5 + "MEMEMEM*EMEMEMEME"
_NANO_NETWORK = Experts(
    experts=128,
    chosen=6,
    width=1856,
    activation="relu_squared",
    gated=False,
    router=by_correction(scale=2.5),
    shared=SharedExpert(feedforward=FeedForward(width=3712, activation="relu_squared", gated=False)),
)
_SUPER = "MEMEMEM*" + "EMEMEMEM*" * 2 + "EMEMEMEMEM*" * 4 + "EMEMEMEM*EMEMEMEME"
_SUPER_NETWORK = LatentExperts(
    experts=512,
    chosen=22,
    width=2688,
    latent=1024,
    activation="relu_squared",
    gated=False,
    router=by_correction(scale=5.0),
    shared=SharedExpert(feedforward=FeedForward(width=5376, activation="relu_squared", gated=False)),
)
_H1 = "arXiv 2507.22448, section 2; released configuration Falcon-H1-{}-Base, muP's factors left at 1"
_SIZES = (("130m", 768, 24), ("370m", 1024, 48), ("790m", 1536, 48), ("1.4b", 2048, 48), ("2.8b", 2560, 64))
_SIZES2 = (("130m", 768, 24), ("370m", 1024, 48), ("780m", 1536, 48), ("1.3b", 2048, 48), ("2.7b", 2560, 64))

ENTRIES = (
    *(Entry(f"mamba-{size}", 2023, "selective state spaces alone", _MAMBA.format(f"mamba-{size}"),
            partial(mamba, width=width, depth=depth)) for size, width, depth in _SIZES),
    *(Entry(f"mamba2-{size}", 2024, "state-space duality: one decay per head", _MAMBA2.format(f"mamba2-{size}"),
            partial(mamba2, width=width, depth=depth)) for size, width, depth in _SIZES2),
    Entry("falcon-mamba-7b", 2024, "Mamba with norms inside",
          "arXiv 2410.05355, section 3; released configuration falcon-mamba-7b",
          falcon_mamba, organisation="TII"),
    Entry("jamba-v0.1", 2024, "seven Mamba layers to one of attention, 2 of 16 experts in every other",
          "arXiv 2403.19887, section 3; released configuration Jamba-v0.1", jamba, organisation="AI21"),
    Entry("bamba-9b", 2024, "Mamba-2, three layers of attention", "released configuration Bamba-9B", bamba, organisation="IBM"),
    Entry("nemotron-h-8b", 2025, "24 layers of Mamba-2, 24 networks, four of attention",
          "arXiv 2504.03624, table 1; released configuration Nemotron-H-8B-Base-8K",
          partial(nemotron_h, _EIGHT_NETWORK, width=4096, order=_EIGHT), organisation="NVIDIA"),
    Entry("nemotron-3-nano-30b-a3b", 2025, "23 layers of Mamba-2, 23 of experts, six of attention; 6 of 128 experts",
          "released configuration NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
          partial(nemotron_h, _NANO_NETWORK, width=2688, order=_NANO, kv_heads=2, heads=64), organisation="NVIDIA"),
    Entry("nemotron-3-super-120b-a12b", 2026,
          "40 layers of Mamba-2, 40 of experts that read a quarter of the features, eight of attention; 22 of 512 experts",
          "released configuration NVIDIA-Nemotron-3-Super-120B-A12B-BF16, without its prediction of later tokens",
          partial(nemotron_h, _SUPER_NETWORK, width=4096, order=_SUPER, kv_heads=2, heads=128), organisation="NVIDIA"),
    Entry("falcon-h1-0.5b", 2025, "Mamba-2 beside attention in every layer", _H1.format("0.5B"),
          partial(falcon_h1, width=1024, depth=36, heads=8, kv_heads=2, head_width=64, ffn=2048, vocab=32_784,
                  mixer={"heads": 24, "head_width": 64, "state_width": 128}), organisation="TII"),
    Entry("falcon-h1-34b", 2025, "Mamba-2 beside attention in every layer, a norm by groups behind the gate", _H1.format("34B"),
          partial(falcon_h1, width=5120, depth=72, heads=20, kv_heads=4, ffn=21_504, vocab=261_120,
                  mixer={"heads": 32, "head_width": 128, "state_width": 256, "groups": 2,
                         "norm": GroupedRMSNorm(groups=2, eps=1e-5)}), organisation="TII"),
)  # fmt: skip
