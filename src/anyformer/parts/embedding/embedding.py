"""Token embedding: a row of a table per token; and the base of every kind of input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field

from anyformer.describe import Count, InputError, Probability, Registry, Value
from anyformer.operations import Limit, Tally, Weight, total
from anyformer.parts.derived import WidthFactor, of_width
from anyformer.parts.embedding.narrow_table import NarrowTable
from anyformer.parts.sketch import Drawn, Sketch, number
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from anyformer.parts.embedding.embedding_module import EmbeddingModule, InputModule


class ImageCells(NamedTuple):
    """How an image becomes positions: `front` learned vectors, then row by row a position per square of `size` x `size` pixels
    of `channels` numbers."""

    size: int
    channels: int
    front: int

    @property
    def numbers(self) -> int:
        """Numbers of a square: channels * size^2."""
        return self.channels * self.size**2


class Input(Drawn):
    """A kind of input, and how it becomes positions of the residual stream."""

    kinds: ClassVar[Registry] = Registry()
    kind: str
    rank: ClassVar[int]
    """Dimensions of what it reads: 2 of tokens (B, T), 3 of vectors, 4 of images."""
    sound: ClassVar[Literal["frames", "samples"] | None] = None
    """What it reads of a sound: frames of a spectrum, or the samples themselves; None of anything else."""

    @property
    def symbols(self) -> int | None:
        """The number of different tokens; None for an input of real numbers."""
        return None

    @property
    def segments(self) -> int:
        """The number of kinds of segments that a call may tell apart; 0 without a table of them."""
        return 0

    @property
    def more_numbers(self) -> int:
        """Numbers of a token that a call may name behind the kind of its segment; 0 of tokens that have none."""
        return 0

    @property
    def stability(self) -> tuple[str, ...]:
        """Its techniques for stable training (`embedding scale`)."""
        return ()

    def columns(self, width: int) -> int:
        """Features of its table, which a tied head multiplies by."""
        return width

    def check(self, name: str, given: Tensor, padding: Tensor | None) -> int:
        """The number of positions that `given` becomes; `InputError` if it has the wrong shape or type."""
        raise NotImplementedError

    def padding(self, padding: Tensor | None) -> Tensor | None:
        """Padding of the positions (B, T), from the padding of the tokens, frames or patches."""
        return padding

    @property
    def cells(self) -> ImageCells | None:
        """How it cuts an image into squares; None of an input that cuts none."""
        return None

    @property
    def has_axes(self) -> bool:
        """Whether its positions have places on several axes, rather than their numbers."""
        return False

    def axes(self, given: Tensor) -> Tensor | None:
        """(n, 1, T): the positions of `given` on n axes, for rotary positions along axes; None where they are counted."""
        return None

    def build(self, width: int) -> InputModule:
        """The module."""
        raise NotImplementedError

    def built(self, width: int, plan: Plan, name: str) -> InputModule:
        """The module under a plan, which an input with layers of its own follows; `name`: its path in the model."""
        return self.build(width)

    def fitting(self, width: int) -> str:
        """What to do where it gives another number of features than the stream has, D = `width`."""
        return f"set width to {self.given(width)}"

    def given(self, width: int) -> int:
        """Features of the positions that it gives, D = `width` but for an encoder of a width of its own."""
        return width

    def cost(self, width: int, batch: int, length: int) -> Tally:
        """Its weights, and the work of embedding B rows of T positions."""
        raise NotImplementedError

    def priced(self, width: int, batch: int, length: int, plan: Plan, price: Any) -> Tally:
        """`cost` under a plan; `price`: how a stack is priced, `Stack.cost` or `Stack.folded_cost`."""
        return self.cost(width, batch, length)

    def resolved(self, width: int) -> Self:
        """A copy with a number for every factor that follows from the width."""
        return self

    def example(self, batch: int, length: int, device: torch.device | str = "cpu", seed: int = 0) -> Tensor:
        """A random input of B rows that becomes T positions, for measurements and trials."""
        raise NotImplementedError

    @property
    def longest(self) -> int | None:
        """The most positions that an encoder of its own has a table for; None without such a table."""
        return None

    def published(self, batch: int, longest: int, seed: int = 0) -> Tensor:
        """A random input as published models read it, of no more than `longest` positions: a square image."""
        return self.example(batch, longest, seed=seed)


class MaskedTokens(Value):
    """x = 0 where a token is masked, and (1 - share) / (1 - share of the row that is masked) * x elsewhere

    (Lin et al. 2022, ESM-2, doi 10.1126/science.ade2574: masks as an input dropout, rescaled by their share).
    """

    token: Annotated[int, Field(ge=0)]
    """The mask token."""
    share: Probability = 0.12
    """Share of tokens that were masks in training (ESM: 80 % of 15 %)."""

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts broken because a share of the whole row scales each token."""
        reason = "the share of a row's tokens that are masked scales all others"
        return (Limit("causal", reason), Limit("packed", reason))


