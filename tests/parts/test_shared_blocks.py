"""Blocks beside the stream: what is refused, and that they add nothing to it themselves."""

from __future__ import annotations

import pytest
import torch

from anyformer.describe import DescriptionError, Named
from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.parts import (
    Attention,
    Block,
    Branch,
    Embedding,
    FeedForward,
    Head,
    Joined,
    Projection,
    ProjectionLoRA,
    RMSNorm,
    Skip,
    Stack,
    Step,
    pre_norm,
)

NORM = RMSNorm()
PLAIN = pre_norm(NORM, FeedForward(width=12))
ATTENTION = Attention(heads=2, project=Projection(adjust=(Joined(norm=NORM), ProjectionLoRA(rank=2, layers=2))))
ASIDE = Block(steps=(Step(residual="none", branches=Named(attention=Branch(sublayer=ATTENTION))),), output="aside")
READS = Block(
    steps=(
        Step(branches=Named(shared=Branch(sublayer=Skip(variant="aside", projected=True)))),
        Step(residual="block", branches=Named(feedforward=Branch(norm_before=NORM, sublayer=FeedForward(width=12)))),
    )
)


def stack(order: str, **variants: Block) -> Stack:
    return Stack(variants=Named(variants), order=order, shared_weights=("aside",))


def test_an_output_aside_that_nobody_reads_is_refused():
    with pytest.raises(DescriptionError, match="leaves its output aside, and no layer reads"):
        stack("plain aside", plain=PLAIN, aside=ASIDE)


def test_more_layers_than_have_low_rank_matrices_are_refused():
    stack("(aside reads)*2", aside=ASIDE, reads=READS)
    with pytest.raises(DescriptionError, match="low-rank matrices for 2 layers, and 3 share its weights"):
        stack("(aside reads)*3", aside=ASIDE, reads=READS)


def test_nothing_has_no_scale():
    with pytest.raises(DescriptionError, match="adds the branches to nothing"):
        Step(residual="none", residual_scale=0.5, branches=Named(attention=Branch(sublayer=ATTENTION)))


def test_the_stream_goes_on_as_if_the_block_were_not_there():
    def made(layers: Stack) -> Architecture:
        return Architecture(width=8, embedding=Embedding(vocab=11), decoder=layers, head=Head())

    whole = build(made(stack("aside reads", aside=ASIDE, reads=READS)), seed=0).eval()
    alone = build(made(Stack(variants=Named(plain=PLAIN), order="plain")), seed=0).eval()
    weights = whole.state_dict()
    own = {name: weights[name.replace("layers.0.", "layers.1.")] for name in alone.state_dict()}
    alone.load_state_dict(own)
    tokens = torch.arange(7)[None]
    with torch.no_grad():
        assert not torch.allclose(whole(tokens), alone(tokens))
        whole.get_parameter("decoder.layers.1.shared.sublayer.projection.weight").zero_()
        torch.testing.assert_close(whole(tokens), alone(tokens))
