"""Stand-in engines: one that is right, and copies of it with one mistake each in what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import torch
from benchmarks.engines.distorted import CHUNK
from torch import Tensor

import anyformer as af
from anyformer.conforming import Completion, CompletionRequest, CompletionServer, TokenLogProbs
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.resolving import architecture

WINDOW, TRAINED, LONGEST = 80, 140, 224
THETA = "decoder.global.attention.place.rotary.theta"
SIZE = "decoder.local.attention.mask.size"
SCALING = "decoder.global.attention.place.rotary.scaling"
YARN = {"kind": "yarn", "factor": 4.0, "trained": TRAINED}
BEGIN, END = 1, 2


def described(**changes: object) -> Architecture:
    """Gemma 2's mechanisms, small, with a global layer whose rotary positions are scaled."""
    sizes = {"embedding.vocab": 257, SIZE: WINDOW, SCALING: YARN, "head.tied": False}
    weights = {"initialisation.matrix.std": 0.4, "initialisation.embedding.std": 2.0}
    return architecture("gemma-2-2b", tiny=True, changes={**sizes, **weights, **changes})


def built(described: Architecture, weights: Transformer | None = None) -> Transformer:
    """A model of a description with random weights, or those of another one."""
    model = af.build(described, seed=3).eval()
    if weights is not None:
        model.load_state_dict(weights.state_dict())
    return model


class RightEngine(CompletionServer):
    """Every text read whole and alone. Mistakes are in what follows it."""

    called, model, longest = "a stand-in", "tiny", LONGEST

    def __init__(self, model: Transformer) -> None:
        self.net, self.vocabulary = model, model.architecture.outputs

    def ask_together(self, requests, top):
        return [self.ask(request, top) for request in requests]

    def ask(self, request: CompletionRequest, top: int) -> Completion:
        read = self.read(request)
        text, made = list(read), []
        for _ in range(request.count):
            logits = self.next(text, len(read), request)
            if request.forced is not None:
                logits = logits.clone()
                logits[request.forced] += 1e4
            made.append(self.shown(logits, int(logits.argmax()), request, top))
            text.append(made[-1].token)
            if text[-1] in self.ends():
                break
        prompt = ()
        if request.whole:
            logits = self.logits(read)
            prompt = tuple(self.shown(logits[n - 1], read[n], request, top) for n in range(1, len(read)))
        return Completion(tuple(made), prompt, len(read), text[-1] in self.ends())

    def read(self, request: CompletionRequest) -> list[int]:
        """The tokens of a request."""
        return list(request.tokens)

    def ends(self) -> tuple[int, ...]:
        return (END, END + 1)

    def logits(self, text: Sequence[int], positions: Tensor | None = None) -> Tensor:
        """(T, V) of a text."""
        return _logits(self.net, tuple(text), None if positions is None else tuple(positions.tolist()))

    def next(self, text: Sequence[int], prompt: int, request: CompletionRequest) -> Tensor:
        """(V,) after a text of which `prompt` tokens were read."""
        return self.logits(text)[-1]

    def shown(self, logits: Tensor, token: int, request: CompletionRequest, top: int) -> TokenLogProbs:
        logs = logits.float().log_softmax(-1)
        values, numbers = logs.topk(top)
        return TokenLogProbs(token, float(logs[token]), dict(zip(numbers.tolist(), values.tolist(), strict=True)))


class OtherModel(RightEngine):
    """The same weights in another description."""

    def __init__(self, model: Transformer, **changes: object) -> None:
        super().__init__(built(described(**changes), model))


class OtherNorm(RightEngine):
    """One norm's gain is 38 % off, as where an offset of 1 is forgotten."""

    def __init__(self, model: Transformer) -> None:
        super().__init__(built(model.architecture, model))
        name = next(name for name, _ in self.net.named_parameters() if "norm" in name)
        with torch.no_grad():
            self.net.get_parameter(name).add_(0.38)


class BeginTwice(RightEngine):
    """The token that begins texts is put before it where it stands already."""

    def read(self, request):
        return [BEGIN, *request.tokens] if request.text is not None else list(request.tokens)


class ShortScaling(RightEngine):
    """Beyond the original context rotary frequencies are not scaled."""

    def __init__(self, model: Transformer) -> None:
        super().__init__(model)
        self.other = built(described(**{SCALING: None}), model)

    def next(self, text, prompt, request):
        if len(text) <= TRAINED:
            return super().next(text, prompt, request)
        return _logits(self.other, tuple(text), None)[-1]


class NarrowCache(RightEngine):
    """Keys and values are kept in 8 bits, which tokens that are made read."""

    @torch.no_grad()
    def next(self, text, prompt, request):
        if len(text) == prompt:
            return super().next(text, prompt, request)
        state = self.net.state(1, len(text))
        self.net(torch.tensor([text[:-1]]), state=state)
        for held in (held for layer in state.layers for held in layer.values()):
            for value in vars(held).values():
                if isinstance(value, Tensor) and value.is_floating_point():
                    step = value.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127
                    value.copy_((value / step).round() * step)
        return self.net(torch.tensor([text[-1:]]), state=state)[0, -1]


class LateEnd(RightEngine):
    """Only the first of several end tokens ends a text."""

    def ends(self):
        return (END,)


class Rounded(RightEngine):
    """The right engine, in another arithmetic."""

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        super().__init__(built(model.architecture, model).to(dtype))


class Stateful(RightEngine):
    """A right engine with what engines have: prefill in chunks, a decode state, batches padded on the left."""

    @torch.no_grad()
    def ask_together(self, requests, top):
        rows = [list(request.tokens) for request in requests]
        width, count = max(map(len, rows)), max(request.count for request in requests)
        padding = torch.tensor([[place < width - len(row) for place in range(width)] for row in rows])
        tokens = torch.tensor([[0] * (width - len(row)) + row for row in rows])
        state = self.net.state(len(rows), width + count)
        made: list[list[TokenLogProbs]] = [[] for _ in rows]
        for at in range(0, width, CHUNK):
            part = slice(at, at + CHUNK)
            logits = self.net(tokens[:, part], state=state, padding=padding[:, part] if padding.any() else None)[:, -1]
        for _ in range(count):
            for row, request in enumerate(requests):
                made[row].append(self.shown(logits[row], int(logits[row].argmax()), request, top))
            logits = self.net(torch.tensor([[each[-1].token] for each in made]), state=state)[:, -1]
        alone = [self.ask(request, top) for request in requests]
        whole = [replace(one, made=tuple(each[: r.count])) for one, each, r in zip(alone, made, requests, strict=True)]
        return [one if r.forced is not None else new for one, new, r in zip(alone, whole, requests, strict=True)]


@cache
@torch.no_grad()
def _logits(net: Transformer, text: tuple[int, ...], positions: tuple[int, ...] | None) -> Tensor:
    """(T, V), once for all engines that have a model in common."""
    return net(torch.tensor([text]), positions=None if positions is None else torch.tensor([positions]))[0]
