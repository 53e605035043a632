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
from anyformer.planning.engine_paging import PAGING, Engine, PagedLayers, Paging
from anyformer.precision import Bf16, Fp32
from anyformer.quantising import FORMATS

CacheNumber = Literal["bf16", "fp8", "q8_0"]
GIB = 2**30
NUMBERS: Mapping[CacheNumber, float] = {"bf16": 2.0, "fp8": 1.0, "q8_0": 34 / 32}
"""Bytes of a number of the cache: 32 of q8_0 share a scale of two bytes."""
FAR = 2**16


@dataclass(frozen=True)
class EngineMemory:
    """An architecture in an engine, on each of `ranks` that divide it; sizes are bytes of one rank.

    `room`: bytes of the accelerator, `share` of which the engine takes; `beside`: bytes that others hold (the context of CUDA,
    communication), as an engine measures them; `step_tokens`: tokens of its largest step (`max_num_batched_tokens` of vLLM,
    `n_ubatch` of llama.cpp), for whose activations memory is set aside; `page_tokens`: of a page. None: as the engine has it
    where nobody says. States that grow with every token are known in all engines, windows in all but TensorRT-LLM, recurrent
    ones in llama.cpp. Others are refused.
    """

    architecture: Architecture
    engine: Engine
    room: int
    ranks: int = 1
    format: str = "bf16"
    numbers: CacheNumber = "bf16"
    step_tokens: int | None = None
    share: float | None = None
    beside: int = 0
    page_tokens: int | None = None
    plan: Plan = field(default_factory=lambda: Plan(precision=Bf16()))

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.step < 1 or self.page < 1 or self.room < 1 or self.beside < 0:
            raise UserError(
                f"{self.ranks} ranks, {self.step} tokens of a step, {self.page} of a page, {self.room} bytes: give 1 or more "
                "of each"
            )
        ways = {"every token": True, "to its window": self.paging.windows, "never": self.paging.recurrent}
        known = {way for way, keeps in ways.items() if keeps}
        others = [memory.name for memory in self._state.memories if memory.grows not in known]
        if others or "every token" not in {memory.grows for memory in self._state.memories}:
            what = f"{', '.join(others)} do not grow with every token" if others else "it has no state that grows"
            raise UserError(
                f"how {self.engine} pages this model's state is not known here: {what}. `plan --serve` counts the state itself"
            )

    @property
    def paging(self) -> Paging:
        """The engine's rules."""
        return PAGING[self.engine]

    @property
    def step(self) -> int:
        """Tokens of the largest step."""
        return self.paging.step if self.step_tokens is None else self.step_tokens

    @property
    def page(self) -> int:
        """Tokens of a page."""
        return self.paging.page if self.page_tokens is None else self.page_tokens

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
        return self.step * 2 * (3 * self.architecture.width + -(-inner // self.ranks))

    @property
    def share_taken(self) -> float:
        """Share of the memory that the engine takes."""
        return self.paging.share if self.share is None else self.share

    @property
    def cache(self) -> int:
        """Bytes that are left for the cache."""
        needed = self.weights + self.activations + self.beside
        if self.paging.of_free:
            return max(0, int((self.room - needed) * self.share_taken))
        return max(0, int(self.room * self.share_taken) - needed)

    @cached_property
    def layers(self) -> tuple[PagedLayers, ...]:
        """Layers whose state grows, those alike together: key heads are divided among the ranks, a latent is on all of them."""
        one, far, farther = (self._held(length) for length in (1, FAR, 2 * FAR))
        found: dict[tuple[float, int | None], int] = {}
        for at, (times, held) in far.items():
            if held == one[at][1]:
                continue  # recurrent
            grows = farther[at][1] > held
            token = (farther[at][1] - held) / FAR if grows else one[at][1]
            key = token * NUMBERS[self.numbers] / 2, None if grows else round(held / one[at][1])
            found[key] = found.get(key, 0) + times
        return tuple(PagedLayers(count, *key) for key, count in found.items())

    def _held(self, length: int) -> dict[Any, tuple[int, int]]:
        """(layers, bytes of each on a rank) of every kind of layer with a state, at so many positions."""
        nodes = self.architecture.folded_cost(Shape(past=length - 1), self.plan).nodes()
        own = ((node, node.tally.own_state) for node in nodes)
        return {
            node.address: (node.times, -(-state.held // min(self.ranks, state.ranks)))
            for node, state in own
            if state is not None and state.held
        }

    @cached_property
    def token(self) -> int:
        """Bytes of the cache over the tokens that it is said to hold: with windows, of all layers together."""
        return round(self.paging.token(self.layers))

    @cached_property
    def slot(self) -> int:
        """Bytes of a text's states that never grow, in fp32 as llama.cpp keeps them, undivided; 0 where there are none."""
        kept = decode_state(self.architecture, context=FAR, plan=Plan(precision=Fp32()))
        return sum(memory.bytes for memory in kept.memories if memory.grows == "never")

    @property
    def pages(self) -> int:
        """Whole pages that the cache has, beside the windows and the slot of one text where texts have their own."""
        own = self.slot + (self.windows(FAR, 1) if self.paging.apart else 0)
        return max(0, self.cache - own) // (self.page * self.token)

    @property
    def tokens(self) -> int:
        """Tokens that the cache holds."""
        return self.pages * self.page

    def cache_of(self, tokens: int) -> int:
        """Bytes of a cache of so many tokens, without windows that have their own."""
        return -(-tokens // self.page) * self.page * self.token

    def windows(self, tokens: int, texts: int) -> int:
        """Bytes of what windows have for themselves, beside so many tokens of so many texts; 0 where they share pages."""
        return round(self.paging.own_windows(self.layers, tokens, texts, self.step))

    def texts(self, length: int) -> int:
        """Texts of so many tokens that the cache holds at once, each in pages of its own, and in its slot where it has one."""
        return self.cache // (round(self.paging.text(self.layers, length, self.step, self.page)) + self.slot)


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
            given.get("numbers", "bf16"), given.get("step_tokens"), given.get("share"), int(given.get("beside", 0) * GIB),
            given.get("page"),
        )  # fmt: skip
        found = {"weights": memory.weights / GIB, "activations": memory.activations / GIB, "cache": memory.cache / GIB}
        found |= {"pages": memory.pages, "tokens": memory.tokens}
        texts = given.get("texts", 1)
        if "tokens" in given:
            found["cache"] = memory.cache_of(given["tokens"]) / GIB
            found["windows"] = memory.windows(given["tokens"], texts) / GIB
        found["slots"] = texts * memory.slot / GIB
        if "cache" in given or "free" in given:
            size = given["cache"] if "cache" in given else given["free"] * memory.share_taken
            found["pages"] = int(size * GIB) // (memory.page * memory.token)
            found["tokens"] = found["pages"] * memory.page
        return {name: found[name] for name in self.printed}


_TABLE = files("anyformer.planning").joinpath("published_engine_memory.toml")
PUBLISHED_MEMORY = tuple(PublishedMemory(**case) for case in tomllib.loads(_TABLE.read_text(encoding="utf-8"))["case"])
