"""Transformer: the module that an `Architecture` describes, and how it is built, initialised and given decode state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor

from anyformer.model.architecture import Architecture
from anyformer.model.checks import check_inputs, check_weights
from anyformer.model.entered import Entered, count_positions, rearranged
from anyformer.model.initialise import Described, assemble
from anyformer.parts.attention.latents import LatentsModule
from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import Draws, Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.initialisation import Initialisation
from anyformer.parts.layers.stack import Stack
from anyformer.parts.lookup import InputError
from anyformer.plan import Plan
from anyformer.tally import Shape, Weight


class Facts(TypedDict, total=False):
    """The keyword arguments of `Transformer.features`."""

    padding: Tensor | None
    decoder_padding: Tensor | None
    documents: Tensor | None
    prefix: Tensor | None
    positions: Tensor | None
    types: Tensor | None
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
        self._tally = architecture.cost(Shape())
        check_weights(self._tally)
        width, narrow = architecture.width, architecture.table_width
        self.embedding = architecture.embedding.build(narrow)
        second = architecture.decoder_embedding
        self.decoder_embedding = second.build(narrow) if second else None
        self.latents = architecture.latents.build(width) if architecture.latents else None
        for name, stack in architecture.stacks.items():
            self.add_module(name, stack.build(width, narrow, self.plan, name))
        self.head = architecture.head.build(architecture.outputs, width, narrow) if architecture.head else None
        self._draws = any(isinstance(module, Draws) and module.draws for module in self.modules())

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def declared(self) -> Mapping[str, Weight]:
        return self._tally.weights

    @property
    def initialisation(self) -> Initialisation:
        return self.architecture.initialisation

    def forward(self, tokens: Tensor | None, decoder_tokens: Tensor | None = None, **facts: Unpack[Facts]) -> Tensor:
        """Logits (B, T, V), or (B, V) of a head that pools; without a head features (B, T, D). Arguments: see `features`."""
        features = self.features(tokens, decoder_tokens, **facts)
        if self.head is not None and self.head.head.pool is not None:
            padding = None if self.latents is not None else self.architecture.embedding.padding(facts.get("padding"))
            features = self.head.pooled(features, padding)
        return self.logits(features)

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
        types: Tensor | None = None,
        state: StackState | None = None,
        noise: Noise | None = None,
        auxiliary: Auxiliary | None = None,
    ) -> Tensor:
        """What the head reads, (B, T, D): of the target alone where there are two inputs.

        tokens: the input, or of two inputs the source; None there when `state` already holds it. Tokens (B, T) int, or what
        the architecture's `embedding` reads: images (B, C, height, width), features (B, T, I).
        decoder_tokens (B, T) int: the target, where there are two inputs.
        padding, decoder_padding (B, T) bool: true on padding, on either side, of `tokens` and `decoder_tokens`.
        documents (B, T) int: tokens see only tokens of the same number; positions restart at each document.
        prefix (B,) int: how many first positions see each other both ways (prefix masks); decode state remembers it. A source
        that stands before the target is a prefix by itself.
        positions (B, T) int: instead of counting; types (B, T) int: kinds of segments, for an embedding that has such a table.
        state: decode state, extended by this call; noise: for dropout.
        auxiliary: where expert layers leave their penalties and statistics.
        """
        check_inputs(
            self.architecture, self._tally, tokens, decoder_tokens, padding=padding, decoder_padding=decoder_padding,
            documents=documents, prefix=prefix, positions=positions, types=types, state=state, training=self.training,
        )  # fmt: skip
        if self.training and self._draws and noise is None:
            reads = decoder_tokens if decoder_tokens is not None else tokens
            assert reads is not None
            noise = Noise.fresh(len(reads), reads.device)
        stack = self.architecture.output_stack
        if decoder_tokens is None:
            assert tokens is not None
            entered = self._enter(tokens, padding, types)
            if self.latents is not None:
                return self._latent(self.latents, entered, noise, auxiliary)
            return self._stack(
                entered, stack, documents=documents, prefix=prefix, positions=positions, state=state, noise=noise,
                auxiliary=auxiliary,
            )  # fmt: skip
        source = None
        if tokens is not None:
            source = self._encoded(self._enter(tokens, padding, types), noise, auxiliary and auxiliary.of_source())
        target = self._enter(decoder_tokens, decoder_padding, target=True)
        if self.architecture.source == "prefix":
            return self._prefixed(source, target, state, noise, auxiliary)
        return self._attending(source, target, positions, state, noise, auxiliary)

    def advance(
        self, tokens: Tensor, state: StackState, *, padding: Tensor | None = None, prefix: Tensor | None = None
    ) -> Tensor:
        """Features (B, T, D) of a chunk of the generating stack, with no check: its room in `state` is already reserved."""
        entered = self._enter(tokens, padding, target=True)
        source_padding = state.source_padding
        return self._run(entered, self.architecture.output_stack, prefix=prefix, state=state, source_padding=source_padding)

    def logits(self, features: Tensor) -> Tensor:
        """(..., D) -> (..., V); the features themselves where there is no head."""
        if self.head is None:
            return features
        entrance = self.decoder_embedding or self.embedding
        return self.head(features, entrance.weight if self.head.head.tied else None)  # type: ignore[no-any-return]

    def state(self, batch: int, capacity: int, *, source: int = 0, dtype: torch.dtype | None = None) -> StackState:
        """Empty decode state for `batch` rows of up to `capacity` positions (and a source of `source` positions)."""
        reasons = self._tally.breaks("stepwise")
        if reasons:
            raise InputError(f"this architecture cannot go on from a state: {'; '.join(reasons)}")
        weight = next(self.parameters())
        if self.architecture.source == "prefix":
            capacity += source
        stack = self.architecture.output_stack
        return stack.state(self.architecture.width, batch, capacity, source, dtype or weight.dtype, weight.device)

    def _enter(self, given: Tensor, padding: Tensor | None, types: Tensor | None = None, *, target: bool = False) -> Entered:
        """Embed the input, or the source; or the target."""
        second = self.decoder_embedding if target else None
        entrance = self.architecture.output_embedding if target else self.architecture.embedding
        x_BTD = (second or self.embedding)(given, padding, types)
        return Entered(x_BTD, entrance.padding(padding), None if entrance.symbols is None else given)

    def _encoded(self, source: Entered, noise: Noise | None, auxiliary: Auxiliary | None) -> Entered:
        """The source as the decoder reads it: through the encoder, if there is one."""
        encoder = self.architecture.encoder
        if encoder is None:
            return source
        return Entered(self._run(source, encoder, noise=noise, auxiliary=auxiliary), source.padding)

    def _latent(self, latents: LatentsModule, entered: Entered, noise: Noise | None, auxiliary: Auxiliary | None) -> Tensor:
        """The latent array (B, M, D) after it has read the input."""
        assert self.architecture.decoder is not None
        source = self._encoded(entered, noise, auxiliary)
        x, read = latents(source.x, count_positions(source.x, source.padding, None))
        return self._run(
            Entered(x), self.architecture.decoder, source=read, source_padding=source.padding, noise=noise, auxiliary=auxiliary
        )

    def _attending(
        self,
        source: Entered | None,
        target: Entered,
        positions: Tensor | None,
        state: StackState | None,
        noise: Noise | None,
        auxiliary: Auxiliary | None,
    ) -> Tensor:
        """The decoder's features, reading `source` or what `state` stored of it by cross-attention."""
        assert self.architecture.decoder is not None
        padding = None if source is None else source.padding
        if state is not None and source is not None:
            state.source_padding = padding
        elif state is not None:
            padding = state.source_padding
        return self._stack(
            target, self.architecture.decoder, positions=positions, state=state, noise=noise, auxiliary=auxiliary,
            source=None if source is None else source.x, source_padding=padding,
        )  # fmt: skip

    def _prefixed(
        self,
        source: Entered | None,
        target: Entered,
        state: StackState | None,
        noise: Noise | None,
        auxiliary: Auxiliary | None,
    ) -> Tensor:
        """The decoder's features of the target, which `source` stands before, or has stood before in `state`."""
        assert self.architecture.decoder is not None
        prefix, whole = None, target
        if source is not None:
            prefix, whole = source.valid.sum(1), target.after(source)
            auxiliary = auxiliary and auxiliary.after(source.length)
        features = self._stack(whole, self.architecture.decoder, prefix=prefix, state=state, noise=noise, auxiliary=auxiliary)
        return features[:, whole.length - target.length :]

    def _stack(self, entered: Entered, stack: Stack, *, state: StackState | None, **facts: Any) -> Tensor:
        """Make room in the state, then run one stack."""
        if state is not None:
            state.slots.reserve(entered.length)
        return self._run(entered, stack, state=state, **facts)

    def _run(
        self,
        entered: Entered,
        stack: Stack,
        *,
        documents: Tensor | None = None,
        prefix: Tensor | None = None,
        positions: Tensor | None = None,
        state: StackState | None = None,
        auxiliary: Auxiliary | None = None,
        **facts: Any,
    ) -> Tensor:
        """Count positions and run one stack; `facts` are those of `Context`."""
        order = None
        if entered.padding is not None and (state is not None or self.architecture.source == "prefix"):
            # A window remembers so many slots: padding must not come between the positions that follow.
            order = (~entered.padding).byte().argsort(dim=1, stable=True)
            entered = entered.ordered(order)
            auxiliary = auxiliary and auxiliary.ordered(order)
        padding, given = entered.padding, positions is not None
        chunk = None if state is None else state.slots.enter(padding, entered.length)
        if state is not None and prefix is not None:
            state.prefix = prefix
        elif state is not None:
            prefix = state.prefix
        if chunk is not None:
            positions = chunk.positions
        elif positions is None:
            positions = count_positions(entered.x, padding, documents)
        context = Context(
            positions,
            self.plan,
            aligned=padding is None and documents is None and not given and state is None,
            padded=padding is not None or given,
            documents=documents,
            prefix=prefix,
            tokens=entered.tokens,
            chunk=chunk,
            auxiliary=auxiliary,
            **facts,
        )
        x_BTD = entered.x
        if torch.amp.is_autocast_available(x_BTD.device.type) and torch.is_autocast_enabled(x_BTD.device.type):
            # The residual stream runs in the type of the products: half the memory traffic of everything between them.
            x_BTD = x_BTD.to(torch.get_autocast_dtype(x_BTD.device.type))
        module = self.get_submodule("decoder" if stack is self.architecture.decoder else "encoder")
        y_BTD: Tensor = module(x_BTD, context, state.layers if state else None)
        return y_BTD if order is None else rearranged(y_BTD, order.argsort(1))


def build(
    architecture: Architecture,
    plan: Plan | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Transformer:
    """The module of `architecture`, initialised by its own rules from `seed`; on `device="meta"` without values."""
    return assemble(lambda: Transformer(architecture, plan), device, dtype, seed)
