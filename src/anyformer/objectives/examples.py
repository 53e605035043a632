"""`Examples`: one batch as tensors, as an objective made it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor

from anyformer.data import IGNORED


@dataclass(frozen=True)
class Examples:
    """Inputs, targets, weights and masks of B samples.

    Every tensor has B rows, or a multiple of B where a sample takes several rows (a chosen and a rejected answer): rows of a
    sample stand together.

    `tokens` (B, T): the input, or of two inputs the source; an image or features where the architecture reads these.
    `targets`: (B, T) or (B,), `IGNORED` where there is nothing to predict. `rows` (B,): global sample numbers, the key of all
    that is random. `counts` (B,) float64: each sample's share of the number that the summed loss is divided by.
    `weights` (B, T): factors of the losses of targets. `documents`, `padding`, `decoder_tokens`, `decoder_padding`, `prefix`,
    `types`, `images` (one per row), `audio` (one sound per row), `audio_padding`, `times`, `classes`: arguments of the model's
    call. `facts` (B, ...): what metrics need to know besides, as its objective says.
    `taught` (B, T, k), or (B, k): log-probabilities of the tokens that a teacher finds likeliest, and `taught_tokens` which
    these are, where they are kept.
    Of tokens that the model in training sampled, (R, T) each: `sampled`, their log-probabilities then; `kept` (R, T, V / 8),
    the tokens that could be drawn, as bits; `advantages`; `reference`, log p of another model; `before`, log p of a forward
    pass before the first update on them; `values`, of the states before them; `chosen` (R, T, S), the experts of every position
    then (`ChoiceLayout`).
    """

    tokens: Tensor
    targets: Tensor
    documents: Tensor | None
    rows: Tensor
    decoder_tokens: Tensor | None = None
    padding: Tensor | None = None
    decoder_padding: Tensor | None = None
    prefix: Tensor | None = None
    types: Tensor | None = None
    weights: Tensor | None = None
    counts: Tensor | None = None
    facts: Tensor | None = None
    taught: Tensor | None = None
    taught_tokens: Tensor | None = None
    images: Tensor | None = None
    times: Tensor | None = None
    classes: Tensor | None = None
    audio: Tensor | None = None
    audio_padding: Tensor | None = None
    sampled: Tensor | None = None
    kept: Tensor | None = None
    advantages: Tensor | None = None
    reference: Tensor | None = None
    before: Tensor | None = None
    values: Tensor | None = None
    chosen: Tensor | None = None

    @property
    def count(self) -> float:
        """The number that the summed loss is divided by: by default that of targets."""
        if self.counts is None:
            return int((self.targets != IGNORED).sum())
        return float(self.counts.sum())

    @property
    def digest(self) -> str:
        """Twelve digits of a hash of all fields: other examples, or the same in another order, have others."""
        found = hashlib.blake2b(digest_size=6)
        for number, tensor in enumerate(self.tensors()):
            if tensor is not None:
                found.update(f"{number} {tuple(tensor.shape)}".encode())
                found.update(tensor.cpu().contiguous().numpy().data)
        return found.hexdigest()

    def slice(self, start: int, stop: int) -> Self:
        """Samples start ... stop - 1, for instance one micro-batch."""
        samples = len(self.rows)

        def cut(tensor: Tensor) -> Tensor:
            each = len(tensor) // samples
            return tensor[start * each : stop * each]

        return self._each(cut)

    def to(self, device: torch.device) -> Self:
        """The same examples on another device."""
        return self._each(lambda tensor: tensor.to(device))

    @classmethod
    def joined(cls, parts: Sequence[Self], order: Tensor) -> Self:
        """The samples of all parts as one batch: sample number i is number `order[i]` of the parts one after the other."""

        def one(*tensors: Tensor | None) -> Tensor | None:
            found = [tensor for tensor in tensors if tensor is not None]
            if not found:
                return None
            assert len(found) == len(parts), "parts of one kind have the same fields"
            samples = [tensor.reshape(len(part.rows), -1, *tensor.shape[1:]) for tensor, part in zip(found, parts, strict=True)]
            return torch.cat(samples)[order].flatten(0, 1)

        return cls.of([one(*tensors) for tensors in zip(*(part.tensors() for part in parts), strict=True)])

    @classmethod
    def of(cls, tensors: Sequence[Tensor | None]) -> Self:
        """The examples whose `tensors()` these are."""
        return cls(*tensors)  # type: ignore[arg-type]

    def tensors(self) -> tuple[Tensor | None, ...]:
        """All fields in order, as a compiled function takes them."""
        return tuple(getattr(self, each.name) for each in fields(self))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return self.of([None if tensor is None else change(tensor) for tensor in self.tensors()])
