"""Noise by a counter hash, and dropout: each mask bit is a pure function of (seed, step, site, global row, element).

Plain integer tensor operations give the same bits eager, compiled, recomputed under checkpointing, and split over
micro-batches or ranks, and resuming needs no generator state.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

import torch
from torch import Tensor, nn

_LOW32 = 0xFFFFFFFF
Integers = TypeVar("Integers", Tensor, int)


@dataclass(frozen=True)
class Span:
    """The positions of a row that a process has: the number of each, (T,) int64, of `length` in all."""

    numbers: Tensor
    length: int


@dataclass(frozen=True)
class Noise:
    """The counters of a step's random numbers: `key`, a 0-d int64 from (seed, step); `rows`, (B,) int64, sample numbers.

    `span`: of tensors whose positions several processes divide, those of this one; None where it has all.
    """

    key: Tensor
    rows: Tensor
    span: Span | None = None

    @staticmethod
    def at(seed: int, step: int, rows: Tensor) -> Noise:
        """Noise of one training step."""
        return Noise(torch.full((), step_key(seed, step), dtype=torch.int64, device=rows.device), rows)

    @staticmethod
    def fresh(batch: int, device: torch.device) -> Noise:
        """Noise from torch's own generator, for a call without counters."""
        return Noise(torch.randint(0, _LOW32, (), device=device), torch.arange(batch, device=device))

    def other(self, number: int) -> Noise:
        """Noise of the same step that is independent per `number`."""
        return Noise(mix(self.key ^ (number + 1)), self.rows, self.span)

    def of_each(self, count: int) -> Noise:
        """Noise of samples that take `count` rows, which stand together; another in every row."""
        if count == 1:
            return self
        numbers = self.rows[:, None] * count + torch.arange(count, device=self.rows.device)
        return Noise(self.key, numbers.flatten())


def mix(x: Integers) -> Integers:
    """A bijection of 32-bit integers (held in int64, or plain ones) whose output bits each depend on all input bits.

    Both multipliers are below 2^31, so that no product leaves int64.
    """
    x = x ^ (x >> 16)
    # In place, which halves the memory that a large draw takes.
    x *= 0x21F0AAAD
    x &= _LOW32
    x ^= x >> 15
    x *= 0x735A2D97
    x &= _LOW32
    x ^= x >> 15
    return x


def step_key(seed: int, step: int) -> int:
    """The key of a step."""
    return zlib.crc32(f"{seed}/{step}".encode())


def first_bits(seed: int, step: int, site: int, row: int) -> int:
    """What `bits` gives for the first element of one row, without tensors, whose calls take longer than the number."""
    return mix(mix(0) ^ mix(mix(row & _LOW32) ^ mix(step_key(seed, step) ^ site)))


@dataclass(frozen=True)
class TensorPart:
    """One of `count` equal parts of a tensor along a dimension, where processes divide it; the first is number 0."""

    dimension: int
    number: int
    count: int


def bits(noise: Noise, site: int, shape: torch.Size, part: TensorPart | None = None, along: int | None = 1) -> Tensor:
    """Uniform 32-bit integers of `shape` (B, ...), each row keyed by its global number; a part has those of the whole.

    `along`: the dimension of positions, None in a tensor without any.
    """
    if part is None and (noise.span is None or along is None):
        elements = torch.arange(prod(shape[1:]), device=noise.rows.device, dtype=torch.int64)
        return bits_of(noise, site, elements).view(shape)
    found = torch.zeros((), device=noise.rows.device, dtype=torch.int64)
    for dimension, size in enumerate(shape[1:], 1):
        whole, own = size, torch.arange(size, device=noise.rows.device)
        if part is not None and dimension == part.dimension:
            whole, own = size * part.count, own + part.number * size
        if noise.span is not None and dimension == along:
            # Of positions that are divided twice, the last part may have padding behind the last of them.
            whole, own = noise.span.length, noise.span.numbers[own.clamp(max=len(noise.span.numbers) - 1)]
        found = found[..., None] * whole + own
    return bits_of(noise, site, found)


def bits_of(noise: Noise, site: int, elements: Tensor) -> Tensor:
    """Uniform 32-bit integers (B, ...) of some elements of every row, given by their numbers (...) int64."""
    row_key = mix(mix(noise.rows & _LOW32) ^ mix(noise.key ^ site))
    return mix(mix(elements)[None] ^ row_key.view(-1, *[1] * elements.dim()))


def uniform(noise: Noise, site: int, shape: torch.Size) -> Tensor:
    """Numbers in (0, 1) in fp32; of 23 bits, so that none is rounded to 0 or 1."""
    return ((bits(noise, site, shape) >> 9).float() + 0.5) * 2.0**-23


