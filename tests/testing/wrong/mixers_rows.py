"""Mixers that take rows, chunks or processes for what they are not."""

from __future__ import annotations

from typing import Literal, Self

import torch
from tests.testing.wrong.fading import FadingModule, FadingState, FadingSum
from tests.testing.wrong.mixers import MIXERS
from torch import Tensor

from anyformer.parts.call.context import Context

PADDING = (
    "padded_row_equals_the_row_alone",
    "left_padding_goes_with_a_state",
    "right_padding_goes_with_a_state",
    "later_padding_is_taken_or_refused",
)
READ_IN_PIECES = (
    "any_chunk_equals_the_default_chunk",
    "cached_and_chunked_equal_the_whole",
    "left_padding_goes_with_a_state",
    "right_padding_goes_with_a_state",
    "later_padding_is_taken_or_refused",
    "forked_state_continues_like_its_row",
)


@MIXERS.breaks(
    "no_token_sees_a_later_one",
    "packed_documents_equal_each_alone",
    "sublayer_equals_its_twin",
    *(name for name in READ_IN_PIECES if name != "forked_state_continues_like_its_row"),
    because="what comes later is there in a whole row, and is not in a piece, nor in a row alone",
)
class LooksAhead(FadingSum):
    """Each position sees the last sum."""

    kind: Literal["looks_ahead"] = "looks_ahead"

    class Module(FadingModule):
        def summed(self, sums: Tensor) -> Tensor:
            return sums + sums[:, -1:]


@MIXERS.breaks("any_chunk_equals_the_default_chunk")
class OfItsChunk(FadingSum):
    """Its output depends on the number of positions that it computes at a time."""

    kind: Literal["of_its_chunk"] = "of_its_chunk"

    class Module(FadingModule):
        def summed(self, sums: Tensor) -> Tensor:
            return sums * (1.1 if self.plan.chunk < 11 else 1)


@MIXERS.breaks(
    "any_chunk_equals_the_default_chunk",
    "packed_documents_equal_each_alone",
    because="documents before it move the ends of a document's chunks",
)
class ForgetsBetweenChunks(FadingSum):
    """Every chunk begins with half of the sum."""

    kind: Literal["forgets_between_chunks"] = "forgets_between_chunks"

    class Module(FadingModule):
        def chunk(self, value, total, valid, begins, start):  # type: ignore[no-untyped-def]
            return super().chunk(value, total / 2 if start else total, valid, begins, start)


@MIXERS.breaks(*PADDING, because="every way of padding asks for it")
class TakesPadding(FadingSum):
    """Adds up padding like tokens."""

    kind: Literal["takes_padding"] = "takes_padding"

    class Module(FadingModule):
        def valid(self, context: Context, state: FadingState | None) -> Tensor | None:
            return None


@MIXERS.breaks("padded_row_equals_the_row_alone")
class TakesPaddingInTraining(FadingSum):
    """Knows of padding only if it has a state."""

    kind: Literal["takes_padding_in_training"] = "takes_padding_in_training"

    class Module(FadingModule):
        def valid(self, context: Context, state: FadingState | None) -> Tensor | None:
            return None if state is None else context.valid


@MIXERS.breaks("padded_row_equals_the_row_alone")
class TakesPaddingInLaterChunks(FadingSum):
    """Knows of padding in its first chunk alone."""

    kind: Literal["takes_padding_in_later_chunks"] = "takes_padding_in_later_chunks"

    class Module(FadingModule):
        def chunk(self, value, total, valid, begins, start):  # type: ignore[no-untyped-def]
            return super().chunk(value, total, None if start else valid, begins, start)


@MIXERS.breaks("left_padding_goes_with_a_state")
class PaddedAlike(FadingSum):
    """Passes over padding, with a state, only if some row has none."""

    kind: Literal["padded_alike"] = "padded_alike"

    class Module(FadingModule):
        def valid(self, context: Context, state: FadingState | None) -> Tensor | None:
            valid = context.valid
            return valid if valid is None or state is None or valid.all(1).any() else None


@MIXERS.breaks("right_padding_goes_with_a_state")
class AsLongAsTheOthers(FadingSum):
    """Takes the padding of a short row in a first piece for tokens, up to the length of the longest."""

    kind: Literal["as_long_as_the_others"] = "as_long_as_the_others"

    class Module(FadingModule):
        def valid(self, context: Context, state: FadingState | None) -> Tensor | None:
            valid = context.valid
            if valid is None or state is None or state.begun:
                return valid
            return valid.any(0, keepdim=True).expand(valid.shape)


@MIXERS.breaks("later_padding_is_taken_or_refused")
class PadsTheFirstPiece(FadingSum):
    """Takes padding for tokens in all pieces but the first."""

    kind: Literal["pads_the_first_piece"] = "pads_the_first_piece"

    class Module(FadingModule):
        def valid(self, context: Context, state: FadingState | None) -> Tensor | None:
            return None if state is not None and state.begun else context.valid


@MIXERS.breaks("packed_documents_equal_each_alone")
class JoinsDocuments(FadingSum):
    """A document goes on with the sum of the one before."""

    kind: Literal["joins_documents"] = "joins_documents"

    class Module(FadingModule):
        def begins(self, context: Context) -> Tensor | None:
            return None


@MIXERS.breaks("packed_documents_equal_each_alone")
class JoinsDocumentsBetweenChunks(FadingSum):
    """Looks for the ends of documents within a chunk."""

    kind: Literal["joins_documents_between_chunks"] = "joins_documents_between_chunks"

    class Module(FadingModule):
        def chunk(self, value, total, valid, begins, start):  # type: ignore[no-untyped-def]
            if begins is not None:
                begins = begins & (torch.arange(begins.shape[1]) != start)
            return super().chunk(value, total, valid, begins, start)


@MIXERS.breaks("parts_of_sublayers_add_up")
class KeepsLessInParts(FadingSum):
    """Each of several processes computes with another number."""

    kind: Literal["keeps_less_in_parts"] = "keeps_less_in_parts"

    def narrowed(self, width: int, ways: int) -> Self | None:
        return self.but(features=self.features // ways, keep=self.keep / 2)


@MIXERS.breaks(
    "parts_of_sublayers_add_up",
    "weights_are_cut_as_their_roles_say",
    because="a weight that nothing cuts has no dimension that its role could say",
)
class DividesNothing(FadingSum):
    """Says that processes divide it, and each computes all of it."""

    kind: Literal["divides_nothing"] = "divides_nothing"

    def narrowed(self, width: int, ways: int) -> Self | None:
        return self


@MIXERS.breaks("parts_of_sublayers_add_up")
class GrowsInParts(FadingSum):
    """Says that each of several processes has as many times the numbers, in the place of a share of them."""

    kind: Literal["grows_in_parts"] = "grows_in_parts"

    def narrowed(self, width: int, ways: int) -> Self | None:
        return self.but(features=self.features * ways)


@MIXERS.breaks("parts_of_sublayers_add_up")
class KeepsTooMuchInParts(FadingSum):
    """Says that a process has more than its share."""

    kind: Literal["keeps_too_much_in_parts"] = "keeps_too_much_in_parts"

    def narrowed(self, width: int, ways: int) -> Self | None:
        return self.but(features=self.features - 1)
