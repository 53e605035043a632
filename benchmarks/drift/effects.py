"""What a key moves in transformers where it moves no logit: training, the loss, first values, or what is given beside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import torch
from torch import Tensor, nn

from huggingface import parity
from huggingface.parity import Pair

WORDS: Mapping[str, str] = {
    "first values": "moves the weights that training begins from",
    "training": "moves what a model in training computes",
    "loss": "moves the loss",
    "outputs": "moves what is given beside the logits",
}
"""Effect -> what the table says of a key that has it."""


def first_values(model: nn.Module) -> tuple[float, ...]:
    """A sum of each weight, before random ones are written over it."""
    return tuple(float(each.detach().double().sum()) for each in model.parameters())


def effects(pair: Pair) -> dict[str, Any]:
    """What theirs computes in training and as a loss, and which outputs it gives."""
    answer = _answer(pair, _mask(pair))
    answer = _answer(pair, {}) if answer is None else answer
    found: dict[str, Any] = {"outputs": (_kinds(answer), _digests(answer))}
    labels = _labels(pair)
    if labels is not None:
        routed = {"output_router_logits": True} if getattr(pair.theirs.config, "output_router_logits", None) is False else {}
        answer = _answer(pair, {"labels": labels, **routed})
        found["loss"] = float(answer.loss) if getattr(answer, "loss", None) is not None else None
    pair.theirs.train()
    try:
        torch.manual_seed(0)
        found["training"] = _digest(_answer(pair, {}))
    finally:
        pair.theirs.eval()
    return found


def moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The first effect in which two differ, in the table's words; none: an empty text."""
    return next((words for name, words in WORDS.items() if before.get(name) != after.get(name)), "")


def _mask(pair: Pair) -> dict[str, Any]:
    """A mask without padding, by which some classes compute more, such as a mean."""
    x = parity.inputs(pair)[0]
    return {"attention_mask": torch.ones_like(x)} if x.dtype is torch.int64 and x.dim() == 2 else {}


def _labels(pair: Pair) -> Tensor | None:
    x = parity.inputs(pair)[-1]
    return x if x.dtype is torch.int64 and x.dim() == 2 and pair.case.task.endswith("LM") else None


@torch.no_grad()
def _answer(pair: Pair, more: Mapping[str, Any]) -> Any:
    """All that theirs answers to the tokens that are tried; nothing where it fails, and logits of a part within a composite."""
    x, kept, model = parity.inputs(pair), [], parity.text_model(pair.theirs)
    whole = isinstance(model, nn.Module)
    with _watched(model, more, kept) if whole else nullcontext(), suppress(Exception):
        kept.insert(0, parity.their_logits(pair, x[0], target=x[1] if len(x) > 1 else None))
    return kept[-1] if kept else None


@contextmanager
def _watched(model: nn.Module, more: Mapping[str, Any], kept: list[Any]) -> Iterator[None]:
    """Within, a call is given `more`, and what it answers is kept."""
    before = model.register_forward_pre_hook(lambda _, args, named: (args, {**named, **more}), with_kwargs=True)
    after = model.register_forward_hook(lambda _, args, answer: kept.append(answer))
    try:
        yield
    finally:
        before.remove()
        after.remove()


def _kinds(answer: Any) -> Any:
    """The names of outputs, or their number, and the number and shapes within."""
    if isinstance(answer, Tensor):
        return tuple(answer.shape)
    if isinstance(answer, Mapping):
        return {name: _kinds(each) for name, each in answer.items()}
    if isinstance(answer, tuple | list):
        return [_kinds(each) for each in answer]
    return type(answer).__name__


def _digest(answer: Any) -> float | None:
    """A number of the first tensor of numbers."""
    return next(iter(_digests(answer)), None)


def _digests(answer: Any) -> list[float]:
    """A number of each tensor of numbers."""
    if isinstance(answer, Tensor):
        return [float(answer.double().sum())] if answer.is_floating_point() else []
    values = answer.values() if isinstance(answer, Mapping) else answer if isinstance(answer, tuple | list) else ()
    return [number for each in values for number in _digests(each)]
