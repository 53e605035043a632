"""Transformer: the module that an `Architecture` describes, and how it is built, initialised and given decode state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor

from anyformer.describe import UserError
from anyformer.model.architecture import Architecture
from anyformer.model.initialise import Described, assemble
from anyformer.parts.balance import Auxiliary
from anyformer.parts.context import Context
from anyformer.parts.initialisation import Initialisation
from anyformer.parts.latents import LatentsModule
from anyformer.parts.noise import Draws, Noise
from anyformer.parts.stack import Stack, StackState
from anyformer.parts.state import EMPTY, State
from anyformer.plan import Plan
from anyformer.tally import Shape, Weight


class InputError(UserError):
    """What was handed to a model does not fit it."""


class Facts(TypedDict, total=False):
    """The keyword arguments of `Transformer.features`."""

    padding: Tensor | None
    decoder_padding: Tensor | None
    documents: Tensor | None
    prefix: Tensor | None
    positions: Tensor | None
    state: StackState | None
    noise: Noise | None
    auxiliary: Auxiliary | None


class Transformer(Described):
    """Any architecture, one module.

    It has no buffers: positions, masks and rotary tables are computed per call, so nothing can be lost or go stale.
    """

    def __init__(self, architecture: Architecture, plan: Plan | None = None) -> None:
        super().__init__()
        self.architecture, self.plan = architecture, plan or Plan()
        width = architecture.width
        self.embedding = architecture.embedding.build(width)
        second = architecture.decoder_embedding
        self.decoder_embedding = second.build(width) if second else None
        self.latents = architecture.latents.build(width) if architecture.latents else None
        for name, stack in architecture.stacks.items():
            self.add_module(name, stack.build(width, self.plan, name))
        head, vocab = architecture.head, architecture.output_embedding.vocab
        self.head = head.build(vocab, width) if head else None
        self._tally = architecture.cost(Shape())
        self._draws = any(isinstance(module, Draws) and module.draws for module in self.modules())

    @property
    def declared(self) -> Mapping[str, Weight]:
        return self._tally.weights

    @property
    def initialisation(self) -> Initialisation:
        return self.architecture.initialisation

    def forward(self, tokens: Tensor | None, decoder_tokens: Tensor | None = None, **facts: Unpack[Facts]) -> Tensor:
        """Logits (B, T, V), or features (B, T, D) of an architecture without a head. See `features` for the arguments."""
        return self.logits(self.features(tokens, decoder_tokens, **facts))

    def features(
        self,
        tokens: Tensor | None,
        decoder_tokens: Tensor | None = None,
        *,
        padding: Tensor | None = None,
        decoder_padding: Tensor | None = None,
        documents: Tensor | None = None,
        prefix: Tensor | None = None,
        positions: Tensor | None = None,
        state: StackState | None = None,
        noise: Noise | None = None,
        auxiliary: Auxiliary | None = None,
    ) -> Tensor:
        """What the head reads, (B, T, D).

        tokens (B, T) int: the text, or in an encoder-decoder the source; None there when `state` already holds it.
        decoder_tokens (B, T) int: the target, in an encoder-decoder only.
        padding, decoder_padding (B, T) bool: true on padding, on either side, of `tokens` and `decoder_tokens`.
        documents (B, T) int: tokens see only tokens of the same number; positions restart at each document.
        prefix (B,) int: how many first positions see each other both ways (prefix masks); decode state remembers it.
        positions (B, T) int: instead of counting; `state`: decode state, extended by this call; `noise`: for dropout.
        auxiliary: where expert layers leave their penalties and statistics.
        """
        self._check(tokens, decoder_tokens, padding, decoder_padding, documents, positions, state)
        reads = decoder_tokens if decoder_tokens is not None else tokens
        assert reads is not None
        if self.training and self._draws and noise is None:
            noise = Noise.fresh(len(reads), reads.device)
        if state is not None:
            state.slots.reserve(reads.shape[1])
        if self.latents is not None and tokens is not None:
            return self._latent(self.latents, tokens, padding, noise, auxiliary)
        if decoder_tokens is None and tokens is not None:
            return self._stack(
                tokens, self.architecture.output_stack, padding, documents=documents, prefix=prefix, positions=positions,
                state=state, noise=noise, auxiliary=auxiliary,
            )  # fmt: skip
        of_source = None if auxiliary is None else auxiliary.of_source()
        source = None if tokens is None else self.encode(tokens, padding=padding, noise=noise, auxiliary=of_source)
        return self.decode(
            reads, source=source, source_padding=padding, padding=decoder_padding, positions=positions, state=state,
            noise=noise, auxiliary=auxiliary,
        )  # fmt: skip

    def _latent(
        self,
        latents: LatentsModule,
        tokens: Tensor,
        padding: Tensor | None,
        noise: Noise | None,
        auxiliary: Auxiliary | None,
    ) -> Tensor:
        """The latent array (B, M, D) after it has read the input."""
        assert self.architecture.decoder is not None
        encodes = self.architecture.encoder is not None
        source = self.encode(tokens, padding=padding, noise=noise, auxiliary=auxiliary) if encodes else self.embedding(tokens)
        x, source = latents(source, count_positions(tokens, padding, None))
        return self._run(
            x, self.architecture.decoder, torch.arange(x.shape[1], device=x.device)[None], source=source,
            source_padding=padding, noise=noise, auxiliary=auxiliary,
        )  # fmt: skip

    def encode(
        self,
        tokens: Tensor,
        *,
        padding: Tensor | None = None,
        noise: Noise | None = None,
        auxiliary: Auxiliary | None = None,
    ) -> Tensor:
        """The encoder's output (B, S, D)."""
        assert self.architecture.encoder is not None
        return self._stack(tokens, self.architecture.encoder, padding, noise=noise, auxiliary=auxiliary)

    def decode(
        self,
        tokens: Tensor,
        *,
        source: Tensor | None = None,
        source_padding: Tensor | None = None,
        padding: Tensor | None = None,
        positions: Tensor | None = None,
        state: StackState | None = None,
        noise: Noise | None = None,
        auxiliary: Auxiliary | None = None,
    ) -> Tensor:
        """The decoder's features (B, T, D), reading `source` or what `state` stored of it; room there is already reserved."""
        assert self.architecture.decoder is not None
        if state is not None and source is not None:
            state.source_padding = source_padding
        elif state is not None:
            source_padding = state.source_padding
        return self._stack(
            tokens, self.architecture.decoder, padding, positions=positions, state=state, noise=noise,
            source=source, source_padding=source_padding, auxiliary=auxiliary,
        )  # fmt: skip

    def advance(
        self, tokens: Tensor, state: StackState, *, padding: Tensor | None = None, prefix: Tensor | None = None
    ) -> Tensor:
        """Features (B, T, D) of a chunk of the generating stack, with no check: its room in `state` is already reserved."""
        return self._stack(
            tokens, self.architecture.output_stack, padding, prefix=prefix, state=state, source_padding=state.source_padding
        )

    def logits(self, features: Tensor) -> Tensor:
        """(..., D) -> (..., V); the features themselves where there is no head."""
        if self.head is None:
            return features
        table = (self.decoder_embedding or self.embedding).weight
        return self.head(features, table)  # type: ignore[no-any-return]

    def _stack(
        self,
        tokens: Tensor,
        stack: Stack,
        padding: Tensor | None,
        *,
        documents: Tensor | None = None,
        prefix: Tensor | None = None,
        positions: Tensor | None = None,
        state: StackState | None = None,
        noise: Noise | None = None,
        source: Tensor | None = None,
        source_padding: Tensor | None = None,
        auxiliary: Auxiliary | None = None,
    ) -> Tensor:
        """Embed, then run one stack."""
        decodes = stack is self.architecture.decoder
        embedding = self.decoder_embedding if decodes and self.decoder_embedding is not None else self.embedding
        given = positions is not None
        aligned = padding is None and documents is None and positions is None and state is None
        chunk = None if state is None else state.slots.enter(padding, tokens.shape[1])
        if state is not None and prefix is not None:
            state.prefix = prefix
        elif state is not None:
            prefix = state.prefix
        if chunk is not None:
            positions = chunk.positions
        elif positions is None:
            positions = count_positions(tokens, padding, documents)
        return self._run(
            embedding(tokens),
            stack,
            positions,
            aligned=aligned,
            padded=padding is not None or given,
            documents=documents,
            prefix=prefix,
            noise=noise,
            tokens=tokens,
            auxiliary=auxiliary,
            chunk=chunk,
            source=source,
            source_padding=source_padding,
            states=state.layers if state else None,
        )

    def _run(
        self, x_BTD: Tensor, stack: Stack, positions: Tensor, *, states: list[dict[str, State]] | None = None, **facts: Any
    ) -> Tensor:
        """Run one stack over what was embedded; `facts` are those of `Context`."""
        module = self.get_submodule("decoder" if stack is self.architecture.decoder else "encoder")
        kind = x_BTD.device.type
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            # The residual stream runs in the type of the products: half the memory traffic of everything between them.
            x_BTD = x_BTD.to(torch.get_autocast_dtype(kind))
        return module(x_BTD, Context(positions, self.plan, **facts), states)  # type: ignore[no-any-return]

    def state(self, batch: int, capacity: int, *, source: int = 0, dtype: torch.dtype | None = None) -> StackState:
        """Empty decode state for `batch` rows of up to `capacity` positions (and a source of `source` positions)."""
        weight = self.embedding.weight
        stack = self.architecture.output_stack
        return stack.state(self.architecture.width, batch, capacity, source, dtype or weight.dtype, weight.device)

    def _check(
        self,
        tokens: Tensor | None,
        decoder_tokens: Tensor | None,
        padding: Tensor | None,
        decoder_padding: Tensor | None,
        documents: Tensor | None,
        positions: Tensor | None,
        state: StackState | None,
    ) -> None:
        """Refuse what does not fit, before any work."""
        shape_of_model = self.architecture.shape_of_model
        two = shape_of_model == "encoder-decoder"
        if two and decoder_tokens is None:
            raise InputError("an encoder-decoder reads two sequences: model(source_tokens, decoder_tokens)")
        if not two and decoder_tokens is not None:
            raise InputError(f"a {shape_of_model} model reads one sequence: leave decoder_tokens out")
        if tokens is None and (not two or state is None):
            raise InputError("tokens are missing; they may be None only in an encoder-decoder whose state holds the source")
        if state is not None and (documents is not None or positions is not None):
            raise InputError("decode state keeps its own positions and one document per row: leave documents and positions out")
        packed = self._tally.breaks("packed", training=self.training)
        if documents is not None and packed:
            raise InputError(f"documents cannot be packed in one row: {'; '.join(packed)}")
        for name, value, like in (
            ("tokens", tokens, None), ("decoder_tokens", decoder_tokens, None), ("padding", padding, tokens),
            ("decoder_padding", decoder_padding, decoder_tokens), ("documents", documents, tokens),
            ("positions", positions, None),
        ):  # fmt: skip
            if value is not None and value.dim() != 2:
                raise InputError(f"{name} should have shape (B, T), got {tuple(value.shape)}")
            if value is not None and like is not None and value.shape != like.shape:
                raise InputError(f"{name} should have the shape of its tokens {tuple(like.shape)}, got {tuple(value.shape)}")
        for name, value, stack in (
            ("decoder_tokens", decoder_tokens, self.architecture.decoder),
            ("tokens", tokens, self.architecture.encoder if two else self.architecture.output_stack),
        ):
            room = stack.max_length if stack else None
            used = state.slots.used if state is not None and stack is self.architecture.output_stack else 0
            if value is not None and room is not None and used + value.shape[1] > room:
                raise InputError(f"{name} reach position {used + value.shape[1]}, and the position table ends at {room}")


def count_positions(tokens: Tensor, padding: Tensor | None, documents: Tensor | None) -> Tensor:
    """Positions of each row, from 0 in each document, EMPTY on padding: (B or 1, T)."""
    index = torch.arange(tokens.shape[1], device=tokens.device)[None]
    if documents is not None:
        starts = torch.ones_like(documents, dtype=torch.bool)
        starts[:, 1:] = documents[:, 1:] != documents[:, :-1]
        index = index - torch.where(starts, index, 0).cummax(1).values
    elif padding is not None:
        index = (~padding).cumsum(1) - 1
    return index if padding is None else torch.where(padding, EMPTY, index)


def build(
    architecture: Architecture,
    plan: Plan | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Transformer:
    """The module of `architecture`, initialised by its own rules from `seed`; on `device="meta"` without values."""
    return assemble(lambda: Transformer(architecture, plan), device, dtype, seed)
