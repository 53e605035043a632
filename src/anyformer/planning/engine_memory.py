"""What an engine makes of an accelerator's memory: weights, the activations that it sets aside, and a cache in pages.

The decode state is ours, to the byte; the rules of how it is paged are those of the engines, held against what they have
printed (`published_engine_memory.toml`, each with its address).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import Any, Literal

from anyformer.costs.inference import decode_state, stored
from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.operations import Shape, Weight
from anyformer.plan import Plan
from anyformer.precision import Bf16, Fp32
from anyformer.quantising import FORMATS

Engine = Literal["vllm", "sglang", "llama.cpp"]
CacheNumber = Literal["bf16", "fp8", "q8_0"]
GIB = 2**30
PAGES: Mapping[Engine, int] = {"vllm": 16, "sglang": 1, "llama.cpp": 256}
"""Tokens of a page: vLLM's block; SGLang's page; llama.cpp's cells, of whose number a cache has a multiple."""
SHARE: Mapping[Engine, float] = {"vllm": 0.9, "sglang": 0.9, "llama.cpp": 1.0}
"""Share of the memory that an engine takes where nobody says how much: `gpu_memory_utilization` of vLLM."""
NUMBERS: Mapping[CacheNumber, float] = {"bf16": 2.0, "fp8": 1.0, "q8_0": 34 / 32}
"""Bytes of a number of the cache: 32 of q8_0 share a scale of two bytes."""
FAR = 2**16


