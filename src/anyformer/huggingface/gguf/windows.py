"""Lines about windows of attention: which layers have one, and graphs that have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.keys import GgufKeys, GgufMetadata
from anyformer.huggingface.gguf.lines import Words

SLIDING, FULL = "sliding_attention", "full_attention"


@dataclass(frozen=True)
class LayerKinds:
    """`layer_types` from one number: of every `word` layers the last attends in full, the others in a window."""

    key: str = "attention.sliding_window_pattern"
    usual: int | None = None
    """The pattern of a graph that has it written in; None: the key has to say it."""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        period = keys(self.key, *(() if self.usual is None else (self.usual,)))
        layers = table["num_hidden_layers"]
        table["layer_types"] = list(period_kinds(period, layers) if isinstance(period, int) else listed_kinds(period))

    def write(self, words: Config, keys: GgufKeys) -> None:
        kinds = words("layer_types")
        if self.usual is not None and kinds == period_kinds(self.usual, len(kinds)):
            return
        keys.put(self.key, [kind == SLIDING for kind in kinds])


def period_kinds(period: int, layers: int) -> list[str]:
    """Kinds of layers of which every `period`-th attends in full; 0: none does."""
    return [FULL if period and i % period == period - 1 else SLIDING for i in range(layers)]


def listed_kinds(slides: Sequence[bool]) -> list[str]:
    """Kinds of layers by whether they attend in a window."""
    return [SLIDING if slide else FULL for slide in slides]


@dataclass(frozen=True)
class AllFull:
    """`layer_types`, none of which has a window; left out of a configuration that is read."""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        """The configuration's default."""

    def write(self, words: Config, keys: GgufKeys) -> None:
        kinds = words("layer_types", None)
        if kinds is not None:
            words.expect("layer_types", [FULL] * len(kinds), why="no window is in llama.cpp's graph")


@dataclass(frozen=True)
class NoWindow:
    """A window that llama.cpp's graph has not: one as long as the longest text changes nothing, and a shorter one is refused.

    `key`: where files say it nevertheless, 0 for none.
    """

    word: str = "sliding_window"
    key: str = ""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        table[self.word] = (keys(self.key, None) or None) if self.key else None

    def write(self, words: Config, keys: GgufKeys) -> None:
        window, length = words(self.word, None), keys("context_length")
        if window is not None and window < length:
            raise HuggingFaceError(
                f"{words.where}: {self.word} = {window} is not in llama.cpp's graph of {words.model_type}, and texts may have "
                f"{length} tokens: export with a length of at most {window}"
            )
        if self.key:
            keys.put(self.key, int(window or 0))
