"""What a model gives, by one pass over every text: without a cache, a batch or padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.conforming.request import Completion, CompletionRequest, TokenLogProbs
from anyformer.model.transformer import Transformer

TOP = 20
"""Likeliest tokens whose log-probabilities are kept and asked for: the most that vLLM gives by default."""
_SLICE = 64


@dataclass(frozen=True)
class Reference:
    """A model, and how many of the likeliest tokens are kept. `cache`: the type of keys and values in a decode state through
    which texts are read; None: they are read without one."""

    model: Transformer
    top: int = TOP
    cache: torch.dtype | None = None

    @torch.inference_mode()
    def continued(self, tokens: Sequence[int], count: int) -> tuple[int, ...]:
        """The `count` likeliest next tokens, one after another."""
        text = list(tokens)
        for _ in range(count):
            text.append(int(self.model.logits(self._features(text)[-1]).argmax()))
        return tuple(text[len(tokens) :])

    @torch.inference_mode()
    def completion(self, request: CompletionRequest, made: Sequence[int] | None = None) -> Completion:
        """The completion of a request; `made`: the tokens that were made of it, by default the likeliest.

        Also of a forced one: what its model gives without the force.
        """
        prompt = [*request.tokens, *(self.continued(request.tokens, request.read) if request.read else ())]
        text = [*prompt, *(self.continued(prompt, request.count) if made is None else made)]
        first = 1 if request.whole else len(prompt)
        features = self._features(text[:-1])[first - 1 :]
        slices = (features[at : at + _SLICE] for at in range(0, len(features), _SLICE))
        found = [each for part in slices for each in self._tops(self.model.logits(part).double().log_softmax(-1))]
        places = [
            TokenLogProbs(token, float(logs[token]), dict(zip(numbers.tolist(), values.tolist(), strict=True)))
            for token, (logs, values, numbers) in zip(text[first:], found, strict=True)
        ]
        behind = len(prompt) - first
        return Completion(tuple(places[behind:]), tuple(places[:behind]), read=len(prompt))

    def _tops(self, logs_TV: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        values, numbers = logs_TV.topk(min(self.top, logs_TV.shape[-1]), -1)
        return list(zip(logs_TV, values, numbers, strict=True))

    def _features(self, text: Sequence[int]) -> Tensor:
        """Features (T, D) of one text."""
        tokens_BT = torch.tensor([list(text)], device=self.model.device)
        if self.cache is None:
            return self.model.features(tokens_BT)[0]
        state = self.model.state(1, len(text), dtype=self.cache)
        return self.model.features(tokens_BT, state=state)[0]