@dataclass(frozen=True)
class EngineMemory:
    """An architecture in an engine, on each of `ranks` that divide it; sizes are bytes of one rank.

    `room`: bytes of the accelerator, `share` of which the engine takes; `beside`: bytes that others hold (the context of CUDA,
    communication), as an engine measures them; `step_tokens`: tokens of its largest step, for whose activations it sets memory
    aside (`max_num_batched_tokens`). States that grow with every token are paged alike in all engines; beside them llama.cpp
    keeps recurrent ones in a slot of every text. Others are refused.
    """

    architecture: Architecture
    engine: Engine
    room: int
    ranks: int = 1
    format: str = "bf16"
    numbers: CacheNumber = "bf16"
    step_tokens: int = 8192
    share: float | None = None
    beside: int = 0
    plan: Plan = field(default_factory=lambda: Plan(precision=Bf16()))

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.step_tokens < 1 or self.room < 1 or self.beside < 0:
            raise UserError(
                f"{self.ranks} ranks, {self.step_tokens} tokens of a step, {self.room} bytes: give 1 or more of each"
            )
        known = ("every token", "never") if self.engine == "llama.cpp" else ("every token",)
        others = [memory.name for memory in self._state.memories if memory.grows not in known]
        if others or "every token" not in {memory.grows for memory in self._state.memories}:
            what = f"{', '.join(others)} do not grow with every token" if others else "it has no state that grows"
            raise UserError(
                f"how {self.engine} pages this model's state is not known here: {what}. `plan --serve` counts the state itself"
            )

    @cached_property
    def _state(self) -> Any:
        return decode_state(self.architecture, context=FAR, plan=self.plan)

    @cached_property
    def weights(self) -> int:
        """Weights in their format, tables of tokens and head in 16 bits as releases keep them; divided among ranks."""
        weights = self.architecture.folded_cost(Shape(source=1)).weights
        kept = {name: weight for name, weight in weights.items() if self._table(name, weight)}
        rest = {name: weight for name, weight in weights.items() if name not in kept}
        return -(-(stored(rest, FORMATS[self.format]) + stored(kept, FORMATS["bf16"])) // self.ranks)

    def _table(self, name: str, weight: Weight) -> bool:
        return weight.fill == "embedding" or name in self._head

    @cached_property
    def _head(self) -> set[str]:
        """Weights that are there for the head alone."""
        architecture = self.architecture
        if architecture.head is None:
            return set()
        bare = architecture.but(head=None, mtp=None).folded_cost(Shape(source=1)).weights
        return set(architecture.folded_cost(Shape(source=1)).weights) - set(bare)

    @cached_property
    def activations(self) -> int:
        """Bytes of the largest step: of a token, what its widest network reads and writes at once, 3 D + (g + 1) F / ranks
        numbers, g = 2 if it is gated: the stream, its sum and its norm, all inner features, and the activated ones."""
        networks = [
            sublayer.resizing.network
            for stack in self.architecture.stacks.values()
            for block in stack.variants.values()
            for sublayer in block.sublayers
            if sublayer.resizing.network is not None
        ]
        inner = max(((3 if each.gated else 2) * each.width * (each.chosen or 1) for each in networks), default=0)
        return self.step_tokens * 2 * (3 * self.architecture.width + -(-inner // self.ranks))

    @property
    def share_taken(self) -> float:
        """Share of the memory that the engine takes."""
        return SHARE[self.engine] if self.share is None else self.share

    @property
    def cache(self) -> int:
        """Bytes that are left for the cache."""
        return max(0, int(self.room * self.share_taken) - self.weights - self.activations - self.beside)

    @cached_property
    def token(self) -> int:
        """Bytes of the cache that a token takes: key heads are divided among the ranks, a latent is on all of them."""
        more, less = (self.architecture.folded_cost(Shape(past=past), self.plan) for past in (2 * FAR - 1, FAR - 1))
        held = sum(
            sign * -(-node.tally.own_state.held // min(self.ranks, node.tally.own_state.ranks)) * node.times
            for sign, tally in ((1, more), (-1, less))
            for node in tally.nodes()
            if node.tally.own_state is not None
        )
        return round(held / FAR / 2 * NUMBERS[self.numbers])

    @cached_property
    def slot(self) -> int:
        """Bytes of a text's states that never grow, in fp32 as llama.cpp keeps them, undivided; 0 where there are none."""
        kept = decode_state(self.architecture, context=FAR, plan=Plan(precision=Fp32()))
        return sum(memory.bytes for memory in kept.memories if memory.grows == "never")

    @property
    def pages(self) -> int:
        """Whole pages that the cache has, beside the slot of one text where texts have slots."""
        return max(0, self.cache - self.slot) // (PAGES[self.engine] * self.token)

    @property
    def tokens(self) -> int:
        """Tokens that the cache holds."""
        return self.pages * PAGES[self.engine]

    def cache_of(self, tokens: int) -> int:
        """Bytes of a cache of so many tokens."""
        page = PAGES[self.engine]
        return -(-tokens // page) * page * self.token

    def texts(self, length: int) -> int:
        """Texts of so many tokens that the cache holds at once, each in pages of its own, and in its slot where it has one."""
        return self.cache // (self.cache_of(length) + self.slot)


@dataclass(frozen=True)
class PublishedMemory:
    """What an engine printed, and what it says of the rest: see the table."""

    engine: Engine
    model: str
    given: Mapping[str, Any]
    printed: Mapping[str, float]
    address: str
    line: str

    def foretold(self, architecture: Architecture) -> dict[str, float]:
        """The printed figures as they are counted here, in the same units."""
        given = self.given
        memory = EngineMemory(
            architecture, self.engine, int(given.get("room", 80) * GIB), given.get("ranks", 1), given.get("weights", "bf16"),
            given.get("numbers", "bf16"), given.get("step_tokens", 8192), given.get("share"), int(given.get("beside", 0) * GIB),
        )  # fmt: skip
        found = {"weights": memory.weights / GIB, "activations": memory.activations / GIB, "cache": memory.cache / GIB}
        found |= {"pages": memory.pages, "tokens": memory.tokens}
        if "tokens" in given:
            found["cache"] = memory.cache_of(given["tokens"]) / GIB
        if "slots" in given:
            found["slots"] = given["slots"] * memory.slot / GIB
        if "cache" in given:
            page = PAGES[self.engine]
            found["tokens"] = int(given["cache"] * GIB) // (page * memory.token) * page
        return {name: found[name] for name in self.printed}


_TABLE = files("anyformer.planning").joinpath("published_engine_memory.toml")
PUBLISHED_MEMORY = tuple(PublishedMemory(**case) for case in tomllib.loads(_TABLE.read_text(encoding="utf-8"))["case"])
