"""Choosing the next token: the likeliest, or one drawn, from scores that small parts have changed one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated

import torch
from pydantic import Field, model_validator
from torch import Tensor

from anyformer.describe import Value
from anyformer.generation.prefixes import Prefixes
from anyformer.generation.processors import MinPWarper, Processor, TemperatureWarper, TopKWarper, TopPWarper, Warper, placed
from anyformer.generation.processors.base import NoChoiceError as NoChoiceError
from anyformer.generation.processors.kernels import bounded, drawn, drawn_numbers, likeliest, likeliest_numbers
from anyformer.parts.call.noise import Noise, bits, first_bits

SEVERAL = 4
"""The site of the draws of several tokens at once; 0 is that of one, and speculation has those between."""
Seed = Annotated[int, Field(ge=0)]


class Sampling(Value):
    """The choice of a token from logits. The draw is a pure function of (seed, row, index), so a text can be reproduced."""

    temperature: Annotated[float, Field(ge=0)] = 1.0
    """Divides the logits; 0 takes the likeliest token."""
    top_k: Annotated[int, Field(ge=1)] | None = None
    """Keep the k likeliest tokens."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Keep the likeliest tokens until their probabilities reach p (Holtzman et al. 2020, arXiv 1904.09751)."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Keep tokens at least min_p times as likely as the likeliest (arXiv 2407.01082)."""
    processors: tuple[Processor, ...] = ()
    """Whatever else changes the scores, in any order: it works in that of `processors.ORDER`."""
    seed: Seed | Annotated[tuple[Seed, ...], Field(min_length=1)] = 0
    """One for all rows, each of which has draws of its own; or one per row, which is then drawn as alone."""

    @model_validator(mode="after")
    def _each_once(self) -> Sampling:
        classes = [type(part) for part in (*self.processors, *self._everyday)]
        twice = [each.__name__ for number, each in enumerate(classes) if each in classes[:number]]
        if twice:
            raise ValueError(f"{twice[0]} is given twice, and would work twice: give it once")
        return self

    @property
    def greedy(self) -> bool:
        """Whether it takes the likeliest token."""
        return self.temperature == 0

    @property
    def _everyday(self) -> tuple[Warper, ...]:
        """The parts that have fields of their own, without those that change nothing."""
        parts = (
            None if self.temperature in (0, 1) else TemperatureWarper(value=self.temperature),
            None if self.top_k is None else TopKWarper(count=self.top_k),
            None if self.top_p in (None, 1) else TopPWarper(share=self.top_p),
            None if self.min_p is None else MinPWarper(share=self.min_p),
        )
        return tuple(part for part in parts if part is not None)

    @cached_property
    def parts(self) -> tuple[Processor, ...]:
        """All parts in the order in which they work; a greedy choice passes over what shapes draws alone."""
        every = (*self.processors, *self._everyday)
        return tuple(sorted((part for part in every if not (self.greedy and part.draws)), key=placed))

    @cached_property
    def reads(self) -> bool:
        """Whether a part depends on the text."""
        return any(part.reads for part in self.parts)

    @property
    def alone(self) -> Sampling:
        """This without the parts that depend on the text."""
        return self.but(processors=tuple(part for part in self.processors if not part.reads))

    def with_parts(self, *parts: Processor) -> Sampling:
        """This with some parts more, of which those of a class that it has already are left out."""
        own = {type(part) for part in self.processors}
        return self.but(processors=(*self.processors, *(part for part in parts if type(part) not in own)))

    def scores(self, scores_BV: Tensor, texts: Prefixes | None = None, index: int | Sequence[int] = 0) -> Tensor:
        """What all parts make of scores, in fp32; `texts` of the rows, which may be left out where no part `reads` them.

        Raises `NoChoiceError`, which names the token by `index`, where they leave none to choose.
        """
        scores = self._shaped(scores_BV, texts)
        if not bounded(scores):
            raise _unchoosable(scores, index)
        return scores

    def choose(self, logits_BV: Tensor, rows_B: Tensor, index: int | Sequence[int], texts: Prefixes | None = None) -> Tensor:
        """The token number `index` of each row, (B,), one for all or one for each; `rows_B`: the numbers of the rows."""
        if self.greedy:
            scores = self._shaped(logits_BV, texts)
            tokens_B, finite = likeliest(scores)
            if not finite:
                raise _unchoosable(scores, index)
            return tokens_B
        return self.draw(self.distribution(logits_BV, texts, index), self.uniform(rows_B, index))

    def choose_numbers(
        self, logits_BV: Tensor, rows_B: Tensor, index: int | Sequence[int], texts: Prefixes | None = None
    ) -> list[int]:
        """The same as plain numbers, by fewer calls."""
        if self.greedy:
            scores = self._shaped(logits_BV, texts)
            tokens, finite = likeliest_numbers(scores)
            if not finite:
                raise _unchoosable(scores, index)
            return tokens
        if logits_BV.is_cpu:
            return drawn_numbers(self.distribution(logits_BV, texts, index), self._uniform_numbers(rows_B, index, 0))
        chosen: list[int] = self.choose(logits_BV, rows_B, index, texts).tolist()
        return chosen

    def _shaped(self, scores_BV: Tensor, texts: Prefixes | None) -> Tensor:
        """Scores as all parts have changed them, whatever they hold."""
        assert texts is not None or not self.reads, "texts are kept where they are read"
        scores = scores_BV if scores_BV.dtype is torch.float32 else scores_BV.float()
        if self.parts:
            texts = texts or Prefixes.of([], scores_BV.device)
            for part in self.parts:
                scores = part.apply(scores, texts)
        return scores

    def draw(self, probability_BV: Tensor, uniform_B1: Tensor) -> Tensor:
        """The token that a number from 0 to 1 stands for in every distribution, which need not add up to 1: (B,)."""
        return drawn(probability_BV, uniform_B1)

    def draw_several(self, probability_BV: Tensor, rows_B: Tensor, index: int, count: int) -> Tensor:
        """`count` different tokens of each row, (B, count), drawn one after the other without replacement.

        By the greatest p^(1/u), which is the same (Efraimidis and Spirakis 2006): u from 0 to 1 per token.
        """
        uniform = self._noise(rows_B, index, SEVERAL, probability_BV.shape[-1])
        return (probability_BV.double().log() - torch.log(-uniform.clamp(1e-12, 1 - 1e-12).log())).topk(count).indices

    def uniform(self, rows_B: Tensor, index: int | Sequence[int], site: int = 0) -> Tensor:
        """Numbers from 0 to 1, (B, 1), by which the token number `index` of each row is drawn; other ones at another `site`."""
        if not rows_B.is_cpu:
            return self._noise(rows_B, index, site, 1)
        return torch.tensor(self._uniform_numbers(rows_B, index, site), dtype=torch.float64)[:, None]

    def _uniform_numbers(self, rows_B: Tensor, index: int | Sequence[int], site: int) -> list[float]:
        """They as plain numbers."""
        seeds, rows = self._seeds(rows_B)
        numbers = rows.tolist()
        indices = [index] * len(numbers) if isinstance(index, int) else index
        draws = zip(seeds, indices, numbers, strict=True)
        return [first_bits(seed, at, site, row) / 2**32 for seed, at, row in draws]

    def _noise(self, rows_B: Tensor, index: int | Sequence[int], site: int, count: int) -> Tensor:
        if isinstance(index, int) and isinstance(self.seed, int):
            noise = Noise.at(self.seed, index, rows_B)
        else:
            indices = [index] * len(rows_B) if isinstance(index, int) else index
            seeds, rows = self._seeds(rows_B)
            keys = [Noise.at(seed, each, rows).key for seed, each in zip(seeds, indices, strict=True)]
            noise = Noise(torch.stack(keys), rows)
        return bits(noise, site, torch.Size((len(rows_B), count))).double() / 2**32

    def _seeds(self, rows_B: Tensor) -> tuple[Sequence[int], Tensor]:
        """The seed of each row, and its number among the rows of that seed."""
        if isinstance(self.seed, int):
            return [self.seed] * len(rows_B), rows_B
        return [self.seed[row] for row in rows_B.tolist()], torch.zeros_like(rows_B)

    def distribution(self, logits_BV: Tensor, texts: Prefixes | None = None, index: int | Sequence[int] = 0) -> Tensor:
        """The probabilities of a draw, after all parts. fp32."""
        return self.scores(logits_BV, texts, index).softmax(-1)


def _unchoosable(scores_BV: Tensor, index: int | Sequence[int]) -> NoChoiceError:
    """The error of scores that no token can be chosen from. Minus infinity rules tokens out, and may not rule out all."""
    largest_B = scores_BV.amax(-1)  # NaN where any is
    row = int((~largest_B.isfinite()).int().argmax())
    token, value = index if isinstance(index, int) else index[row], float(largest_B[row])
    where = f"row {row}, token {token + 1}"
    if value == -torch.inf:
        return NoChoiceError(f"{where}: every token is ruled out, so none can be chosen: ban fewer, or cut less")
    return NoChoiceError(
        f"{where}: the model's scores hold {'an infinity' if value == torch.inf else 'NaN'}, so no token can be chosen. Its "
        "numbers left the range of their type: hold the weights in fp32 (--weights fp32, or dtype in Python), use a larger "
        "temperature if it is near 0, and see whether the model was trained to a finite loss"
    )


GREEDY = Sampling(temperature=0)
"""The likeliest token."""
