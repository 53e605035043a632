"""Vision-language models whose images stand among the tokens of a text, with their towers and projectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.catalogue.gemma import gemma
from anyformer.catalogue.llama import llama
from anyformer.catalogue.llama4 import SCOUT_SCALING, llama4
from anyformer.catalogue.mistral import mistral
from anyformer.catalogue.qwen import qwen, qwen3
from anyformer.describe import change, change_all
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Axial,
    Bidirectional,
    Block,
    Causal,
    ChainedProjector,
    Chunk,
    CondensedProjector,
    DeepStack,
    FeedForward,
    Gain,
    GridTower,
    ImageTower,
    Interleaved,
    LayerNorm,
    LearnedPosition,
    LinearProjector,
    MergedProjector,
    Numbered,
    Patches,
    Prefix,
    Projection,
    ResampledPosition,
    RMSNorm,
    Rotary,
    Sections,
    SquaresProjector,
    TiledTower,
    TwoLayerProjector,
    pre_norm,
    stack,
)
from anyformer.parts.attention.projection import PROJECTIONS
from anyformer.parts.norms.norm import Norm
from anyformer.parts.positions.rotary_axes import RotaryAxes

_AXES = "decoder.layer.attention.rotary.axes"
_NORM = LayerNorm(eps=1e-6)


def _sees(norm: Norm, heads: int, ffn: int, activation: str, place: Rotary | None = None, gated: bool = False) -> Block:
    """A layer of a tower: attention both ways with biases, and a network with biases."""
    attention = Attention(heads=heads, mask=Bidirectional(), project=Projection(bias=PROJECTIONS))
    attention = attention if place is None else attention.but(place=place)
    network = FeedForward(width=ffn, activation=activation, gated=gated, bias=("up", "down"))
    return pre_norm(norm, attention, network.but(bias=("gate", "up", "down")) if gated else network)


def llava(*, image: int = 336) -> Architecture:
    """Liu et al. 2023 (arXiv 2310.03744): CLIP's ViT-L/14 up to its last layer but one, Vicuna 7B.

    `image`: pixels of an image's side.
    """
    norm, length = LayerNorm(eps=1e-5), 1 + (image // 14) ** 2
    tower = ImageTower(
        token=32_000,
        image=image,
        width=1024,
        patches=Patches(size=14, class_tokens=1, bias=False),
        stack=stack([_sees(norm, 16, 4096, "quick_gelu")] * 23, position=LearnedPosition(length=length), input_norm=norm),
        skipped=1,
        projector=TwoLayerProjector(),
    )
    return llama(width=4096, depth=32, heads=32, kv_heads=32, ffn=11_008, vocab=32_064).but(images=tower)


def paligemma(*, image: int) -> Architecture:
    """Beyer et al. 2024 (arXiv 2407.07726): SigLIP's So400m/14, Gemma 2B, a prompt that is read both ways."""
    tower = ImageTower(
        token=257_152,
        image=image,
        width=1152,
        patches=Patches(size=14),
        stack=stack(
            [_sees(_NORM, 16, 4304, "gelu_tanh")] * 27, position=LearnedPosition(length=(image // 14) ** 2), final_norm=_NORM
        ),
        projector=LinearProjector(),
    )
    text = gemma(width=2048, depth=18, heads=8, kv_heads=1, ffn=16_384, vocab=257_216)
    return change(text, "decoder.layer.attention.mask", Causal() | Prefix()).but(images=tower)


def qwen2_vl(*, width: int, depth: int, heads: int, kv_heads: int, ffn: int, vocab: int, tied: bool) -> Architecture:
    """Wang et al. 2024 (arXiv 2409.12191): a tower of 675M parameters for images of any size, M-RoPE."""
    turns = Rotary(axes=Axial(), rotate_in="fp32")
    tower = GridTower(
        token=151_655,
        width=1280,
        patches=Patches(size=14, frames=2, bias=False),
        stack=stack([_sees(_NORM, 16, 5120, "quick_gelu", turns)] * 32),
        projector=MergedProjector(norm=_NORM),
    )
    text = qwen(width=width, depth=depth, heads=heads, kv_heads=kv_heads, ffn=ffn, vocab=vocab, tied=tied)
    return _on_axes(text, Sections(sizes=(16, 24, 24))).but(images=tower)


def qwen25_vl(*, width: int, depth: int, heads: int, kv_heads: int, ffn: int, vocab: int, tied: bool) -> Architecture:
    """Bai et al. 2025 (arXiv 2502.13923), table 1: windows of 8 x 8 patches in all layers of the tower but four."""
    norm, turns = RMSNorm(eps=1e-6), Rotary(axes=Axial(), rotate_in="fp32")
    whole = _sees(norm, 16, 3420, "silu", turns, gated=True)
    windows = change(whole, "steps.0.branches.attention.sublayer.mask", Chunk(size=64))
    tower = GridTower(
        token=151_655,
        width=1280,
        patches=Patches(size=14, frames=2, bias=False),
        stack=stack([whole if layer % 8 == 7 else windows for layer in range(32)]),
        projector=MergedProjector(norm=norm),
        window=8,
    )
    text = qwen(width=width, depth=depth, heads=heads, kv_heads=kv_heads, ffn=ffn, vocab=vocab, tied=tied)
    return _on_axes(text, Sections(sizes=(16, 24, 24))).but(images=tower)


def qwen3_vl(
    *, width: int, heads: int, ffn: int, tower_width: int, tower_depth: int, tower_ffn: int, deep: tuple[int, ...],
    tied: bool = False,
) -> Architecture:  # fmt: skip
    """Bai et al. 2025 (arXiv 2511.21631), section 2: features of three layers of the tower, interleaved M-RoPE."""
    turns = Rotary(axes=Axial(), rotate_in="fp32")
    tower = GridTower(
        token=151_655,
        image=448,
        width=tower_width,
        patches=Patches(size=16, frames=2),
        position=ResampledPosition(side=48),
        stack=stack([_sees(_NORM, 16, tower_ffn, "gelu_tanh", turns)] * tower_depth),
        projector=MergedProjector(norm=_NORM),
        deep=DeepStack(layers=deep, projector=MergedProjector(norm=_NORM, norm_of="square")),
    )
    text = qwen3(width=width, depth=36, heads=heads, ffn=ffn, tied=tied)
    text = change(text, "decoder.layer.attention.rotary.theta", 5_000_000.0)
    return _on_axes(text, Interleaved(sizes=(24, 20, 20))).but(images=tower)


def mistral_small() -> Architecture:
    """Mistral AI 2025: Pixtral's tower, squares of its patches condensed to one."""
    attention = Attention(heads=16, mask=Bidirectional(), place=Rotary(axes=Axial(frequencies="dealt")))
    norm = RMSNorm(eps=1e-5)
    tower = GridTower(
        token=10,
        image=1540,
        width=1024,
        patches=Patches(size=14, bias=False),
        stack=stack([pre_norm(norm, attention, FeedForward(width=4096, activation="silu"))] * 24, input_norm=norm),
        projector=CondensedProjector(norm=norm, inner=TwoLayerProjector(bias=False)),
        counted="line",
        sequence="rows",
        breaks=(12, 13),
    )
    rotary = Rotary(theta=1_000_000_000.0)
    text = mistral(width=5120, depth=40, heads=32, ffn=32_768, vocab=131_072, rotary=rotary)
    return text.but(images=tower)


def internvl3() -> Architecture:
    """Zhu et al. 2025 (arXiv 2504.10479): InternViT-300M, pixel shuffle, Qwen 2.5 7B."""
    gain = Gain(initial=0.1)
    block = change_all(_sees(_NORM, 16, 4096, "gelu"), {"attention.gain": gain, "feedforward.gain": gain})
    tower = ImageTower(
        token=151_667,
        image=448,
        width=1024,
        patches=Patches(size=14, class_tokens=1),
        stack=stack([block] * 24, position=LearnedPosition(length=1025)),
        skipped=1,
        projector=SquaresProjector(inner=TwoLayerProjector(norm=LayerNorm())),
    )
    return qwen(width=3584, depth=28, heads=28, kv_heads=4, ffn=18_944, vocab=151_674).but(images=tower)


def llava_next() -> Architecture:
    """Liu et al. 2024 (llava-vl.github.io/blog/2024-01-30-llava-next): LLaVA 1.5's tower, tiles, Mistral 7B."""
    square = llava().images
    assert square is not None, "the tower whose parts it takes"
    shared = {name: value for name, value in square.plain().items() if name in TiledTower.model_fields}
    tower = TiledTower.parse({**shared, "kind": "tiles"})
    text = mistral(width=4096, depth=32, heads=32, ffn=14_336, vocab=32_064, rotary=Rotary(theta=1_000_000.0))
    return text.but(images=tower)


def llava_onevision() -> Architecture:
    """Li et al. 2024 (arXiv 2408.03326), section 3: SigLIP's So400m up to its last layer but one, tiles, Qwen 2 7B."""
    tower = TiledTower(
        token=151_646,
        image=384,
        width=1152,
        patches=Patches(size=14),
        stack=stack([_sees(_NORM, 16, 4304, "gelu_tanh")] * 26, position=LearnedPosition(length=729)),
        projector=TwoLayerProjector(),
        most=9,
    )
    return qwen(width=3584, depth=28, heads=28, kv_heads=4, ffn=18_944, vocab=152_000).but(images=tower)


def janus_pro() -> Architecture:
    """Chen et al. 2025 (arXiv 2501.17811): SigLIP's L/16 at 384 pixels, two layers, DeepSeek LLM 7B."""
    tower = ImageTower(
        token=100_581,
        image=384,
        width=1024,
        patches=Patches(size=16),
        stack=stack([_sees(_NORM, 16, 4096, "gelu")] * 24, position=LearnedPosition(length=576), final_norm=_NORM),
        projector=TwoLayerProjector(),
    )
    return llama(width=4096, depth=30, heads=32, kv_heads=32, ffn=11_008, vocab=102_400, eps=1e-6).but(images=tower)


def llama4_scout() -> Architecture:
    """Meta 2025: tiles of 336 pixels, whose patches turn by column and row, squares of them by three matrices."""
    norm, turns = LayerNorm(eps=1e-5), Rotary(axes=Axial(), pairing="adjacent", rotate_in="fp32")
    tower = ImageTower(
        token=200_092,
        image=336,
        width=1408,
        patches=Patches(size=14, class_tokens=1, bias=False, coordinates=Numbered()),
        stack=stack(
            [_sees(norm, 16, 5632, "gelu", turns)] * 34, position=LearnedPosition(length=577), input_norm=norm, final_norm=norm
        ),
        skipped=1,
        projector=ChainedProjector(
            first=SquaresProjector(inner=TwoLayerProjector(hidden=4096, bias=False)),
            between=4096,
            activation="gelu",
            then=LinearProjector(bias=False),
        ),
    )
    return llama4(depth=48, experts=16, every=1, qk_norm=True, scaling=SCOUT_SCALING).but(images=tower)


def _on_axes(text: Architecture, axes: RotaryAxes) -> Architecture:
    return change(text, _AXES, axes)


def _seven_billion(make: Callable[..., Architecture]) -> Architecture:
    return make(width=3584, depth=28, heads=28, kv_heads=4, ffn=18_944, vocab=152_064, tied=False)


_VL = "released configuration Qwen/{}"
ENTRIES = (
    Entry("llava-1.5-7b", 2023, "CLIP's patches by two layers among the tokens of a Llama",
          "arXiv 2310.03744; released configuration llava-hf/llava-1.5-7b-hf", llava, organisation="LLaVA"),
    Entry("paligemma-3b-224", 2024, "SigLIP's patches by one matrix, a prompt read both ways",
          "arXiv 2407.07726; released configuration google/paligemma-3b-pt-224", partial(paligemma, image=224)),
    Entry("qwen2-vl-7b", 2024, "images of any size, positions on three axes",
          f"arXiv 2409.12191; {_VL.format('Qwen2-VL-7B-Instruct')}", partial(_seven_billion, qwen2_vl), organisation="Alibaba"),
    Entry("qwen2.5-vl-7b", 2025, "windows in most layers of the tower",
          f"arXiv 2502.13923, table 1; {_VL.format('Qwen2.5-VL-7B-Instruct')}", partial(_seven_billion, qwen25_vl),
          organisation="Alibaba"),
    Entry("qwen3-vl-4b", 2025, "deep-stack, interleaved axes", f"arXiv 2511.21631; {_VL.format('Qwen3-VL-4B-Instruct')}",
          partial(qwen3_vl, width=2560, heads=32, ffn=9728, tower_width=1024, tower_depth=24, tower_ffn=4096,
                  deep=(5, 11, 17), tied=True), organisation="Alibaba"),
    Entry("qwen3-vl-8b", 2025, "deep-stack, interleaved axes", f"arXiv 2511.21631; {_VL.format('Qwen3-VL-8B-Instruct')}",
          partial(qwen3_vl, width=4096, heads=32, ffn=12_288, tower_width=1152, tower_depth=27, tower_ffn=4304,
                  deep=(8, 16, 24)), organisation="Alibaba"),
    Entry("mistral-small-3.1-24b", 2025, "Pixtral's tower, squares of patches condensed",
          "released configuration mistralai/Mistral-Small-3.1-24B-Instruct-2503", mistral_small, organisation="Mistral AI"),
    Entry("video-llava-7b", 2023, "two towers of one kind, of which that for images is read",
          "arXiv 2311.10122; released configuration LanguageBind/Video-LLaVA-7B-hf", partial(llava, image=224),
          organisation="PKU"),
    Entry("llava-1.6-mistral-7b", 2024, "an image beside its tiles, in rows of the whole image",
          "llava-vl.github.io/blog/2024-01-30-llava-next; released configuration llava-hf/llava-v1.6-mistral-7b-hf", llava_next,
          organisation="LLaVA"),
    Entry("llava-onevision-7b", 2024, "tiles whose features are interpolated beyond nine tiles of them",
          "arXiv 2408.03326, section 3; released configuration llava-hf/llava-onevision-qwen2-7b-ov-hf", llava_onevision,
          organisation="LLaVA"),
    Entry("janus-pro-7b", 2025, "one tower for images that are read, another for those that are written, which is left out",
          "arXiv 2501.17811, table 1; released configuration deepseek-community/Janus-Pro-7B", janus_pro,
          organisation="DeepSeek"),
    Entry("llama-4-scout-images", 2025, "Llama 4 Scout with its tower: patches that turn, pixel shuffle",
          "released configuration Llama-4-Scout-17B-16E", llama4_scout, organisation="Meta"),
    Entry("internvl3-8b", 2025, "pixel shuffle", "arXiv 2504.10479; released configuration OpenGVLab/InternVL3-8B-hf",
          internvl3, organisation="Shanghai AI Lab"),
)  # fmt: skip