def normal(noise: Noise, site: int, shape: torch.Size) -> Tensor:
    """Numbers of the standard normal distribution in fp32, of the bits of `site` and of the one after it.

    sqrt(-2 ln u) cos(2 pi w) of two uniform numbers (Box & Muller 1958, doi 10.1214/aoms/1177706645); none is beyond 5.8.
    """
    radius = (-2 * uniform(noise, site, shape).double().log()).sqrt()
    return (radius * (2 * math.pi * uniform(noise, site + 1, shape).double()).cos()).float()


def keep_factors(bits: Tensor, rate: float) -> Tensor:
    """Dropout as a factor of each element: 0 with probability `rate`, else 1 / (1 - rate)."""
    return (bits >= int(rate * 2**32)) * (1 / (1 - rate))


@dataclass(frozen=True)
class Drop:
    """Dropout of one site in one call: the source of its bits, its rate, and the part of the tensor that this process has.

    `along`: the dimension of positions, None in a tensor without any.
    """

    noise: Noise
    site: int
    rate: float
    part: TensorPart | None = None
    along: int | None = 1

    def __call__(self, x: Tensor, drawn: torch.Size | None = None) -> Tensor:
        """x (B, ...) with some elements zero and the rest scaled up; `drawn`: the shape of the draws, by default that of x."""
        found = bits(self.noise, self.site, drawn or x.shape, self.part, self.along)
        return x * keep_factors(found, self.rate).to(x.dtype)


class DrawsNoise(nn.Module):
    """A module that may draw noise in training; `draws` says whether this one does."""

    draws: bool = False


class Dropout(DrawsNoise):
    """Zero each element with probability `rate` and scale the rest by 1 / (1 - rate), while training (Srivastava et al. 2014).

    `name` is the site: the module's path in the model, so that no two sites share bits.
    """

    part: TensorPart | None = None
    """The part of its input that this process has, where several divide it."""

    def __init__(self, rate: float, name: str, dimension: int = 1, along: int | None = 1) -> None:
        """`dimension`: that of its input which processes divide, if they do: heads, features, or positions of the stream.
        `along`: that of positions, None without any."""
        super().__init__()
        self.rate, self.site, self.dimension, self.along = rate, zlib.crc32(name.encode()), dimension, along
        self.draws = rate > 0

    def extra_repr(self) -> str:
        return f"rate={self.rate}"

    def forward(self, x: Tensor, noise: Noise | None) -> Tensor:
        drop = self.drop(noise)
        return x if drop is None else drop(x, self.drawn(x))

    def divide(self, number: int, count: int) -> None:
        """Draw for part `number` of `count` of the input."""
        self.part = TensorPart(self.dimension, number, count)

    def drop(self, noise: Noise | None) -> Drop | None:
        """The dropout of a call with this noise; None where nothing is dropped."""
        if not self.training or self.rate == 0:
            return None
        assert noise is not None, "the model draws noise whenever it trains with dropout"
        return Drop(noise, self.site, self.rate, self.part, self.along)

    def drawn(self, x: Tensor) -> torch.Size:
        """The shape of the draws: one per element."""
        return x.shape


class TakesNoise:
    """The base of modules that are called with their input alone: the model gives them the noise of each call."""

    noise: Noise | None = None


class InputDropout(Dropout, TakesNoise):
    """Dropout of the input of a map that is called with its input alone: the model gives it the noise of each call.

    Inputs (B, ..., I), or (N, I) with the N / B vectors of each row side by side.
    """

    vectors: int | None = None
    """The number of the part of each row's vectors that this process has, where several divide them equally."""

    def __init__(self, rate: float, name: str) -> None:
        super().__init__(rate, name, dimension=2)

    def forward(self, x: Tensor, noise: Noise | None = None) -> Tensor:
        drop = self.drop(self.noise)
        if drop is None:
            return x
        vectors_BMI = x.reshape(len(drop.noise.rows), -1, x.shape[-1])
        if self.vectors is not None:
            M = vectors_BMI.shape[1]
            numbers = torch.arange(self.vectors * M, (self.vectors + 1) * M, device=x.device)
            drop = replace(drop, noise=replace(drop.noise, span=Span(numbers, M)))
        return drop(vectors_BMI).view(x.shape)


class DropPath(Dropout):
    """Zero a whole row's branch with probability `rate` (stochastic depth, Huang et al. 2016, arXiv 1603.09382)."""

    def __init__(self, rate: float, name: str) -> None:
        super().__init__(rate, name, along=None)

    def divide(self, number: int, count: int) -> None:
        """Rows are not divided."""

    def drawn(self, x: Tensor) -> torch.Size:
        """One per row."""
        return torch.Size((len(x), *([1] * (x.dim() - 1))))
