"""Transformer: the module that an `Architecture` describes; building, initialisation and decode state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

import torch
from torch import Tensor, nn

from anyformer.describe import InputError
from anyformer.model.among import embedded
from anyformer.model.architecture import Architecture
from anyformer.model.checks import check_ahead, check_inputs, check_weights
from anyformer.model.contexts import context_of
from anyformer.model.initialise import assemble
from anyformer.model.inputs import Call, CallOptions, StackCall, StackInput, count_positions, rearranged
from anyformer.model.mup import based, computed
from anyformer.model.narrow import narrow_products
from anyformer.model.opening import Openable
from anyformer.model.prefix import reads_prefix
from anyformer.model.share import ProcessShare
from anyformer.operations import Weight
from anyformer.parts.attention.latents_module import LatentsModule
from anyformer.parts.call.choices import Choices
from anyformer.parts.call.noise import DrawsNoise, Noise, TakesNoise
from anyformer.parts.call.shared import CONTEXT, EMBEDDED, TRUNK
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.initialisation import Initialisation
from anyformer.parts.layers.multi_token import Trunk
from anyformer.plan import Plan
from anyformer.tuning import Adapter


class Transformer(Openable):
    """Any architecture, one module.

    It has no buffers: positions, masks and rotary tables are computed per call, so nothing can be lost or go stale.
    `adapter`: what stands beside its weights (`model.adapters`), None without; `added`: the adapter's parameters, by name;
    `bare`: the architecture without what the adapter changes in it; `output`: the name of the stack that the head reads.
    `stage_of`: where the layers are divided among processes, the stage that has each of their weights, by name.
    `share`: where processes generate together, what this one has of it; None: all. `noting`: takes note of chosen experts.
    `narrow_state`: the type of its decode states, where that is another than its weights'.
    """

    def __init__(self, architecture: Architecture, plan: Plan | None = None) -> None:
        super().__init__()
        self.architecture, self.bare, self.plan = architecture, architecture, plan or Plan()
        self.adapter: Adapter | None = None
        self.added: dict[str, Weight] = {}
        self.stage_of: dict[str, int] = {}
        self.share: ProcessShare | None = None
        self.noting: Choices | None = None
        self.narrow_state: torch.dtype | None = None
        self._tally = based(architecture)
        check_weights(self._tally)
        architecture = computed(architecture)
        width, narrow = architecture.width, architecture.table_width
        self.embedding = architecture.embedding.built(narrow, self.plan, "embedding")
        self.virtual_tokens = nn.Parameter(torch.empty(virtual, narrow)) if (virtual := architecture.virtual_tokens) else None
        second = architecture.decoder_embedding
        self.decoder_embedding = second.build(narrow) if second else None
        self.images = architecture.images.build(narrow, self.plan, "images") if architecture.images else None
        self.audio = architecture.audio.build(narrow, self.plan, "audio") if architecture.audio else None
        self.latents = architecture.latents.build(width) if architecture.latents else None
        for name, stack in architecture.stacks.items():
            self.add_module(name, stack.build(width, narrow, self.plan, name))
        self.head = architecture.head.build(architecture.outputs, width, narrow) if architecture.head else None
        self.mtp = None
        if architecture.mtp is not None and architecture.decoder is not None:
            self.mtp = architecture.mtp.build(width, architecture.decoder, self.plan, "mtp")
        narrow_products(self, self.plan.precision, self._tally.weights)
        self.output = "encoder" if architecture.decoder is None else "decoder"
        # A prefix that no mask reads would only keep a call from the faster kernels.
        self._reads_prefix = architecture.two_inputs or reads_prefix(architecture)
        self.find_draws()

    def find_draws(self) -> None:
        """Take note of the modules that draw noise in training, adapters among them."""
        drawing = [module for module in self.modules() if isinstance(module, DrawsNoise) and module.draws]
        self._draws = bool(drawing)
        self._inputs = tuple(module for module in self.modules() if isinstance(module, TakesNoise)) if drawing else ()

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    @property
    def state_type(self) -> torch.dtype:
        """The type of decode states."""
        return self.narrow_state or next(self.parameters()).dtype

    @property
    def declared(self) -> Mapping[str, Weight]:
        return {**self._tally.weights, **self.added}

    @property
    def initialisation(self) -> Initialisation:
        return self.architecture.initialisation.of_depth(self.architecture.output_stack.depth)

    def put_in_front(self, architecture: Architecture) -> None:
        """Become `architecture`, which is this one with virtual tokens, still without values."""
        assert architecture.virtual_tokens is not None, "asked for an architecture with them"
        like = next(self.parameters())
        made = torch.empty(architecture.virtual_tokens, architecture.table_width, dtype=like.dtype, device=like.device)
        self.architecture, self.virtual_tokens = architecture, nn.Parameter(made)
        self._tally = based(architecture)

    def forward(self, tokens: Tensor | None, decoder_tokens: Tensor | None = None, **options: Unpack[CallOptions]) -> Tensor:
        """Logits (B, T, V), or (B, V) of a head that pools; without a head features (B, T, D). Arguments: see `features`."""
        call = Call(tokens, decoder_tokens, **options)
        features = self._features(call)
        if self.head is not None and self.head.head.pool is not None:
            padding = None if self.latents is not None else self.architecture.embedding.padding(call.padding)
            features = self.head.pooled(features, padding, call.tokens)
        return self.logits(features)

    def features(self, tokens: Tensor | None, decoder_tokens: Tensor | None = None, **options: Unpack[CallOptions]) -> Tensor:
        """The features that the head reads, (B, T, D); with two inputs those of the target alone.

        tokens: the input, or of two inputs the source, which may be None if `state` already holds it. Tokens (B, T) int, or
        images (B, C, height, width) or features (B, T, I), as the architecture's `embedding` reads.
        decoder_tokens (B, T) int: the target of a model with two inputs.
        padding, decoder_padding (B, T) bool: true on padding, on either side, of `tokens` and `decoder_tokens`.
        documents (B, T) int: tokens see only tokens of the same number; positions restart at every document.
        prefix (B,) int: the number of first positions that see one another both ways (prefix masks); decode state stores it. A
        source that stands before the target is always a prefix.
        images (n, C, height, width), or each of its own size: those of all rows, in the order of their tokens (`ImageEncoder`).
        audio (n, frames, I), audio_padding (n, frames) bool: sounds of all rows, likewise (`SoundEncoder`), and padding.
        kept (B, K) int: the numbers of the positions that the stack reads, all others are left out (MAE, arXiv 2111.06377);
        learned vectors in front of an image's patches stay there.
        times (B,) real, classes (B,) int: what a stack's `Condition` reads: by default time 0 and the null class.
        positions (B, T) int: by default counted; types (B, T) int: kinds of segments, for an embedding with a table of types;
        with n more numbers of every token (B, T, 1 + n), for one with tables of marks.
        state: decode state, extended by this call; noise: for dropout; auxiliary: collects what expert layers report; choices:
        the experts that are given for tokens.
        """
        return self._features(Call(tokens, decoder_tokens, **options))

    def _features(self, call: Call) -> Tensor:
        check_inputs(self.architecture, self._tally, call, training=self.training)
        self._begin(state=call.state is not None)
        if self.training and self._draws and call.noise is None:
            call = replace(call, noise=Noise.fresh(len(call.generated), call.generated.device))
        for module in self._inputs:
            module.noise = call.noise
        asked = self._asked(call)
        if asked.call.state is not None:
            asked.call.state.slots.reserve(asked.given.length)
        y_BTD = self._run(self.output, asked.given, asked.call, asked.source)
        return y_BTD[:, asked.first :] if asked.first else y_BTD

    def predictions(
        self, tokens: Tensor | None, decoder_tokens: Tensor | None = None, **options: Unpack[CallOptions]
    ) -> tuple[Tensor, ...]:
        """Logits of the next token, as `forward` gives them, then with `mtp` of the token k after it, (B, T - k, V), k = 1 ...

        Position i of those reads no token after i + k. Where that one, or its target, is of another document or padding,
        there is nothing to predict. Arguments: see `features`, without a state.
        """
        if self.mtp is None or tokens is None:
            return (self(tokens, decoder_tokens, **options),)
        call = Call(tokens, decoder_tokens, **options, left={})
        check_ahead(self.architecture, call)
        features, left = self._features(call), call.left or {}
        # The context holds the values left, so it must not stay among them.
        stream, embedded, context = (left.pop((None, name)) for name in (TRUNK, EMBEDDED, CONTEXT))
        trunk = Trunk(features, stream, embedded, self._norm, context)
        later = (self._see(f"mtp.head[{k}].logits", self._logits(read)) for k, read in enumerate(self.mtp(trunk)))
        return (self.logits(features), *later)

    def _norm(self, x_BTD: Tensor) -> Tensor:
        """The norm after the layers of the stack that the head reads."""
        return self.get_submodule(self.output).final_norm(x_BTD)  # type: ignore[no-any-return,operator]

    def advance(
        self, tokens: Tensor, state: StackState, *, padding: Tensor | None = None, prefix: Tensor | None = None
    ) -> Tensor:
        """Features (B, T, D) of a chunk of the generating stack, with no check: its slots in `state` are already reserved."""
        self._begin(state=True)
        return self._run(self.output, self.entered(tokens, padding), Call(prefix=prefix, state=state))

    def logits(self, features: Tensor) -> Tensor:
        """(..., D) -> (..., V); without a head the features themselves."""
        return features if self.head is None else self._see("head.logits", self._logits(features))

    def _logits(self, features: Tensor) -> Tensor:
        assert self.head is not None, "asked of a model with a head"
        entrance = self.decoder_embedding or self.embedding
        return self.head(features, entrance.weight if self.head.head.tied else None)  # type: ignore[no-any-return]

    def state(self, batch: int, capacity: int, *, source: int = 0, dtype: torch.dtype | None = None) -> StackState:
        """Empty decode state for `batch` rows of up to `capacity` positions (and a source of `source` positions)."""
        if reasons := self._tally.breaks("stepwise"):
            raise InputError(f"this architecture cannot go on from a state: {'; '.join(reasons)}")
        capacity += source if self.architecture.source == "prefix" else self.architecture.virtual_tokens or 0
        stack = (self.share or self).architecture.output_stack
        return stack.state(self.architecture.width, batch, capacity, source, dtype or self.state_type, self.device)

    def entered(self, given: Tensor, padding: Tensor | None, call: Call | None = None) -> StackInput:
        """The input or the source of a call, embedded; without a call the target."""
        added: tuple[Tensor, ...] = ()
        if call is None:
            entrance = self.architecture.output_embedding
            x_BTD = (self.decoder_embedding or self.embedding)(given, padding, None)
        else:
            entrance = self.architecture.embedding
            x_BTD, added = embedded(self.embedding, self.images, self.audio, given, call)
        target = call is None and self.architecture.two_inputs
        x_BTD = self._see("decoder_embedding.output" if target else "embedding.output", x_BTD)
        tokens = None if entrance.symbols is None else given
        entered = StackInput(x_BTD, entrance.padding(padding), tokens, entrance.axes(given), added)
        return entered if call is None or call.kept is None else entered.at(call.kept, x_BTD)

    def _asked(self, call: Call) -> StackCall:
        """What the stack that the head reads is asked in a call of the model."""
        source = None if call.tokens is None else self.entered(call.tokens, call.padding, call)
        if call.decoder_tokens is None:
            assert source is not None, "checked when the model is called"
            if self.latents is not None:
                return self._latent(self.latents, source, call)
            return StackCall(source, call) if self.virtual_tokens is None else self._prompted(self.virtual_tokens, source, call)
        source = source and self._encoded(source, call.of_source())
        target = self.entered(call.decoder_tokens, call.decoder_padding)
        return self._prefixed(source, target, call) if self.architecture.source == "prefix" else StackCall(target, call, source)

    def _encoded(self, source: StackInput, call: Call) -> StackInput:
        """The source as the decoder reads it: through the encoder, if there is one."""
        return source if self.architecture.encoder is None else StackInput(self._run("encoder", source, call), source.padding)

    def _latent(self, latents: LatentsModule, given: StackInput, call: Call) -> StackCall:
        """The latent array (B, M, D), behind its reading of the input, goes through the decoder."""
        inner = Call(noise=call.noise, times=call.times, classes=call.classes, auxiliary=call.auxiliary)
        source = self._encoded(given, inner)
        x, read = latents(source.x, count_positions(source.x, source.padding, None))
        return StackCall(StackInput(x), inner, StackInput(read, source.padding))

    def _prefixed(self, source: StackInput | None, target: StackInput, call: Call) -> StackCall:
        """The target behind its source, which is None if the state already holds it."""
        call = replace(call, prefix=None, documents=None)
        if source is None:
            return StackCall(target, call)
        auxiliary = call.auxiliary and call.auxiliary.after(source.length)
        call = replace(call, prefix=source.valid.sum(1), auxiliary=auxiliary)
        return StackCall(target.after(source), call, first=source.length)

    def _prompted(self, virtual_PD: Tensor, text: StackInput, call: Call) -> StackCall:
        """A text behind the virtual tokens, which the state holds after its first chunk."""
        if call.state is not None and call.state.slots.used:
            return StackCall(text, call)
        whole = text.after(StackInput(virtual_PD.to(text.x.dtype).expand(len(text.x), -1, -1)))
        return StackCall(whole, call.behind(len(virtual_PD)), first=len(virtual_PD))

    def _run(self, name: str, given: StackInput, call: Call, source: StackInput | None = None) -> Tensor:
        """Run the stack of this name; `source`: the input of its cross-attention, if not in the state."""
        order, auxiliary, choices = None, call.auxiliary, call.choices or self.noting
        joined = self.architecture.source == "prefix" or self.virtual_tokens is not None
        if given.padding is not None and (call.state is not None or joined):
            # A window has a fixed number of slots: padding must not come between the positions that follow.
            order = (~given.padding).byte().argsort(dim=1, stable=True)
            given, auxiliary = given.ordered(order), auxiliary and auxiliary.ordered(order)
            choices = choices and choices.ordered(order)
        seen = call if self._reads_prefix else replace(call, prefix=None)
        context = context_of(given, replace(seen, auxiliary=auxiliary, choices=choices), source, self.plan, self.images)
        context = context if self.asked is None else replace(context, opened=self._opened(name))
        x_BTD = given.x
        if torch.amp.is_autocast_available(x_BTD.device.type) and torch.is_autocast_enabled(x_BTD.device.type):
            # The residual stream has the type of the products: half the memory traffic of all operations between them.
            x_BTD = x_BTD.to(torch.get_autocast_dtype(x_BTD.device.type))
        if call.left is not None:
            context.leave(EMBEDDED, x_BTD)
            context.leave(CONTEXT, context)
        y_BTD: Tensor = getattr(self, name)(x_BTD, context, call.state.layers if call.state else None)
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
