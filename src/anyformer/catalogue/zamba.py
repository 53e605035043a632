"""Zamba: layers of Mamba, some of which read one of a few blocks that they share; each use of a block counts as a layer."""

from __future__ import annotations

from collections.abc import Sequence

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Block,
    Branch,
    Embedding,
    FeedForward,
    GroupedRMSNorm,
    Head,
    Joined,
    LayerLoRA,
    Mamba,
    Mamba2,
    Projection,
    RMSNorm,
    Score,
    ShortConvolution,
    Skip,
    Stack,
    Step,
)

NORM = RMSNorm(eps=1e-5)
CONVOLUTION = ShortConvolution(kernel=4, activation="silu", bias=True)


def zamba_7b() -> Architecture:
    """Glorioso et al. 2024 (arXiv 2405.16712), section 2: Mamba in two heads, one block before every sixth layer."""
    head = Mamba(channels=3712, state_width=16, step_rank=232, convolution=CONVOLUTION)
    mixes = Step(norm_before=NORM, branches=Named(mamba_0=Branch(sublayer=head), mamba_1=Branch(sublayer=head)))
    attention = Attention(
        heads=16, kv_heads=16, head_width=464, project=Projection(adjust=Joined(norm=NORM)), score=Score(scale=232**-0.5)
    )
    shared = _shared(attention, FeedForward(width=14_848, activation="gelu"))
    order = "mamba*2 shared hybrid mamba*4 (shared hybrid mamba*5)*11 shared hybrid mamba*2"
    return _around(3712, mixes, [shared], order)


def zamba2_2_7b() -> Architecture:
    """Glorioso et al. 2024 (arXiv 2411.15242), section 2: two blocks in turn, whose networks have low-rank matrices per use."""
    mixer = Mamba2(
        heads=80,
        head_width=64,
        state_width=64,
        convolution=CONVOLUTION,
        step_floor=0.001,
        norm=GroupedRMSNorm(groups=1, eps=1e-5),
    )
    attention = Attention(
        heads=32, kv_heads=32, head_width=160, project=Projection(adjust=Joined(norm=NORM)), score=Score(scale=80**-0.5)
    )
    network = FeedForward(width=10_240, activation="gelu")
    shared = [_shared(attention, network.but(lora=LayerLoRA(rank=128, layers=uses))) for uses in (5, 4)]
    first, second = ("shared_0 hybrid_0", "shared_1 hybrid_1")
    order = f"mamba*6 ({first} mamba*5 {second} mamba*5)*3 {first} mamba*4 {second} mamba*3 {first} mamba*2"
    return _around(2560, Step(branches=Named(mamba2=Branch(norm_before=NORM, sublayer=mixer))), shared, order)


def _shared(attention: Attention, network: FeedForward) -> Block:
    """A block whose output the layer behind it reads, and the stream does not."""
    attends = Step(branches=Named(attention=Branch(sublayer=attention)), residual="none")
    thinks = Step(branches=Named(feedforward=Branch(norm_before=NORM, sublayer=network)), residual="none")
    return Block(steps=(attends, thinks), output="aside")


def _around(width: int, mixes: Step, shared: Sequence[Block], order: str) -> Architecture:
    """The stack of a mixer, the shared blocks, and which layers read them; tied embeddings."""
    variants = {"mamba": Block(steps=(mixes,))}
    for i, block in enumerate(shared):
        number = f"_{i}" if len(shared) > 1 else ""
        reads = Step(branches=Named(shared=Branch(sublayer=Skip(variant=f"shared{number}", projected=True))))
        variants |= {f"shared{number}": block, f"hybrid{number}": Block(steps=(reads, mixes.but(residual="block")))}
    weights = tuple(name for name, block in variants.items() if block.output == "aside")
    stack = Stack(variants=Named(variants), order=order, shared_weights=weights, final_norm=NORM)
    return Architecture(width=width, embedding=Embedding(vocab=32_000), decoder=stack, head=Head(tied=True))


ENTRIES = (
    Entry("zamba-7b", 2024, "Mamba, one shared attention block that reads the embeddings again",
          "arXiv 2405.16712, section 2; released configuration Zamba-7B-v1, the defaults of its class in transformers",
          zamba_7b),
    Entry("zamba2-2.7b", 2024, "Mamba-2, two shared attention blocks with LoRA per use",
          "arXiv 2411.15242, section 2; released configuration Zyphra/Zamba2 (config.json of the repository)",
          zamba2_2_7b),
)  # fmt: skip
