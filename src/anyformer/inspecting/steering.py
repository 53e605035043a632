"""Steering vectors: a direction of the stream, added while the model computes or generates."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.inspecting.call_inputs import CallInputs
from anyformer.inspecting.sweep import kept_values
from anyformer.inspecting.tables import table_of
from anyformer.model.transformer import Transformer
from anyformer.model.value_paths import named

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, eq=False)
class SteeringVector:
    """A direction (D,) of the value at `path`; `cosine`: how like it the differences of single prompts are, on average.

    `typical`: the mean length of the values at the path, beside which the length of the direction is read. Both are None of a
    direction of one's own, such as a feature of a sparse dictionary.
    """

    path: str
    direction_D: Tensor
    cosine: float | None = None
    typical: float | None = None

    def steering(
        self, model: Transformer, strength: float = 1.0, *, positions: Collection[int] | None = None
    ) -> AbstractContextManager[object]:
        """While it is open, `strength` times the direction is added at every position, or at `positions`, generating too.

        `positions`: columns of a call's tokens from 0, or from the end, -1 the last of the prompt. Calls of one position, such
        as steps of decoding, count on from the call before, so that what is generated has positions behind the prompt's. Raises
        `InputError` for what are no positions, and at the end for one that no call had.
        """
        if positions is None:
            return model.patch(self.path, partial(moved, direction_D=self.direction_D, strength=strength))
        return _steered(model, self.path, _Positions(_whole(positions), self.direction_D, strength))

    def table(self) -> Table:
        """Its length beside the values', and how far the prompts agree on it."""
        typical = "-" if self.typical is None else f"{self.typical:.4g}"
        cosine = "-" if self.cosine is None else f"{self.cosine:.3f}"
        rows = [(self.path, f"{float(self.direction_D.norm()):.4g}", typical, cosine)]
        return table_of("steering vector", ("path", "length", "length of values", "cosine with single pairs"), rows)


@dataclass
class _Positions:
    """Adds a direction at some positions of the calls of a block; `read`: the positions of the text that calls have read;
    `most`: those of the longest text."""

    positions: frozenset[int]
    direction_D: Tensor
    strength: float
    read: int = 0
    most: int = 0

    def __call__(self, value_BTD: Tensor) -> Tensor:
        T = value_BTD.shape[1]
        start = self.read if T == 1 else 0
        self.read = start + T
        self.most = max(self.most, self.read)
        if T > 1 and min(self.positions, default=0) < -T:
            raise InputError(
                f"steering at position {min(self.positions)}: the call has {T} positions, so give one of -{T} to -1"
            )
        from_end = {T + each for each in self.positions if each < 0 and not start}
        here = sorted({each - start for each in self.positions if start <= each < start + T} | from_end)
        result = value_BTD.clone()
        result[:, here] = moved(value_BTD[:, here], self.direction_D, self.strength)
        return result


def _whole(positions: Collection[int]) -> frozenset[int]:
    """The positions, where they are whole numbers."""
    try:
        return frozenset(map(operator.index, positions))
    except TypeError:
        raise InputError(
            f"positions = {positions!r}: several whole numbers, columns of a call from 0 or from the end: give positions=(2,) "
            "for the third, or (0, -1) for the first and the last"
        ) from None


@contextmanager
def _steered(model: Transformer, path: str, added: _Positions) -> Iterator[None]:
    """Adds at positions of the calls within, of which one must have each."""
    with model.patch(path, added):
        yield
    if added.most and max(added.positions, default=0) >= added.most:
        raise InputError(
            f"steering at position {max(added.positions)}: nothing was added there, since the texts read had {added.most} "
            f"positions: give one of {-added.most} to {added.most - 1}"
        )


def moved(value: Tensor, direction_D: Tensor, strength: float) -> Tensor:
    """(..., D) with the direction added."""
    return value + strength * direction_D.to(value)


def steering_vector(
    model: Transformer, path: str, towards: Tensor | CallInputs, away: Tensor | CallInputs, *, position: int | None = -1
) -> SteeringVector:
    """The mean value at `path` of the prompts `towards` less that of those `away` (Turner et al. 2023, arXiv 2308.10248; Rimsky
    et al. 2023, arXiv 2312.06681), at `position`, or with None over all positions.

    Rows may be as many as one likes on either side; where they are as many, they are pairs.
    """
    found = named(model.architecture, [path])
    if len(found) > 1:
        raise InputError(f"a steering vector is of one path, and {path!r} names {len(found)}: {found[0]}, {found[1]} ...")
    (path,) = found
    if model.watchable()[path].letters != "BTD":
        raise InputError(f"{path} is ({', '.join(model.watchable()[path].letters)}), and a direction is one of (B, T, D)")
    sides = []
    for given in (towards, away):
        value_BTD = kept_values(model, CallInputs.of(given), (path,))[0][path]
        sides.append(value_BTD.float().mean(1) if position is None else value_BTD[:, position].float())
    towards_BD, away_BD = sides
    direction_D = towards_BD.mean(0) - away_BD.mean(0)
    paired = len(towards_BD) == len(away_BD)
    apart_BD = towards_BD - away_BD if paired else towards_BD - away_BD.mean(0)
    cosine = torch.nn.functional.cosine_similarity(apart_BD, direction_D, -1).mean()
    return SteeringVector(path, direction_D, float(cosine), float(torch.cat(sides).norm(dim=-1).mean()))
