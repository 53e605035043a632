"""Graphs with a cache: keys and values of earlier positions enter, and leave with those of this call behind them.

One graph serves the prompt, of any length and without a past, and every step after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from anyformer.exporting.graph import Graph
from anyformer.exporting.growing import GrowingSlots, GrowingSource, GrowingState
from anyformer.exporting.port import BATCH, LENGTH, PAST, PAST_SOURCE, SOURCE, TOTAL, Port
from anyformer.model.inputs import Call, StackInput
from anyformer.model.transformer import Transformer
from anyformer.parts.call.ring_state import RingState
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.call.state import CrossState, FullState, State

PAST_NAME, PRESENT = "past_key_values", "present"


@dataclass(frozen=True)
class Cached:
    """Keys and values of a branch of a layer: of the positions of the `target`, or of the `source`."""

    layer: int
    branch: str
    of: Literal["target", "source"]
    sizes: tuple[tuple[int, int], tuple[int, int]]
    """(K, E) of the keys and (K, U) of the values."""
    dtype: torch.dtype

    def state(self, key: Tensor, value: Tensor) -> State:
        """The memory of the branch in a call."""
        return GrowingState(key, value) if self.of == "target" else GrowingSource(key, value)

    def ports(self, name: str) -> tuple[Port, Port]:
        """The inputs with this name before `.key` and `.value`."""
        past = PAST if self.of == "target" else PAST_SOURCE
        (heads, key), (_, value) = self.sizes
        return (
            Port(f"{name}.key", (BATCH, heads, past, key), self.dtype),
            Port(f"{name}.value", (BATCH, heads, past, value), self.dtype),
        )


def caches_of(model: Transformer) -> tuple[list[Cached], list[str]]:
    """The caches of a model layer by layer, and why a graph cannot hold the memory of others: a sentence per branch."""
    state = model.state(1, 2, source=2 if model.architecture.two_inputs else 0)
    caches: list[Cached] = []
    problems: dict[str, str] = {}
    for number, layer in enumerate(state.layers):
        for branch, held in layer.items():
            if type(held) in (FullState, RingState, CrossState):
                of: Literal["target", "source"] = "source" if type(held) is CrossState else "target"
                sizes = tuple((each.shape[1], each.shape[3]) for each in (held.key, held.value))  # type: ignore[attr-defined]
                caches.append(Cached(number, branch, of, sizes, held.key.dtype))  # type: ignore[arg-type,attr-defined]
            else:
                variant = model.architecture.output_stack.layers[number]
                problems[f"{model.output}.{variant}.{branch}"] = type(held).__name__
    return caches, [f"{path}: its memory ({kind}) is more than keys and values" for path, kind in problems.items()]


def names(caches: Sequence[Cached], *, two: bool) -> list[str]:
    """A name per cache: the number of its layer, with two inputs whose it is, and its branch behind the first of a kind."""
    taken: set[str] = set()
    found = []
    for cache in caches:
        whose = {"target": ".decoder", "source": ".encoder"}[cache.of] if two else ""
        name = f"{cache.layer}{whose}"
        name = name if name not in taken else f"{name}.{cache.branch}"
        taken.add(name)
        found.append(name)
    return found


class CachedGraph(Graph):
    """The base of graphs with a cache."""

    def __init__(self, model: Transformer, caches: Sequence[Cached]) -> None:
        super().__init__(model)
        self.caches, self.depth = tuple(caches), model.architecture.output_stack.depth
        named = names(caches, two=model.architecture.two_inputs)
        self.past = [cache.ports(f"{PAST_NAME}.{name}") for cache, name in zip(caches, named, strict=True)]
        present = [f"{PRESENT}.{name}.{leaf}" for name in named for leaf in ("key", "value")]
        self.inputs = (*self.asked, *(port for pair in self.past for port in pair))
        self.outputs = (self.result, *present)

    @property
    def asked(self) -> tuple[Port, ...]:
        """The inputs before those of the cache."""
        raise NotImplementedError

    def state(self, given: dict[str, Tensor], valid: Tensor) -> StackState:
        """The decode state of a call, of which `valid` (B, P + T) are no padding."""
        layers: list[dict[str, State]] = [{} for _ in range(self.depth)]
        for cache, (key, value) in zip(self.caches, self.past, strict=True):
            layers[cache.layer][cache.branch] = cache.state(given[key.name], given[value.name])
        return StackState(GrowingSlots(valid), layers)

    def finished(self, features: Tensor, state: StackState) -> tuple[Tensor, ...]:
        """What the graph gives: logits, and the cache behind this call."""
        return (self.model.logits(features).float(), *self._present(state))

    def _present(self, state: StackState) -> Iterator[Tensor]:
        for cache in self.caches:
            held = state.layers[cache.layer][cache.branch]
            assert isinstance(held, GrowingState | GrowingSource), "made by `state`"
            yield from (held.key, held.value)


class CausalGraph(CachedGraph):
    """Tokens behind a past: `input_ids` (B, T), `attention_mask` (B, P + T), false on padding wherever it stands.

    Positions are counted from the mask, so that a row is the same with padding and without.
    """

    @property
    def asked(self) -> tuple[Port, ...]:
        return Port("input_ids", (BATCH, LENGTH), torch.int64), Port("attention_mask", (BATCH, TOTAL), torch.int64)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        given = self.given(tensors)
        tokens, valid = given["input_ids"], given["attention_mask"] != 0
        state = self.state(given, valid)
        call = Call(tokens, padding=~valid[:, -tokens.shape[1] :], state=state)
        return self.finished(self.run(self.model.output, self.model.entered(tokens, call.padding, call), call), state)


class TargetGraph(CachedGraph):
    """The decoder of a model with two inputs: `input_ids` (B, T) and `encoder_hidden_states` (B, S, D).

    The source's keys and values are computed of the positions that the cache has not: of all in the first call, of none later.
    """

    @property
    def asked(self) -> tuple[Port, ...]:
        architecture = self.model.architecture
        hidden = Port("encoder_hidden_states", (BATCH, SOURCE, architecture.width), next(self.model.parameters()).dtype)
        tokens = Port("input_ids", (BATCH, LENGTH), torch.int64)
        if architecture.embedding.symbols is None:
            return tokens, hidden
        return tokens, Port("encoder_attention_mask", (BATCH, SOURCE), torch.int64), hidden

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        given = self.given(tensors)
        tokens, hidden = given["input_ids"], given["encoder_hidden_states"]
        mask = given.get("encoder_attention_mask")
        past = next(key for cache, (key, _) in zip(self.caches, self.past, strict=True) if cache.of == "target")
        read = next(key for cache, (key, _) in zip(self.caches, self.past, strict=True) if cache.of == "source")
        total = given[past.name].shape[2] + tokens.shape[1]
        state = self.state(given, tokens.new_ones(tokens.shape[0], total, dtype=torch.bool))
        source = StackInput(hidden[:, given[read.name].shape[2] :], None if mask is None else mask == 0)
        entered = self.model.entered(tokens, None)
        return self.finished(self.run("decoder", entered, Call(state=state), source), state)
