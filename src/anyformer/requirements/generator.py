"""The generator of a discriminator: a smaller masked language model over the same tokens (ELECTRA, arXiv 2003.10555)."""

from __future__ import annotations

from anyformer.describe import DescriptionError, change_all
from anyformer.model import Architecture
from anyformer.parts import InputProjection, LayerNorm
from anyformer.requirements.needs import needs_both_sides, needs_one_sequence, needs_token_logits
from anyformer.resizing.scaled import narrowed

NARROWER = 4
"""How many times narrower than the discriminator a generator is; ELECTRA-base 3, small and large 4."""


def generator_of(discriminator: Architecture, narrower: int = NARROWER) -> Architecture:
    """A masked language model like the discriminator, `narrower` times narrower, with token embeddings as wide as its own.

    Its head reads the table of embeddings, after a transform with a norm if the discriminator has one (section 3.1).
    """
    table, head = discriminator.table_width, discriminator.head
    assert head is not None
    transform = head.transform and head.transform.but(width=None, norm=LayerNorm())
    try:
        small = narrowed(discriminator, narrower)
        tied = transform is not None or table == small.width
        changes = {"embedding_width": table, "head": head.but(outputs=None, tied=tied, transform=transform)}
        if discriminator.embedding_width is None and table != small.width:
            changes |= {f"{name}.input_projection": InputProjection() for name in small.stacks}
        return change_all(small, changes)
    except DescriptionError as error:
        raise ValueError(f"no generator follows from this architecture, set objective.generator: {error}") from None


def check_generator(generator: Architecture, own: Architecture) -> None:
    """Refuse a generator that is no masked language model over the tokens of the run's own architecture."""
    try:
        needs_one_sequence("replaced_tokens", generator)
        needs_token_logits("replaced_tokens", generator)
        needs_both_sides("replaced_tokens", generator)
    except ValueError as error:
        raise ValueError(f"objective.generator: {error}") from None
    if generator.vocabularies != own.vocabularies:
        raise ValueError(
            f"objective.generator: its tokens are {generator.vocabularies}, and the run's architecture has "
            f"{own.vocabularies}: make them equal"
        )


def needs_generator(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture from which no generator follows."""
    check_generator(generator_of(architecture), architecture)
