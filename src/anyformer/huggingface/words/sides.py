"""Two models as the sides of one: an encoder, and a decoder of text whose layers get cross-attention behind their attention."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from anyformer.describe import Named
from anyformer.huggingface.errors import MismatchError
from anyformer.huggingface.rules import Names, Table, under
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, CrossAttention, EncodedImages, EncodedWaves, Patches, Stack, Waves
from anyformer.parts.embedding.embedding import Input


def joined(encoder: Architecture, text: Architecture, source_width: int | None = None) -> Architecture:
    """`text`, a decoder, with cross-attention to `encoder`.

    Where their widths differ, cross-attention reads the encoder's features itself if `source_width` names their number, else a
    projection of them.
    """
    assert encoder.encoder is not None, "it is an encoder"
    assert text.decoder is not None, "it is a decoder"
    if encoder.width == text.width == encoder.table_width:
        decoder = each_block(text.decoder, partial(_crossed, None))
        return text.but(embedding=encoder.embedding, decoder_embedding=text.embedding, encoder=encoder.encoder, decoder=decoder)
    read = None if encoder.width == text.width else source_width
    seen = _encoded(encoder, projected=encoder.width != text.width and source_width is None)
    decoder = each_block(text.decoder, partial(_crossed, read))
    return text.but(embedding=seen, decoder_embedding=text.embedding, decoder=decoder)


def _encoded(encoder: Architecture, *, projected: bool) -> Input:
    """An encoder of another width than the text's as its input."""
    assert encoder.encoder is not None, "it is an encoder"
    first, width, stack = encoder.embedding, encoder.width, encoder.encoder
    if isinstance(first, Waves):
        return EncodedWaves(waves=first, narrow=encoder.embedding_width, width=width, stack=stack, projected=projected)
    assert isinstance(first, Patches), "encoders of another width are those of images or of waves"
    return EncodedImages(patches=first, width=width, stack=stack, projected=projected)


def parted(architecture: Architecture) -> tuple[Architecture, Architecture]:
    """The encoder, and the decoder without cross-attention, each as an architecture of its own."""
    second, decoder, seen = architecture.decoder_embedding, architecture.decoder, architecture.embedding
    if decoder is None or second is None:
        raise MismatchError("each side has a stack and an input of its own")
    if architecture.encoder is not None:
        encoder = architecture.but(decoder=None, decoder_embedding=None, head=None)
    elif isinstance(seen, EncodedImages):
        encoder = Architecture(width=seen.width, embedding=seen.patches, encoder=seen.stack)
    elif isinstance(seen, EncodedWaves):
        encoder = Architecture(width=seen.width, embedding=seen.waves, embedding_width=seen.narrow, encoder=seen.stack)
    else:
        raise MismatchError("the source has no encoder")
    encoder = encoder.but(initialisation=architecture.initialisation)
    alone = each_block(
        decoder, lambda block: block.but(steps=tuple(s for s in block.steps if "cross_attention" not in s.branches))
    )
    return encoder, architecture.but(encoder=None, decoder_embedding=None, embedding=second, decoder=alone)


def source_width(architecture: Architecture) -> int | None:
    """The features of a source of another width that cross-attention reads itself; None where it reads D."""
    blocks = () if architecture.decoder is None else architecture.decoder.variants.values()
    sublayers = [sublayer for block in blocks for sublayer in block.sublayers]
    return next((each.source_width for each in sublayers if isinstance(each, CrossAttention)), None)


def joined_names(
    architecture: Architecture, encoder: Names, text: Names, crossed: Table, *, prefixes: tuple[str, str] = ("", "")
) -> Names:
    """The names of both sides as one; `crossed`: those of cross-attention in a layer, `prefixes`: before those of each side."""
    (first, outer_layer), (last, inner_layer) = encoder.layers["encoder"], text.layers["decoder"]
    # Cross-attention takes the place of the second step, the network's.
    later = renamed(inner_layer, "step_1_", "step_2_")
    headless = {ours: theirs for ours, theirs in encoder.outside.items() if not ours.startswith("head")}
    stack, table = "encoder", under(prefixes[0], headless)
    if architecture.encoder is None:
        stack = "embedding.stack"
        entrance = "waves" if isinstance(architecture.embedding, EncodedWaves) else "patches"
        table = renamed(renamed(table, "embedding.", f"embedding.{entrance}."), "encoder.", f"{stack}.")
        table = {**table, "embedding.projection": "enc_to_dec_proj"}
    return Names(
        {**table, **under(prefixes[1], renamed(text.outside, "embedding", "decoder_embedding"))},
        {
            stack: (f"{prefixes[0]}{first}", outer_layer),
            "decoder": (f"{prefixes[1]}{last}", {**later, **crossed}),
        },
    )


def each_block(stack: Stack, change: Callable[[Block], Block]) -> Stack:
    """The stack with every block changed."""
    return stack.but(variants=Named({name: change(block) for name, block in stack.variants.items()}))


def _crossed(source_width: int | None, block: Block) -> Block:
    """The block with cross-attention behind its attention, of the same heads, norms and dropout."""
    steps = []
    for step in block.steps:
        steps.append(step)
        branch = step.branches.get("attention")
        if branch is not None and isinstance(own := branch.sublayer, Attention):
            shared = (Attention.model_fields.keys() & CrossAttention.model_fields.keys()) - {"kind", "score"}
            cross = CrossAttention(**{name: getattr(own, name) for name in shared}, score=own.score.but(terms=()))
            cross = cross.but(source_width=source_width)
            steps.append(step.but(branches=Named({"cross_attention": branch.but(sublayer=cross)})))
    return block.but(steps=tuple(steps))


def renamed(table: Table, begin: str, other: str) -> Table:
    """The table with another beginning of our names that begin so."""
    return {
        other + ours.removeprefix(begin) if isinstance(ours, str) and ours.startswith(begin) else ours: theirs
        for ours, theirs in table.items()
    }
