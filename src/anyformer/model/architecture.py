"""Architecture: *what* is computed, as one frozen value. No dtype, device, kernel or mesh in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Unpack

from pydantic import Field, model_validator

from anyformer.describe import Named, Value
from anyformer.parts.block import Block
from anyformer.parts.embedding import Embedding
from anyformer.parts.head import Head
from anyformer.parts.initialisation import Initialisation
from anyformer.parts.latents import Latents
from anyformer.parts.stack import Around, Stack, stack
from anyformer.plan import Plan
from anyformer.tally import Shape, Tally, total


class Architecture(Value):
    """A transformer: embedding, an encoder or a decoder or both, and a head.

    Only a decoder: a (prefix) language model. Only an encoder: a representation, or with a head a masked language model.
    Both: sequence to sequence, the decoder reading the encoder's output through cross-attention.
    """

    width: Annotated[int, Field(ge=1)]
    """D, features of the residual stream."""
    embedding: Embedding
    decoder_embedding: Embedding | None = None
    """The decoder's own table in an encoder-decoder; absent, both share one."""
    encoder: Stack | None = None
    decoder: Stack | None = None
    latents: Latents | None = None
    """A learned array that the decoder transforms instead of tokens; it reads the encoder's output, or the embedding itself."""
    head: Head | None = None
    """From features to logits; absent, the model gives features."""
    initialisation: Initialisation = Initialisation()

    @model_validator(mode="after")
    def _fits_together(self) -> Architecture:
        if self.encoder is None and self.decoder is None:
            raise ValueError("needs an encoder, a decoder or both")
        if self.encoder is not None and self.encoder.reads_source:
            raise ValueError("encoder: cross-attention belongs into a decoder; an encoder has no other sequence to read")
        reads = self.decoder is not None and self.decoder.reads_source
        if reads and self.encoder is None and self.latents is None:
            raise ValueError("decoder: cross-attention needs an encoder to read from, or latents that read the input")
        if self.latents is not None and not reads:
            raise ValueError("latents: a decoder with cross-attention must let them read the input")
        if self.latents is not None:
            self.latents.check(self.width)
        if self.decoder is not None and self.encoder is not None and not self.decoder.reads_source:
            raise ValueError("decoder: no layer has cross-attention, so the encoder would be read by nobody")
        if self.decoder_embedding is not None and (self.encoder is None or self.decoder is None):
            raise ValueError("decoder_embedding: only an encoder-decoder can have a second table")
        for name, part in self.stacks.items():
            part.check(self.width, name)
        return self

    @property
    def stacks(self) -> dict[str, Stack]:
        """The stacks there are, in the order computed."""
        return {name: part for name, part in (("encoder", self.encoder), ("decoder", self.decoder)) if part is not None}

    @property
    def shape_of_model(self) -> Literal["decoder-only", "encoder-only", "encoder-decoder", "latent"]:
        """Which stacks there are, in the field's words."""
        if self.latents is not None:
            return "latent"
        if self.encoder is None:
            return "decoder-only"
        return "encoder-only" if self.decoder is None else "encoder-decoder"

    @property
    def output_stack(self) -> Stack:
        """The stack that the head reads."""
        stacks = list(self.stacks.values())
        return stacks[-1]

    @property
    def output_embedding(self) -> Embedding:
        """The table of the stack that the head reads: its size is the number of logits."""
        return self.decoder_embedding or self.embedding

    def cost(self, shape: Shape, plan: Plan | None = None) -> Tally:
        """Everything the parts declare for one call; decode state and limits are those of the stack that generates."""
        plan = plan or Plan()
        if self.latents is not None:
            # The decoder's length is the array's, whatever is read.
            shape = Shape(batch=shape.batch, length=self.latents.count, source=shape.length)
        rows = shape.batch * shape.length
        parts = {"embedding": self.embedding.cost(self.width)}
        if self.decoder_embedding is not None:
            parts["decoder_embedding"] = self.decoder_embedding.cost(self.width)
        if self.latents is not None:
            parts["latents"] = self.latents.cost(self.width)
        if self.encoder is not None:
            alone = self.decoder is None
            reads = shape if alone else Shape(batch=shape.batch, length=max(shape.source, 1))
            encoder = self.encoder.cost(self.width, reads, plan)
            runs = alone or shape.past == 0
            parts["encoder"] = Tally(encoder.weights, encoder.flops if runs else {}, limits=encoder.limits if alone else ())
        if self.decoder is not None:
            decoder = self.decoder.cost(self.width, shape, plan)
            # A latent array is computed whole: there is nothing to generate, so nothing to remember.
            parts["decoder"] = decoder if self.latents is None else Tally(decoder.weights, decoder.flops)
        if self.head is not None:
            parts["head"] = self.head.cost(self.output_embedding.vocab, self.width, rows)
        return total(parts)


def decoder_only(
    embedding: Embedding,
    width: int,
    layers: Iterable[Block],
    *,
    names: Named[Block] | None = None,
    head: Head | None = None,
    initialisation: Initialisation | None = None,
    **around: Unpack[Around],
) -> Architecture:
    """A language model: `layers` from first to last, masked as their attention says (causal unless told otherwise)."""
    return Architecture(
        width=width,
        embedding=embedding,
        decoder=stack(layers, names=names, **around),
        head=head or Head(),
        initialisation=initialisation or Initialisation(),
    )


def encoder_only(
    embedding: Embedding,
    width: int,
    layers: Iterable[Block],
    *,
    names: Named[Block] | None = None,
    head: Head | None = None,
    initialisation: Initialisation | None = None,
    **around: Unpack[Around],
) -> Architecture:
    """An encoder: give its attention a mask that sees both ways. Without a head it returns features."""
    return Architecture(
        width=width,
        embedding=embedding,
        encoder=stack(layers, names=names, **around),
        head=head,
        initialisation=initialisation or Initialisation(),
    )


def encoder_decoder(
    embedding: Embedding,
    width: int,
    encoder: Stack,
    decoder: Stack,
    *,
    decoder_embedding: Embedding | None = None,
    head: Head | None = None,
    initialisation: Initialisation | None = None,
) -> Architecture:
    """Sequence to sequence: build both stacks with `stack(...)`; the decoder's blocks hold a CrossAttention."""
    return Architecture(
        width=width,
        embedding=embedding,
        decoder_embedding=decoder_embedding,
        encoder=encoder,
        decoder=decoder,
        head=head or Head(),
        initialisation=initialisation or Initialisation(),
    )
