"""Mixers whose state goes wrong, each in one respect; and models of two inputs that read theirs wrongly."""

from __future__ import annotations

from typing import Literal

import torch
from tests.testing.wrong.fading import FadingModule, FadingState, FadingSum
from tests.testing.wrong.mixers import MIXERS
from tests.testing.wrong.mixers_rows import READ_IN_PIECES
from torch import Tensor

from anyformer.model import Architecture, encoder_decoder
from anyformer.parts import (
    Attention,
    Bidirectional,
    Causal,
    CrossAttention,
    Embedding,
    FeedForward,
    Prefix,
    RMSNorm,
    pre_norm,
    stack,
)
from anyformer.parts.call.context import Context
from anyformer.parts.sublayer import Sublayer
from anyformer.testing.around import LOUD, VOCAB, WIDTH, decoder_of


@MIXERS.breaks(*READ_IN_PIECES, because="nothing that is read in pieces goes on")
class ForgetsState(FadingSum):
    """Leaves its state as it was."""

    kind: Literal["forgets_state"] = "forgets_state"

    class Module(FadingModule):
        def write(self, state: FadingState, total: Tensor, length: int) -> None:
            pass


@MIXERS.breaks("cached_and_chunked_equal_the_whole")
class ForgetsFirstToken(FadingSum):
    """Does not keep a first piece of one token."""

    kind: Literal["forgets_first_token"] = "forgets_first_token"

    class Module(FadingModule):
        def write(self, state: FadingState, total: Tensor, length: int) -> None:
            if length > 1 or state.begun:
                super().write(state, total, length)


@MIXERS.breaks("any_chunk_equals_the_default_chunk")
class KeepsFirstChunk(FadingSum):
    """Keeps the sum after the first chunk of a piece, and not after the last."""

    kind: Literal["keeps_first_chunk"] = "keeps_first_chunk"

    class Module(FadingModule):
        def chunk(self, value, total, valid, begins, start):  # type: ignore[no-untyped-def]
            found, total = super().chunk(value, total, valid, begins, start)
            self.first = self.first if start else total
            return found, total

        def write(self, state: FadingState, total: Tensor, length: int) -> None:
            super().write(state, self.first, length)


class UnorderedState(FadingState):
    """Copies its rows in their order, whichever are asked for."""

    def fork(self, rows: Tensor) -> FadingState:
        return UnorderedState(self.sums[torch.arange(len(rows)) % len(self.sums)].clone())


@MIXERS.breaks("forked_state_continues_like_its_row")
class ForksInOrder(FadingSum):
    """Has a state that takes no notice of the rows to copy."""

    kind: Literal["forks_in_order"] = "forks_in_order"

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> UnorderedState:
        return UnorderedState(torch.zeros(batch, self.features, device=device))


def pair(encodes: Sublayer, decodes: Sublayer) -> Architecture:
    """An encoder and a decoder of one layer each."""
    norm, feed = RMSNorm(), FeedForward(width=8)
    return encoder_decoder(
        Embedding(vocab=VOCAB), WIDTH, stack([pre_norm(norm, encodes, feed)]),
        stack([pre_norm(norm, decodes, CrossAttention(heads=4), feed)]), initialisation=LOUD,
    )  # fmt: skip


BOTH = Attention(heads=4, mask=Bidirectional())


@MIXERS.breaks("padded_source_equals_the_source_alone", of=lambda made: pair(made(), Attention(heads=4)))
class TakesPaddingOfSource(FadingSum):
    """Adds up padding like tokens; alone it breaks more, and in an encoder behind which a decoder reads this."""

    kind: Literal["takes_padding_of_source"] = "takes_padding_of_source"

    class Module(FadingModule):
        def valid(self, context: Context, state: FadingState | None) -> Tensor | None:
            return None


@MIXERS.breaks("cached_target_equals_the_whole", of=lambda made: pair(BOTH, made()))
class ForgetsTarget(FadingSum):
    """Leaves its state as it was, in the decoder of a pair, which is read in pieces by one contract alone."""

    kind: Literal["forgets_target"] = "forgets_target"

    class Module(FadingModule):
        def write(self, state: FadingState, total: Tensor, length: int) -> None:
            pass


@MIXERS.breaks("prefix_must_come_in_one_piece", of=lambda made: decoder_of(Attention(heads=4, mask=Causal() | made())))
class BlindPrefix(Prefix):
    """A prefix that no query sees."""

    kind: Literal["blind_prefix"] = "blind_prefix"

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return super().allowed(query, key, 0)


@MIXERS.breaks("positions_of_sublayers_are_those_of_the_row", of=lambda made: decoder_of(made(width=8)))
class GathersMore(FeedForward):
    """Says that it needs a number of every position, and asks for none."""

    kind: Literal["gathers_more"] = "gathers_more"

    def gathers(self, width: int) -> int | None:
        return 1
