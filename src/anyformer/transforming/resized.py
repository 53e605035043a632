"""Changes of one size of a weight: heads of keys and values, a vocabulary, features of a network, a table of positions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.transforming.choices import TransformChoices
from anyformer.transforming.errors import TransformError
from anyformer.transforming.operation import Fresh, MadeWeight, judged, relative_error


@dataclass(frozen=True)
class Resized:
    """The size `old` of one factor of a weight becomes `new`; `where`: its place, for people."""

    where: str
    path: str
    """The name of the weight in the new model."""
    old: int
    new: int
    writes: bool
    """Whether the weight writes to the residual stream."""

    @property
    def grows(self) -> bool:
        return self.new > self.old


def regrouped(change: Resized, choices: TransformChoices) -> Pooled | Repeated:
    """The rule from K to K' key heads, one of which must divide the other."""
    if change.old % change.new == 0:
        return Pooled(change.old // change.new)
    if change.new % change.old == 0:
        return Repeated(change.new // change.old)
    raise TransformError(
        f"{change.where}: {change.old} -> {change.new} heads of keys and values: neither divides the other, so heads cannot be "
        f"averaged in equal groups or copied; take a divisor or a multiple of {change.old}"
    )


@dataclass(frozen=True)
class Pooled:
    """Each new head is the mean of `size` old ones that stand side by side (Ainslie et al. 2023, arXiv 2305.13245).

    Query head h reads key head h // (H / K), so that query heads stay with the group that holds their old key head. Exact where
    the heads of a group are equal; the error is that of every old head replaced by its group's mean.
    """

    size: int

    @property
    def words(self) -> str:
        return f"the mean of every {self.size} heads"

    def __call__(self, x: Tensor, dim: int, fresh: Fresh) -> MadeWeight:
        mean = x.double().unflatten(dim, (-1, self.size)).mean(dim + 1)  # type: ignore[no-untyped-call]
        return judged(mean.to(x.dtype), relative_error(mean.repeat_interleave(self.size, dim), x))


@dataclass(frozen=True)
class Repeated:
    """Every head `times` times: each query head finds the key head that it had, so nothing changes."""

    times: int

    @property
    def words(self) -> str:
        return f"every head {self.times} times"

    def __call__(self, x: Tensor, dim: int, fresh: Fresh) -> MadeWeight:
        return MadeWeight(x.repeat_interleave(self.times, dim), "copied")


def rewritten(change: Resized, choices: TransformChoices) -> VocabularyRows:
    """The rule from V to V' rows."""
    return VocabularyRows(change.old, change.new, change.path, choices.noise, choices.seed)


@dataclass(frozen=True)
class VocabularyRows:
    """The first min(V, V') rows as they are; each new row is the mean of all old ones, plus `noise` standard deviations.

    The logit of a row at the mean is the mean of the logits, so n such rows make the sum of exponentials larger by a factor of
    at most 1 + n / V, and the loss by its logarithm (Hewitt 2021, "Initializing new word embeddings for pretrained language
    models"). Logits of old tokens are the same numbers.
    """

    old: int
    new: int
    name: str
    noise: float
    seed: int

    @property
    def words(self) -> str:
        if self.new < self.old:
            return f"rows {self.new:,} to {self.old - 1:,} left out"
        noise = f" plus noise of {self.noise:g} of their standard deviation" if self.noise else ""
        return f"rows {self.old:,} to {self.new - 1:,} are the mean of the others{noise}"

    def __call__(self, x: Tensor, dim: int, fresh: Fresh) -> MadeWeight:
        if self.new <= self.old:
            return MadeWeight(x.narrow(dim, 0, self.new), "kept")
        rows = x.double()
        mean, spread = rows.mean(dim, keepdim=True), rows.std(dim, keepdim=True)
        count = self.new - self.old
        added = mean.repeat_interleave(count, dim)
        if self.noise:
            added = added + self.noise * spread * self._drawn(added)
        return MadeWeight(torch.cat([x, added.to(x.dtype)], dim), "kept")

    def _drawn(self, like: Tensor) -> Tensor:
        """Numbers of N(0, 1) that depend on the seed, the name and the shape alone."""
        key = hashlib.sha256(f"{self.seed}/{self.name}/{tuple(like.shape)}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(key[:8], "big") >> 1)
        return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like.device)


def widened(change: Resized, choices: TransformChoices) -> NewFeatures:
    """The rule from F to more features."""
    if not change.grows:
        raise TransformError(
            f"{change.where}: {change.old} -> {change.new} features of the network: none are taken away, since which "
            "ones matter depends on the data; keep the width, or make it larger"
        )
    return NewFeatures(change.old, change.new, change.writes)


@dataclass(frozen=True)
class NewFeatures:
    """New features, initialised by the description's rules, with no way out: their columns of the last projection are 0.

    The function stays the same, as in Net2Net (Chen et al. 2015, arXiv 1511.05641), whose new features are copies that share
    their way out; with zeros instead they need no noise to differ.
    """

    old: int
    new: int
    writes: bool

    @property
    def words(self) -> str:
        return f"features {self.old:,} to {self.new - 1:,} are {'0' if self.writes else 'new'}"

    def __call__(self, x: Tensor, dim: int, fresh: Fresh) -> MadeWeight:
        added = fresh().narrow(dim, self.old, self.new - self.old)
        return MadeWeight(torch.cat([x, (torch.zeros_like(added) if self.writes else added).to(x.dtype)], dim), "kept")


def stretched(change: Resized, choices: TransformChoices) -> FirstPositions | Tiled | Interpolated:
    """The rule from a table of `change.old` positions to one of `change.new`."""
    if not change.grows:
        return FirstPositions(change.old, change.new)
    return Tiled(change.old, change.new) if choices.positions == "copied" else Interpolated(change.old, change.new)


@dataclass(frozen=True)
class FirstPositions:
    """The first positions: texts that fit compute the same."""

    old: int
    new: int

    @property
    def words(self) -> str:
        return f"positions {self.new:,} to {self.old - 1:,} left out"

    def __call__(self, x: Tensor, dim: int, fresh: Fresh) -> MadeWeight:
        return MadeWeight(x.narrow(dim, 0, self.new), "kept")


@dataclass(frozen=True)
class Tiled:
    """The old table again and again (Beltagy et al. 2020, arXiv 2004.05150, section 5): the same up to the old length."""

    old: int
    new: int

    @property
    def words(self) -> str:
        return f"positions {self.old:,} to {self.new - 1:,} repeat those from 0 on"

    def __call__(self, x: Tensor, dim: int, fresh: Fresh) -> MadeWeight:
        return MadeWeight(x.index_select(dim, torch.arange(self.new, device=x.device) % self.old), "kept")


@dataclass(frozen=True)
class Interpolated:
    """The table stretched: position t of the new one lies at t * (old - 1) / (new - 1) of the old, between two rows.

    The interpolation of Dosovitskiy et al. 2020 (arXiv 2010.11929, section 3.2) along one line; the error is that of the first
    positions, which the old model knew.
    """

    old: int
    new: int

    @property
    def words(self) -> str:
        return f"{self.old:,} positions stretched to {self.new:,}"

    def __call__(self, x: Tensor, dim: int, fresh: Fresh) -> MadeWeight:
        place = torch.arange(self.new, dtype=torch.float64, device=x.device) * (self.old - 1) / (self.new - 1)
        low = place.floor().long().clamp(max=max(self.old - 2, 0))
        shape = [1] * x.dim()
        shape[dim] = self.new
        share = (place - low).view(shape)
        rows = x.double()
        high = (low + 1).clamp(max=self.old - 1)
        made = rows.index_select(dim, low) * (1 - share) + rows.index_select(dim, high) * share
        return judged(made.to(x.dtype), relative_error(made.narrow(dim, 0, self.old), x))