class Embedding(Input):
    """x = scale * table[token] + types[type], table (V, D). A look-up costs no matrix product; a `narrow` table has one."""

    kind: Literal["tokens"] = "tokens"
    rank: ClassVar[int] = 2
    vocab: Count
    """V, rows of the table."""
    scale: WidthFactor = 1.0
    """Factor of every row (Gemma: `sqrt_width`, of the table's width)."""
    types: Annotated[int, Field(ge=0)] = 0
    """Rows of a second table, a row per kind of segment (BERT's token types); a call that names none takes row 0."""
    narrow: NarrowTable | None = None
    """A table narrower than what is embedded, with a projection."""
    masked: MaskedTokens | None = None
    """The rule for masked tokens (ESM-2); None: they are embedded as any other."""

    @property
    def segments(self) -> int:
        return self.types

    @property
    def stability(self) -> tuple[str, ...]:
        return ("embedding scale",) if self.scale != 1 else ()

    @property
    def symbols(self) -> int:
        return self.vocab

    def columns(self, width: int) -> int:
        return width if self.narrow is None else self.narrow.width

    def resolved(self, width: int) -> Self:
        return self.but(scale=of_width(self.scale, self.columns(width)))

    def sketch(self, width: int) -> Sketch:
        columns = self.columns(width)
        facts = {
            f"{self.vocab:,} × {number(columns)}": True,
            f"scaled by {number(of_width(self.scale, columns))}": self.scale != 1,
            f"{number(0 if self.narrow is None else self.narrow.inputs)} → {number(width)}": self.narrow is not None,
        }
        facts |= {f"+ {self.types} types": self.types > 0, "masked tokens are 0": self.masked is not None}
        return Sketch("Token embedding", tuple(fact for fact, holds in facts.items() if holds))

    def check(self, name: str, given: Tensor, padding: Tensor | None) -> int:
        from anyformer.parts.embedding.embedding_module import WHOLE

        if given.dim() != 2:
            raise InputError(f"{name} should have shape (B, T), got {tuple(given.shape)}")
        if given.dtype not in WHOLE:
            raise InputError(f"{name} should be whole numbers below {self.vocab} (torch.int64 or int32), got {given.dtype}")
        return given.shape[1]

    def build(self, width: int) -> EmbeddingModule:
        from anyformer.parts.embedding.embedding_module import EmbeddingModule

        return EmbeddingModule(self, width)

    def cost(self, width: int, batch: int, length: int) -> Tally:
        table = Weight((self.vocab, self.columns(width)), "column", "embedding", axes=((("vocab", self.vocab),), ()))
        weights = {"weight": table}
        if self.types:
            weights["types"] = Weight((self.types, width), "replicate", "embedding")
        inner = {} if self.narrow is None else {"narrow": self.narrow.cost(width, batch * length)}
        return Tally(weights, own_limits=self.masked.limits if self.masked else ()) + total(inner)

    def example(self, batch: int, length: int, device: torch.device | str = "cpu", seed: int = 0) -> Tensor:
        import torch

        generator = torch.Generator().manual_seed(seed)
        return torch.randint(0, self.vocab, (batch, length), generator=generator).to(device)


def has_numbers(x: Tensor) -> bool:
    """Whether the numbers of a tensor are there: not on the meta device, nor while memory is traced or a graph is compiled."""
    import torch

    return type(x) is torch.Tensor and not x.is_meta and not torch.compiler.is_compiling()


def readable(x: Tensor) -> bool:
    """Whether the numbers of a tensor are there, and are read without making a GPU wait in training."""
    import torch

    return has_numbers(x) and (x.device.type == "cpu" or not torch.is_grad_enabled())
