"""Architecture: *what* is computed, as one frozen value without dtype, device, kernel or mesh."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, model_validator

from anyformer.describe import Count, DescriptionError, Problem, goes_beyond, numbers, with_kind
from anyformer.dims import LARGEST
from anyformer.model import fitting
from anyformer.model.lengths import behind, decoder_shape
from anyformer.model.summaries import Shown, layers
from anyformer.operations import Limit, Shape, Tally, Weight, total
from anyformer.parts.attention.latents import Latents
from anyformer.parts.embedding.embedding import Embedding, Input
from anyformer.parts.embedding.head import Head
from anyformer.parts.images.encoder import ImageEncoder
from anyformer.parts.images.placeholder import Price
from anyformer.parts.images.sound import SoundEncoder
from anyformer.parts.initialisation import Initialisation
from anyformer.parts.layers.multi_token import MultiToken
from anyformer.parts.layers.stack import Stack
from anyformer.plan import Plan


class Architecture(Shown):
    """A transformer: an input, an encoder or a decoder or both, and a head.

    A decoder alone is a (prefix) language model. An encoder alone gives features, or with a head is a masked language model or
    a classifier. With two inputs, the source and the target's tokens, it is sequence to sequence: the decoder reads the
    encoder's output, or without an encoder the embedded source itself (an image's features, for instance).
    """

    versioned: ClassVar[bool] = True
    of_sizes: ClassVar[bool] = True
    width: Count
    """D, features of the residual stream."""
    embedding: Input
    """The embedding of the input, or of the source."""
    decoder_embedding: Embedding | None = None
    """The target's own table in an architecture with two inputs; absent, source and target share one."""
    embedding_width: Count | None = None
    """Features of the embeddings if not D (ALBERT, ELECTRA); stacks then have an input projection."""
    encoder: Stack | None = None
    decoder: Stack | None = None
    source: Literal["attended", "prefix"] = "attended"
    """How the decoder reads the source: by cross-attention, or as positions in front of the target's."""
    latents: Latents | None = None
    """A learned array that the decoder transforms instead of tokens; it reads the encoder's output, or the embedding itself."""
    head: Head | None = None
    """The map from features to logits; absent, the model returns features."""
    mtp: MultiToken | None = None
    """Predictions of tokens after the next one, in training alone; counted beside the model."""
    images: Annotated[ImageEncoder | None, BeforeValidator(with_kind("tower"))] = None
    """An encoder of images whose features replace the embeddings of the tokens that stand for them in a text."""
    audio: Annotated[SoundEncoder | None, BeforeValidator(with_kind("tower"))] = None
    """An encoder of sound, likewise."""
    virtual_tokens: Count | None = None
    """Learnt vectors in front of every text, without outputs: prompt tuning (Lester et al. 2021, arXiv 2104.08691)."""
    initialisation: Initialisation = Initialisation()

    @model_validator(mode="after")
    def _fits_together(self) -> Architecture:
        if goes_beyond(self, LARGEST):
            too_large = [(path, number) for path, number in numbers(self) if number > LARGEST]
            raise DescriptionError([Problem(path, f"is {number}, and may be at most {LARGEST}") for path, number in too_large])
        fitting.check_sources(self.encoder, self.decoder, self.latents, self.source, two_inputs=self.two_inputs)
        read_only = self.two_inputs and self.encoder is None and self.source == "attended" and self.embedding_width is None
        fitting.check_source_width(self.decoder, self.width, self.embedding, self.table_width, read_only=read_only)
        self._check_inputs()
        one_text = not self.two_inputs and self.latents is None
        reads_tokens = one_text and self.embedding.symbols is not None
        if self.mtp is not None:
            continues = one_text and self.encoder is None and self.head_table is not None
            fitting.check_mtp(self.mtp, self.decoder if continues else None, self.width, self.table_width)
        if self.virtual_tokens is not None:
            fitting.check_virtual_tokens(self.shape_of_model, self.mtp, one_text=reads_tokens)
        mixed = not reads_tokens or self.virtual_tokens is not None
        fitting.check_towers(self.images, self.audio, self.output_stack, mixed=mixed, predicts_later=self.mtp is not None)
        if self.head is not None:
            self.head.check(
                self.output_embedding, self.width, self.table_width, decodes=self.decoder is not None and not self.latents
            )
        if self.latents is not None:
            self.latents.check(self.width)
        for name, part in self.stacks.items():
            part.check(self.width, self.table_width, name)
        return self

    def _check_inputs(self) -> None:
        """Refuse layers that read tokens of an input without tokens, and a second table without a second input."""
        in_front = self.encoder is None and self.source == "prefix"
        fitting.check_tables(self.embedding, self.decoder_embedding, two_inputs=self.two_inputs, in_front=in_front)
        for name, part in self.stacks.items():
            decodes = name == "decoder"
            entrance = self.output_embedding if decodes else self.embedding
            mixed = (decodes and (self.source == "prefix" or self.latents is not None)) or self.virtual_tokens is not None
            if part.reads_tokens and (mixed or entrance.symbols is None):
                raise ValueError(f"{name}: a layer looks at the tokens themselves, and not all its positions are tokens")

    @property
    def stacks(self) -> dict[str, Stack]:
        """Its stacks by name, in the order computed."""
        return {name: part for name, part in (("encoder", self.encoder), ("decoder", self.decoder)) if part is not None}

    @property
    def layered(self) -> tuple[str, ...]:
        """The names of its modules that have layers: its stacks, and the predictions of later tokens."""
        return (*self.stacks, *(("mtp",) if self.mtp else ()))

    @property
    def two_inputs(self) -> bool:
        """Whether the decoder reads a source besides its own tokens."""
        has_source = self.encoder is not None or self.decoder_embedding is not None
        return self.decoder is not None and self.latents is None and has_source

    @property
    def sees(self) -> bool:
        """Whether it reads images, among the tokens of a text or before it."""
        return self.images is not None or self.embedding.rank == 4

    @property
    def shape_of_model(self) -> Literal["decoder-only", "encoder-only", "encoder-decoder", "latent"]:
        """The usual name of its combination of stacks."""
        if self.latents is not None:
            return "latent"
        if self.encoder is None:
            return "decoder-only"
        return "encoder-only" if self.decoder is None else "encoder-decoder"

    def resolved(self) -> Architecture:
        """A copy with a number for every size and factor that follows from others."""
        second, head = self.decoder_embedding, self.head
        return self.but(
            embedding=self.embedding.resolved(self.table_width),
            decoder_embedding=second and second.resolved(self.table_width),
            head=head and head.resolved(self.width),
            mtp=self.mtp and self.mtp.resolved(self.width),
            initialisation=self.initialisation.of_depth(self.output_stack.depth),
            **{name: stack.resolved(self.width) for name, stack in self.stacks.items()},
        )

    def source_of(self, length: int, given: int | None = None) -> int:
        """Positions of the source: `given`, by default as many as of the target; 0 without a source."""
        return (given or length) if self.two_inputs else 0

    @property
    def output_stack(self) -> Stack:
        """The stack that the head reads."""
        return list(self.stacks.values())[-1]

    @property
    def output_embedding(self) -> Input:
        """The input of the stack that the head reads."""
        return self.decoder_embedding or self.embedding

    @property
    def vocabularies(self) -> dict[str, int]:
        """The number of tokens of each table of tokens, by the name of its field."""
        tables = {"embedding": self.embedding, "decoder_embedding": self.decoder_embedding}
        return {name: table.symbols for name, table in tables.items() if table and table.symbols}

    @property
    def table_width(self) -> int:
        """Features of the embeddings."""
        return self.width if self.embedding_width is None else self.embedding_width

    @property
    def outputs(self) -> int:
        """V, the number of logits; D without a head; of a head that gives features, their number."""
        if self.head is None:
            return self.width
        if self.head.outputs == "features":
            return self.head.features(self.width, self.table_width)
        outputs = self.head.outputs or self.output_embedding.symbols
        assert outputs is not None
        return outputs

    @property
    def head_table(self) -> tuple[str, Weight] | None:
        """Path and weight (V, D) of the head's table: that of the output embedding if it is tied, else its own.

        None without logits: without a head, or with a head that gives features.
        """
        if self.head is None or self.head.outputs == "features":
            return None
        if not self.head.tied:
            return "head.weight", self.head.cost(self.outputs, self.width, self.table_width, 1, 1).weights["weight"]
        owner = "decoder_embedding" if self.decoder_embedding else "embedding"
        return f"{owner}.weight", self.output_embedding.cost(self.table_width, 1, 1).weights["weight"]

    def _facts(self) -> dict[str, str]:
        """Its most important properties by name."""
        parameters = f"{self.folded_cost(Shape(source=1)).parameters:,}"
        facts = {"shape": self.shape_of_model, "parameters": parameters, "width": f"{self.width:,}"}
        if self.output_embedding.symbols is not None:
            facts["vocabulary"] = f"{self.output_embedding.symbols:,}"
        return facts | {name: layers(stack) for name, stack in self.stacks.items()}

    def cost(self, shape: Shape, plan: Plan | None = None) -> Tally:
        """The declarations of all parts for one call; decode state and limits are those of the stack that generates."""
        return _kept(self, shape, plan or Plan(), Stack.cost, None)

    def folded_cost(self, shape: Shape, plan: Plan | None = None) -> Tally:
        """The same sums as `cost`, with one name for all layers of a variant: a hundred times less to add up in deep models."""
        return _kept(self, shape, plan or Plan(), Stack.folded_cost, None)

    def trained_cost(self, shape: Shape, plan: Plan | None = None) -> Tally:
        """As `cost`, of a call in training: with the predictions of later tokens."""
        return _kept(self, shape, plan or Plan(), Stack.cost, self.mtp)

    def folded_trained_cost(self, shape: Shape, plan: Plan | None = None) -> Tally:
        """As `folded_cost`, of a call in training."""
        if self.mtp is None:
            return self.folded_cost(shape, plan)
        return _kept(self, shape, plan or Plan(), Stack.folded_cost, self.mtp)

    def _cost(self, shape: Shape, plan: Plan, price: Price, mtp: MultiToken | None) -> Tally:
        # Of two inputs the source is read in the first call only; a single input is as long as the call.
        read = shape.length
        if self.two_inputs:
            read = shape.source if shape.past == 0 else 0
        parts = {"embedding": self.embedding.priced(self.table_width, shape.batch, read, plan, price)}
        if self.decoder_embedding is not None:
            parts["decoder_embedding"] = self.decoder_embedding.cost(self.table_width, shape.batch, shape.length)
        if self.images is not None:
            shape = replace(shape, ahead=self.images.ahead(shape))
            parts["images"] = self.images.cost(self.table_width, shape.batch * shape.images, plan, price)
        if self.audio is not None:
            heard = self.audio.but(sound=shape.frames) if shape.frames else self.audio
            heard.check_length(shape.audio, shape.length)
            parts["audio"] = heard.cost(self.table_width, shape.batch * shape.audio, plan, price)
        if self.latents is not None:
            parts["latents"] = self.latents.cost(self.width)
        if self.encoder is not None:
            parts["encoder"] = self._encoder_cost(shape, read, plan, price)
        if self.decoder is not None:
            decoder = price(self.decoder, self.width, self.table_width, self.shape_of("decoder", shape) or shape, plan)
            # A latent array is computed whole: no tokens are generated, so no state is needed.
            parts["decoder"] = decoder if self.latents is None else decoder.without("state", "limits")
        if mtp is not None and self.decoder is not None:
            parts["mtp"] = mtp.cost(self.width, self.decoder, shape, plan)
        head = Tally()
        if self.head is not None:
            length = self._read_by_head(shape, mtp)
            head = self.head.cost(self.outputs, self.width, self.table_width, shape.batch, length).within("head", "exit")
        limits = (Limit("packed", "a source stands before the target, of one document"),) if self.source == "prefix" else ()
        virtual = {}
        if self.virtual_tokens is not None:
            limits = (Limit("packed", "virtual tokens stand in front of the first document of a row alone"),)
            virtual = {"virtual_tokens": Weight((self.virtual_tokens, self.table_width), "replicate", "embedding")}
        return total(parts, "module") + head + Tally(virtual, own_limits=limits)

    def trained_logits(self, shape: Shape) -> int:
        """The number of logits of a call in training: B T V, or B V for a head that pools; with `mtp` those of all tokens."""
        if self.head is None or self.head.outputs == "features":
            return 0
        return shape.batch * (1 if self.head.pool else self._read_by_head(shape, self.mtp)) * self.outputs

    def _read_by_head(self, shape: Shape, mtp: MultiToken | None) -> int:
        """The number of vectors of a row that become logits, or are pooled."""
        later = () if mtp is None else range(1, mtp.depth + 1)
        return (shape.length if self.latents is None else self.latents.count) + sum(max(shape.length - k, 0) for k in later)

    def shape_of(self, stack: str, shape: Shape) -> Shape | None:
        """The shape of a stack's part of a call; None for an encoder whose source was read before."""
        if stack == "decoder":
            return behind(decoder_shape(shape, self.latents, self.source), self.virtual_tokens or 0)
        if self.decoder is None:
            return behind(shape, self.virtual_tokens or 0)
        if self.two_inputs and shape.past:
            return None
        return Shape(batch=shape.batch, length=max(shape.source if self.two_inputs else shape.length, 1))

    def _encoder_cost(self, shape: Shape, read: int, plan: Plan, price: Price) -> Tally:
        """The encoder's tally: of the whole call if there is no decoder, else of the source in the first call."""
        assert self.encoder is not None
        alone = self.decoder is None
        reads = self.shape_of("encoder", shape) or Shape(batch=shape.batch)
        cost = price(self.encoder, self.width, self.table_width, reads, plan)
        cost = cost.without("state") if read else cost.without("state", "work")
        return cost if alone else cost.without("limits")


@lru_cache(maxsize=64)
def _kept(architecture: Architecture, shape: Shape, plan: Plan, price: Price, mtp: MultiToken | None) -> Tally:
    """The same few shapes are asked for many times: by a cost sheet, a plan and a picture, and by a run each time that it
    builds its model."""
    return architecture._cost(shape, plan, price, mtp)
