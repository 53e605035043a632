"""Encoders of images that others build upon: DINOv2 and DINOv3, and the sides of CLIP and SigLIP that see."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry, Size
from anyformer.describe import Named
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Axial,
    Bidirectional,
    Block,
    Branch,
    Centred,
    CrossAttention,
    FeedForward,
    Gain,
    GappedPosition,
    Head,
    Latents,
    LayerNorm,
    LearnedPosition,
    Patches,
    Projection,
    Rotary,
    Step,
    pre_norm,
    stack,
)
from anyformer.parts.attention.projection import PROJECTIONS, Projected


def _scaled(norm: LayerNorm, attention: Attention, network: FeedForward) -> Block:
    """A pre-norm block with a learned factor of every feature that a branch adds (layer scale, arXiv 2103.17239)."""
    block = pre_norm(norm, attention, network)
    steps = [
        step.but(branches=Named({name: branch.but(gain=Gain(initial=1.0)) for name, branch in step.branches.items()}))
        for step in block.steps
    ]
    return block.but(steps=tuple(steps))


def _network(width: int, *, gated: bool) -> FeedForward:
    if gated:
        return FeedForward(width=width, activation="silu", bias=("gate", "up", "down"))
    return FeedForward(width=width, activation="gelu", gated=False, bias=("up", "down"))


def dinov2(*, width: int, depth: int, heads: int, ffn: int, gated: bool = False, registers: int = 0) -> Architecture:
    """Oquab et al. 2023 (arXiv 2304.07193), table 17: patches of 14, images of 518 x 518, layer scale.

    `registers`: learned vectors behind the class token, without a position (Darcet et al. 2023, arXiv 2309.16588).
    """
    norm, length = LayerNorm(eps=1e-6), (518 // 14) ** 2 + 1
    attention = Attention(heads=heads, mask=Bidirectional(), project=Projection(bias=PROJECTIONS))
    placed = GappedPosition(length=length + registers, gap=registers) if registers else LearnedPosition(length=length)
    return Architecture(
        width=width,
        embedding=Patches(size=14, class_tokens=1 + registers),
        encoder=stack([_scaled(norm, attention, _network(ffn, gated=gated))] * depth, position=placed, final_norm=norm),
    )


def dinov3(
    *,
    width: int,
    depth: int,
    heads: int,
    ffn: int,
    gated: bool = False,
    bias: tuple[Projected, ...] = ("query", "value", "output"),
) -> Architecture:
    """Siméoni et al. 2025 (arXiv 2508.10104), table 2: patches of 16 that turn by row and column, 4 registers."""
    norm = LayerNorm(eps=1e-5)
    attention = Attention(
        heads=heads, mask=Bidirectional(), project=Projection(bias=bias), place=Rotary(theta=100.0, axes=Axial())
    )
    return Architecture(
        width=width,
        embedding=Patches(size=16, class_tokens=5, coordinates=Centred()),
        encoder=stack([_scaled(norm, attention, _network(ffn, gated=gated))] * depth, final_norm=norm),
    )


def clip_vision(*, width: int, depth: int, heads: int, patch: int, image: int, outputs: int) -> Architecture:
    """Radford et al. 2021 (arXiv 2103.00020), table 20: a norm before the layers, and a projection of the class token."""
    norm = LayerNorm(eps=1e-5)
    block = pre_norm(
        norm,
        Attention(heads=heads, mask=Bidirectional(), project=Projection(bias=PROJECTIONS)),
        FeedForward(width=4 * width, activation="quick_gelu", gated=False, bias=("up", "down")),
    )
    position = LearnedPosition(length=(image // patch) ** 2 + 1)
    return Architecture(
        width=width,
        embedding=Patches(size=patch, class_tokens=1, bias=False),
        encoder=stack([block] * depth, position=position, input_norm=norm, final_norm=norm),
        head=Head(outputs=outputs, pool="first"),
    )


def siglip_vision(*, width: int, depth: int, heads: int, ffn: int, patch: int, image: int) -> Architecture:
    """Zhai et al. 2023 (arXiv 2303.15343), section 4: one learned query reads the patches, and a network follows.

    The pooling of Zhai et al. 2022 (arXiv 2106.04560, section 3.2).
    """
    norm = LayerNorm(eps=1e-6)
    network = FeedForward(width=ffn, activation="gelu_tanh", gated=False, bias=("up", "down"))
    own, read = (kind(heads=heads, project=Projection(bias=PROJECTIONS)) for kind in (Attention, CrossAttention))
    sums_up = Block(
        steps=(
            Step(branches=Named({"cross_attention": Branch(sublayer=read)}), residual="none"),
            Step(branches=Named({"feedforward": Branch(norm_before=norm, sublayer=network)})),
        )
    )
    return Architecture(
        width=width,
        embedding=Patches(size=patch),
        encoder=stack(
            [pre_norm(norm, own.but(mask=Bidirectional()), network)] * depth,
            position=LearnedPosition(length=(image // patch) ** 2),
            final_norm=norm,
        ),
        latents=Latents(count=1),
        decoder=stack([sums_up]),
        head=Head(outputs="features", pool="first"),
    )


_V2 = "arXiv 2304.07193, table 17; released configuration dinov2-{}"
_REGISTERS = "arXiv 2309.16588; released configuration dinov2-with-registers-{}"
_V3 = "arXiv 2508.10104, table 2; released configuration dinov3-{}-pretrain-lvd1689m"
_CLIP = "arXiv 2103.00020, table 20; released configuration clip-vit-{}, its vision model"
_SIGLIP = "arXiv 2303.15343; released configuration siglip-{}, its vision model"
_SMALL: Size = {"width": 384, "depth": 12, "heads": 6, "ffn": 1536}
_BASE: Size = {"width": 768, "depth": 12, "heads": 12, "ffn": 3072}
_LARGE: Size = {"width": 1024, "depth": 24, "heads": 16, "ffn": 4096}
_WITHOUT, _WITH, _TURNED = (
    "features of images, learned without labels", "the same with 4 registers", "patches that turn by row and column"
)  # fmt: skip
_BESIDE = "features of an image beside those of a text"

ENTRIES = (
    Entry("dinov2-small", 2023, _WITHOUT, _V2.format("small"), partial(dinov2, **_SMALL)),
    Entry("dinov2-base", 2023, _WITHOUT, _V2.format("base"), partial(dinov2, **_BASE)),
    Entry("dinov2-large", 2023, _WITHOUT, _V2.format("large"), partial(dinov2, **_LARGE)),
    Entry("dinov2-giant", 2023, _WITHOUT, _V2.format("giant"),
          partial(dinov2, width=1536, depth=40, heads=24, ffn=4096, gated=True)),
    Entry("dinov2-registers-base", 2023, _WITH, _REGISTERS.format("base"), partial(dinov2, **_BASE, registers=4)),
    Entry("dinov2-registers-large", 2023, _WITH, _REGISTERS.format("large"), partial(dinov2, **_LARGE, registers=4)),
    Entry("dinov3-small-16", 2025, _TURNED, _V3.format("vits16"), partial(dinov3, **_SMALL)),
    Entry("dinov3-base-16", 2025, _TURNED, _V3.format("vitb16"), partial(dinov3, **_BASE)),
    Entry("dinov3-large-16", 2025, _TURNED, _V3.format("vitl16"), partial(dinov3, **_LARGE)),
    Entry("dinov3-huge-plus-16", 2025, _TURNED, _V3.format("vith16plus"),
          partial(dinov3, width=1280, depth=32, heads=20, ffn=5120, gated=True)),
    Entry("dinov3-7b-16", 2025, _TURNED, _V3.format("vit7b16"),
          partial(dinov3, width=4096, depth=40, heads=32, ffn=8192, gated=True, bias=("output",))),
    Entry("clip-vision-base-32", 2021, _BESIDE, _CLIP.format("base-patch32"),
          partial(clip_vision, width=768, depth=12, heads=12, patch=32, image=224, outputs=512), None, "OpenAI"),
    Entry("clip-vision-large-14", 2021, _BESIDE, _CLIP.format("large-patch14"),
          partial(clip_vision, width=1024, depth=24, heads=16, patch=14, image=224, outputs=768), None, "OpenAI"),
    Entry("siglip-vision-base-16", 2023, _BESIDE, _SIGLIP.format("base-patch16-224"),
          partial(siglip_vision, **_BASE, patch=16, image=224), None, "Google"),
    Entry("siglip-vision-so400m-14", 2023, _BESIDE, _SIGLIP.format("so400m-patch14-384"),
          partial(siglip_vision, width=1152, depth=27, heads=16, ffn=4304, patch=14, image=384), None, "Google"),
)  # fmt: skip
