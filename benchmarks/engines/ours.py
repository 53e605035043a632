"""What this package computes of the same tokens: the side that engines are held to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

import anyformer as af
from anyformer.generation.decode import continuations
from anyformer.generation.sampling import GREEDY


@torch.inference_mode()
def greedy(model: af.Transformer, prompt: Sequence[int], count: int, start: int | None = None) -> list[int]:
    """The likeliest tokens one after the other, read with a cache, the prompt alone; an end of text does not end it.

    `start`: the first token of a decoder of which the prompt is the source.
    """
    steps = continuations(model, [list(prompt)], sampling=GREEDY, max_tokens=count, start=start)
    return [int(tokens_B[0]) for tokens_B in steps]


@torch.inference_mode()
def logits(model: af.Transformer, tokens: Sequence[int]) -> Tensor:
    """(T, V) in fp32, of the whole text read at once, without a cache."""
    read: Tensor = model(torch.tensor([list(tokens)]))[0].float()
    return read


@torch.inference_mode()
def decoded_logits(model: af.Transformer, source: Sequence[int], tokens: Sequence[int]) -> Tensor:
    """(T, V) in fp32 of a decoder's tokens, after its encoder read the source."""
    read: Tensor = model(torch.tensor([list(source)]), torch.tensor([list(tokens)]))[0].float()
    return read


def log_probabilities(model: af.Transformer, tokens: Sequence[int]) -> Tensor:
    """(T, V) of the token after every position."""
    return logits(model, tokens).log_softmax(-1)
