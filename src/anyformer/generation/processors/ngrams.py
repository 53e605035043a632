"""Runs of tokens that may not come a second time."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from anyformer.generation.prefixes import Prefixes
from anyformer.generation.processors.base import NEVER, Processor
from anyformer.generation.processors.penalties import source_of


class NoRepeatNGrams(Processor):
    """No run of `size` tokens stands twice in a text, its prompt included (transformers' NoRepeatNGramLogitsProcessor)."""

    size: Annotated[int, Field(ge=1)]

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        return _without(scores_BV, texts, texts.written, texts.lengths, self.size)


class EncoderNoRepeatNGrams(Processor):
    """No run of `size` tokens of the source stands in the text (transformers' EncoderNoRepeatNGramLogitsProcessor).

    A decoder's source is its prompt.
    """

    size: Annotated[int, Field(ge=1)]

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        source, _ = source_of(texts)
        spans = texts.prompts if texts.sources is None else texts.spans
        return _without(scores_BV, texts, source, spans, self.size)


def _without(scores_BV: Tensor, texts: Prefixes, held_BT: Tensor, lengths: list[int] | tuple[int, ...], size: int) -> Tensor:
    """The scores without tokens that would end a run of `size` tokens that `held_BT` has, as far as each row's length."""
    if held_BT.shape[1] < size:
        return scores_BV
    device, vocabulary = scores_BV.device, scores_BV.shape[-1]
    windows = held_BT.unfold(1, size, 1)
    stops = torch.arange(windows.shape[1], device=device) + size
    whole = stops <= torch.tensor(list(lengths), device=device)[:, None]
    # The last tokens of each row, which begin the run that the next one would end.
    own = torch.tensor(texts.lengths, device=device)[:, None]
    places = own - size + 1 + torch.arange(size - 1, device=device)
    last = texts.written.gather(1, places.clamp(min=0))
    alike = (windows[..., :-1] == last[:, None]).all(-1) & whole & (own >= size - 1)
    banned = torch.zeros(len(scores_BV), vocabulary + 1, dtype=torch.bool, device=device)
    banned.scatter_(1, torch.where(alike, windows[..., -1].clamp(max=vocabulary), vocabulary), True)
    return scores_BV.masked_fill(banned[:, :vocabulary], NEVER)
