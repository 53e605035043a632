"""How engines lay out a cache of keys and values: pages of one size for all layers, a pool for windows, cells, or blocks.

The rules are those of the engines' own sources and logs (`published_engine_memory.toml`); the bytes of a token are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Engine = Literal["vllm", "sglang", "llama.cpp", "tensorrt-llm"]
POOL_OF_WINDOWS = 0.8
"""Tokens in SGLang's pool of windows, of those in the pool of the other layers (`swa_full_tokens_ratio`)."""
FEW_MORE = 1.25
"""Layers of the most frequent kind over those of the rarest, below which vLLM fills the rarer ones up instead of dividing."""


@dataclass(frozen=True)
class PagedLayers:
    """Layers alike on one rank: `count`, each with `token` bytes of a token, of which it keeps the last `window`; None: all."""

    count: int
    token: float
    window: int | None = None

    @property
    def all(self) -> float:
        """Bytes of a token in all of them."""
        return self.count * self.token


Layers = Sequence[PagedLayers]


@dataclass(frozen=True)
class Paging:
    """What an engine does. `page`: tokens of a page; `share`: of the memory that it takes, or with `of_free` of what is left
    beside weights and activations; `step`: tokens of its largest step; `windows`, `recurrent`: states that it is known to keep
    so, beside those that grow with every token; `apart`: windows take their bytes beside those of `token`."""

    page: int = 1
    share: float = 0.9
    of_free: bool = False
    step: int = 8192
    windows: bool = True
    recurrent: bool = False
    apart: bool = False

    def token(self, layers: Layers) -> float:
        """Bytes of the cache over the tokens that the engine says it holds."""
        return _growing(layers)

    def text(self, layers: Layers, length: int, step: int, page: int) -> float:
        """Bytes of the cache that a text of so many tokens takes, beside its slot."""
        return _whole(length, page) * self.token(layers)

    def own_windows(self, layers: Layers, tokens: int, texts: int, step: int) -> float:
        """Bytes of what windows have for themselves, beside the pages of so many tokens and texts; 0 where they share these."""
        return 0.0


def _whole(length: int, page: int) -> int:
    return -(-length // page) * page


def _growing(layers: Layers) -> float:
    return sum(each.all for each in layers if each.window is None)


def _windowed(layers: Layers) -> float:
    return sum(each.all for each in layers if each.window is not None)


@dataclass(frozen=True)
class OnePageSize(Paging):
    """vLLM: layers in groups of one size, whose pages have the bytes of the largest layer's, so that any group takes any page.

    A group of windows gives back pages that no query sees any more; a step that reads a prompt holds its tokens as well.
    """

    page: int = 16

    def _of_group(self, layers: Layers) -> int:
        """Layers of a group."""
        fewest, most = min(each.count for each in layers), max(each.count for each in layers)
        return most if most < FEW_MORE * fewest else fewest

    def token(self, layers: Layers) -> float:
        size = self._of_group(layers)
        groups = sum(-(-each.count // size) for each in layers)
        return groups * size * max(each.token for each in layers)

    def text(self, layers: Layers, length: int, step: int, page: int) -> float:
        size, largest, blocks = self._of_group(layers), max(each.token for each in layers), 0
        for each in layers:
            tokens = round(page * largest / each.token)  # of a page of these layers
            needed = -(-length // tokens)
            if each.window is not None:
                needed = min(needed, -(-(each.window - 1 + step) // tokens) + 1)
            blocks += -(-each.count // size) * needed
        return blocks * page * size * largest


@dataclass(frozen=True)
class TwoPools(Paging):
    """SGLang: a pool of windows beside the pool of the other layers, with a share of its tokens."""

    def token(self, layers: Layers) -> float:
        return _growing(layers) + POOL_OF_WINDOWS * _windowed(layers)

    def text(self, layers: Layers, length: int, step: int, page: int) -> float:
        longest = max((min(length, each.window) for each in layers if each.window is not None), default=0)
        return self.token(layers) * max(_whole(length, page), longest / POOL_OF_WINDOWS)

    def own_windows(self, layers: Layers, tokens: int, texts: int, step: int) -> float:
        return int(POOL_OF_WINDOWS * tokens) * _windowed(layers)


@dataclass(frozen=True)
class WindowCells(Paging):
    """llama.cpp: a cache of whole pages of cells; windows have their own, of the last tokens of every text and one step."""

    page: int = 256
    share: float = 1.0
    step: int = 512
    recurrent: bool = True
    apart: bool = True

    def text(self, layers: Layers, length: int, step: int, page: int) -> float:
        return super().text(layers, length, step, page) + self.own_windows(layers, length, 1, step)

    def own_windows(self, layers: Layers, tokens: int, texts: int, step: int) -> float:
        return sum(
            min(_whole(tokens, self.page), _whole(each.window * texts + step, self.page)) * each.all
            for each in layers
            if each.window is not None
        )


@dataclass(frozen=True)
class TokenBlocks(Paging):
    """TensorRT-LLM: blocks in a share of the memory that is free when weights and the largest step have theirs."""

    page: int = 32
    of_free: bool = True
    windows: bool = False


PAGING: Mapping[Engine, Paging] = {
    "vllm": OnePageSize(),
    "sglang": TwoPools(),
    "llama.cpp": WindowCells(),
    "tensorrt-llm": TokenBlocks(),
}
