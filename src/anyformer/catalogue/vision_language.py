"""Vision-language models: text that attends to an image by cross-attention."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.bert import masked_head
from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, encoder_decoder
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    Branch,
    CrossAttention,
    Embedding,
    EncodedImages,
    Features,
    FeedForward,
    Gain,
    Head,
    LayerNorm,
    LearnedPosition,
    Llama3Scaling,
    Patches,
    Projection,
    QKNorm,
    RMSNorm,
    Rotary,
    Stack,
    Step,
    post_norm,
    pre_norm,
    stack,
)
from anyformer.parts.attention.projection import PROJECTIONS
from anyformer.parts.sublayer import Sublayer


def blip(*, width: int, depth: int, heads: int, image: int, patch: int, vocab: int) -> Architecture:
    """Li et al. 2022 (arXiv 2201.12086), section 3.1: a Vision Transformer, and BERT's layers with causal attention and a read.

    `depth` layers on each side, FFN 4 D. The image's norms have eps 1e-5, the text's 1e-12.
    """
    feedforward = FeedForward(width=4 * width, activation="gelu", gated=False, bias=("up", "down"))
    own, read = (kind(heads=heads, project=Projection(bias=PROJECTIONS)) for kind in (Attention, CrossAttention))
    seen, text = LayerNorm(eps=1e-5), LayerNorm(eps=1e-12)
    return encoder_decoder(
        Patches(size=patch, class_tokens=1),
        width,
        stack(
            [pre_norm(seen, own.but(mask=Bidirectional()), feedforward)] * depth,
            position=LearnedPosition(length=(image // patch) ** 2 + 1),
            final_norm=seen,
        ),
        stack([post_norm(text, own, read, feedforward)] * depth, position=LearnedPosition(length=512), input_norm=text),
        decoder_embedding=Embedding(vocab=vocab),
        head=masked_head(text, "gelu"),
    )


def trocr(*, width: int, depth: int, heads: int, seen: int, image: int = 384, patch: int = 16) -> Architecture:
    """Li et al. 2021 (arXiv 2109.10282), section 3: a Vision Transformer of `seen` features, and the last layers of RoBERTa.

    Those read the narrower features themselves: keys and values of `width` are projected from `seen`. Of the projections of
    the image's layers the output alone has a bias.
    """
    sees, norm = LayerNorm(eps=1e-12), LayerNorm(eps=1e-5)
    feedforward = FeedForward(width=4 * width, activation="gelu", gated=False, bias=("up", "down"))
    block = pre_norm(
        sees,
        Attention(heads=seen // 64, mask=Bidirectional(), project=Projection(bias=("output",))),
        feedforward.but(width=4 * seen),
    )
    own = Attention(heads=heads, project=Projection(bias=PROJECTIONS))
    read = CrossAttention(heads=heads, project=Projection(bias=PROJECTIONS), source_width=seen)
    return Architecture(
        width=width,
        embedding=EncodedImages(
            width=seen,
            patches=Patches(size=patch, class_tokens=1),
            stack=stack([block] * depth, position=LearnedPosition(length=(image // patch) ** 2 + 1), final_norm=sees),
        ),
        decoder_embedding=Embedding(vocab=50_265),
        decoder=stack(
            [post_norm(norm, own, read, feedforward, dropout=0.1)] * 12,
            position=LearnedPosition(length=512, offset=2),
            input_norm=norm,
            dropout=0.1,
        ),
        head=Head(tied=True),
    )


def llama_vision(*, width: int, depth: int, heads: int, ffn: int, features: int, vocab: int, kv_heads: int = 8) -> Architecture:
    """Llama 3's layers, the fourth of every five one that reads the image instead of the text (arXiv 2407.21783, section 7.2).

    A read is multiplied by tanh(g), and so is its network, with g = 0 at first, as in Flamingo (arXiv 2204.14198): before
    training, the text model is as it was. The image's features are those that a vision encoder of another width gives.
    """
    norm = RMSNorm(eps=1e-5)
    rotary = Rotary(theta=500_000.0, scaling=Llama3Scaling(factor=8.0, trained=8192))
    feedforward = FeedForward(width=ffn, activation="silu", gated=True)
    gate = Gain(per="branch", initial=0.0, bounded=True)
    cross = CrossAttention(heads=heads, kv_heads=kv_heads, project=Projection(adjust=QKNorm(norm=norm)))
    parts: dict[str, Sublayer] = {"cross_attention": cross, "feedforward": feedforward}
    steps = tuple(Step(branches=Named({name: Branch(norm_before=norm, sublayer=p, gain=gate)})) for name, p in parts.items())
    text = pre_norm(norm, Attention(heads=heads, kv_heads=kv_heads, place=rotary), feedforward)
    blocks: dict[str, Block] = {"text": text, "image": Block(steps=steps)}
    return Architecture(
        width=width,
        embedding=Features(features=features),
        decoder_embedding=Embedding(vocab=vocab + 8),
        decoder=Stack(variants=Named(blocks), order=f"(text*3 image text)*{depth // 5}", final_norm=norm),
        head=Head(outputs=vocab),
    )


_VISION = "{} of {} layers read an image's features by cross-attention, gated from 0"
_RELEASED = "arXiv 2407.21783, section 7.2; released configuration Llama-3.2-{}-Vision, its text model and projector"

ENTRIES = (
    Entry("blip-caption-base", 2022, "an image's caption: ViT-B/16 and a text decoder that reads it",
          "arXiv 2201.12086, section 3.1; released configuration blip-image-captioning-base",
          partial(blip, width=768, depth=12, heads=12, image=384, patch=16, vocab=30_524)),
    Entry("trocr-base-handwritten", 2021, "text of an image of a line: ViT-B/16 and a wider decoder that reads it",
          "arXiv 2109.10282, section 4.2; released configuration trocr-base-handwritten",
          partial(trocr, width=1024, depth=12, heads=16, seen=768), None, "Microsoft"),
    Entry("llama-3.2-11b-vision", 2024, _VISION.format(8, 40), _RELEASED.format("11B"),
          partial(llama_vision, width=4096, depth=40, heads=32, ffn=14_336, features=7680, vocab=128_256), None, "Meta"),
    Entry("llama-3.2-90b-vision", 2024, _VISION.format(20, 100), _RELEASED.format("90B"),
          partial(llama_vision, width=8192, depth=100, heads=64, ffn=28_672, features=7680, vocab=128_256), None, "Meta"),
)  # fmt: skip
