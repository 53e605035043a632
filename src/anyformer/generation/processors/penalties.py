"""Penalties on tokens that a text has, or rewards for those that its source has."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from anyformer.generation.prefixes import Prefixes
from anyformer.generation.processors.base import Processor, seen


class RepetitionPenalty(Processor):
    """Divides the scores above 0 of tokens that stand in the prompt or behind it, and multiplies those below 0.

    Keskar et al. 2019 (CTRL, arXiv 1909.05858), as transformers' RepetitionPenaltyLogitsProcessor.
    """

    penalty: Annotated[float, Field(gt=0)]
    """Above 1 repeats less, below 1 more."""

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        repeated = seen(texts.written, texts.present, scores_BV.shape[-1]) > 0
        return torch.where(repeated, _weaker(scores_BV, self.penalty), scores_BV)


class EncoderRepetitionPenalty(Processor):
    """The reverse for tokens of the source: above 1 they become likelier (EncoderRepetitionPenaltyLogitsProcessor).

    A decoder's source is its prompt.
    """

    penalty: Annotated[float, Field(gt=0)]

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        source, read = source_of(texts)
        return torch.where(seen(source, read, scores_BV.shape[-1]) > 0, _weaker(scores_BV, 1 / self.penalty), scores_BV)


class FrequencyPenalty(Processor):
    """Takes `penalty` times the number of times that a token was made from its score; the prompt does not count.

    The formula of OpenAI's interface, as vLLM computes it.
    """

    penalty: float
    """Above 0 repeats less, below 0 more."""

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        return scores_BV - self.penalty * seen(texts.written, texts.new, scores_BV.shape[-1])


class PresencePenalty(Processor):
    """Takes `penalty` from the score of every token that was made before; the prompt does not count.

    The formula of OpenAI's interface, as vLLM computes it.
    """

    penalty: float
    """Above 0 repeats less, below 0 more."""

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        return scores_BV - self.penalty * (seen(texts.written, texts.new, scores_BV.shape[-1]) > 0)


def source_of(texts: Prefixes) -> tuple[Tensor, Tensor]:
    """What a text is made from, (B, S), and which of its places count: the source, or a decoder's prompt."""
    if texts.sources is not None and (read := texts.read) is not None:
        return texts.sources, read
    return texts.written, texts.present & ~texts.new


def _weaker(scores_BV: Tensor, factor: float) -> Tensor:
    return torch.where(scores_BV < 0, scores_BV * factor, scores_BV / factor)
