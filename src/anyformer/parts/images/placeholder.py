"""The base of what stands among the tokens of a text, images and sound: features that replace the embeddings of a token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from anyformer.describe import InputError, UserError
from anyformer.operations import Shape, Tally
from anyformer.parts.layers.stack import Stack
from anyformer.parts.sketch import Drawn
from anyformer.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor

Price = Callable[[Stack, int, int, Shape, Plan], Tally]
"""`Stack.cost`, or `Stack.folded_cost`."""


class PlaceholderEncoder(Drawn):
    """The embedding of the k-th `token` in the rows of a batch is the k-th row of what the encoder makes of the call's inputs.

    They come in the order in which their tokens stand in the rows, one row after the other.
    """

    noun: ClassVar[str]
    """What it reads, in words: `images`, `sounds`."""
    kind: str
    token: Annotated[int, Field(ge=0)]
    """The token whose embedding is replaced; the table need not have a row for it."""

    @property
    def tokens(self) -> int:
        """The tokens of the text that one of its inputs takes, of the size that costs are given for."""
        raise NotImplementedError

    def check_tokens(self, sizes: Sequence[int], tokens_BT: Tensor) -> None:
        """Refuse inputs of so many tokens each where the text has another number of them; `InputError`."""
        found, needed = int((tokens_BT == self.token).sum()), sum(sizes)
        if found != needed:
            raise InputError(
                f"{len(sizes)} {self.noun} take {needed} tokens {self.token}, {each(sizes)}, and the text has {found}: write "
                f"as many of them for every one"
            )

    def check_length(self, count: int, length: int) -> None:
        """Refuse `count` inputs of one row that take more tokens than the row has; `UserError`."""
        if count * self.tokens > length:
            raise UserError(f"{count} {self.noun} take {count * self.tokens} tokens of a text, which has {length}")


def each(sizes: Sequence[int]) -> str:
    """The tokens of each input in words: `4 each`, or `4, 12`."""
    return f"{sizes[0]} each" if len(set(sizes)) == 1 else ", ".join(map(str, sizes))
