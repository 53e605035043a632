"""What muP makes of a description: factors of scores and logits as plain numbers, and weights with their shapes at the base."""

from __future__ import annotations

from dataclasses import replace

from anyformer.describe import DescriptionError, Named, Problem
from anyformer.model.architecture import Architecture
from anyformer.model.at_width import at_width
from anyformer.operations import Shape, Tally
from anyformer.parts.derived import of_width
from anyformer.parts.embedding.head import Head
from anyformer.parts.layers.block import Block


def based(architecture: Architecture) -> Tally:
    """The declarations of a call in training; with muP every weight knows its shape at the base width."""
    tally, base = architecture.trained_cost(Shape()), base_of(architecture)
    return tally if base is None else _beside(tally, base.trained_cost(Shape()))


def base_of(architecture: Architecture) -> Architecture | None:
    """The architecture at the base width of its muP; None without one. `DescriptionError` where it does not fit there."""
    mup = architecture.initialisation.mup
    if mup is None:
        return None
    try:
        return at_width(architecture, mup.base_width)
    except DescriptionError as error:
        there = f"initialisation.mup.base_width = {mup.base_width}"
        raise DescriptionError([Problem(there, str(problem)) for problem in error.problems]) from None


def computed(architecture: Architecture) -> Architecture:
    """The same function of the same weights without muP: its factors of scores, logits and embeddings as plain numbers."""
    base = base_of(architecture)
    if base is None:
        return architecture
    later = architecture.mtp
    if later is not None and later.block is not None and base.mtp is not None and base.mtp.block is not None:
        later = later.but(block=_block(later.block, base.mtp.block, architecture.width, base.width))
    stacks = {
        name: stack.but(
            variants=Named(
                {
                    variant: _block(block, base.stacks[name].variants[variant], architecture.width, base.width)
                    for variant, block in stack.variants.items()
                }
            )
        )
        for name, stack in architecture.stacks.items()
    }
    return architecture.but(
        embedding=architecture.embedding.resolved(base.table_width),
        decoder_embedding=architecture.decoder_embedding and architecture.decoder_embedding.resolved(base.table_width),
        head=architecture.head and _head(architecture.head, architecture, base),
        initialisation=architecture.initialisation.but(mup=None),
        mtp=later,
        **stacks,
    )


def _head(head: Head, architecture: Architecture, base: Architecture) -> Head:
    """The head whose logits are divided by the times that its features are those of the base."""
    if head.outputs == "features":
        return head
    features = [head.features(each.width, each.table_width) for each in (base, architecture)]
    return head.but(scale=of_width(head.scale, base.width) * features[0] / features[1])


def _block(block: Block, base: Block, width: int, base_width: int) -> Block:
    steps = [
        step.but(
            branches=Named(
                {
                    name: branch.but(sublayer=branch.sublayer.scaled_as(base.branches[name].sublayer, width, base_width))
                    for name, branch in step.branches.items()
                }
            )
        )
        for step in block.steps
    ]
    return block.but(steps=tuple(steps))


def _beside(tally: Tally, base: Tally) -> Tally:
    """The tally, each of its weights with its shape in another one of the same parts."""
    return replace(
        tally,
        own_weights={name: replace(each, base=base.own_weights[name].shape) for name, each in tally.own_weights.items()},
        inner={path: replace(each, tally=_beside(each.tally, base.inner[path].tally)) for path, each in tally.inner.items()},
    )
