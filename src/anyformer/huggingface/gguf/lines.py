"""Lines of an architecture's table: a word of Hugging Face's configuration and the key of the metadata that says the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from anyformer.huggingface.config import REQUIRED, Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.keys import GgufKeys, GgufMetadata

Words = dict[str, Any]
"""The configuration that a file amounts to, as far as it was read."""


class GgufLine(Protocol):
    """One thing that a configuration and the metadata both say."""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        """Enter what the metadata says into the configuration."""

    def write(self, words: Config, keys: GgufKeys) -> None:
        """Put what the configuration says among the keys; `HuggingFaceError` for what llama.cpp does not compute."""


@dataclass(frozen=True)
class Key:
    """A word and its key. `default`: what the absence of either means; None: neither is written."""

    word: str
    key: str
    kind: type = int
    default: Any = REQUIRED

    def read(self, keys: GgufMetadata, table: Words) -> None:
        value = keys(self.key, self.default)
        if value is not None:
            table[self.word] = self.kind(value)

    def write(self, words: Config, keys: GgufKeys) -> None:
        value = words(self.word, self.default)
        if value is not None:
            keys.put(self.key, self.kind(value))


@dataclass(frozen=True)
class Only:
    """A word with the values that the graph of llama.cpp computes, the first of which a file amounts to; no key says it."""

    word: str
    values: tuple[Any, ...]
    said: bool = True
    """Whether the word is written into the configuration; else its absence means the first value."""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        if self.said and self.values[0] is not None:
            table[self.word] = self.values[0]

    def write(self, words: Config, keys: GgufKeys) -> None:
        words.expect(self.word, *self.values, why="no other is in llama.cpp's graph")


def only(word: str, *values: Any) -> Only:
    """A word of the configuration with the values that the graph computes."""
    return Only(word, values)


@dataclass(frozen=True)
class Always:
    """A key that has one value in every file of the type."""

    key: str
    value: Any
    required: bool = False
    """Whether its absence from a file means another value."""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        if self.required:
            keys(self.key)
        keys.expect(self.key, self.value)

    def write(self, words: Config, keys: GgufKeys) -> None:
        keys.put(self.key, self.value)


@dataclass(frozen=True)
class Repeats:
    """A key that follows from the configuration: written for llama.cpp; a file that says another value is refused."""

    key: str
    value: Callable[[Words], Any]

    def read(self, keys: GgufMetadata, table: Words) -> None:
        keys.expect(self.key, self.value(table))

    def write(self, words: Config, keys: GgufKeys) -> None:
        keys.put(self.key, self.value(words.written))


@dataclass(frozen=True)
class Follows:
    """A word that follows from other words or the tensors, in the file said by no key; any other value is refused."""

    word: str
    value: Callable[[Words], Any]

    def read(self, keys: GgufMetadata, table: Words) -> None:
        table[self.word] = self.value(table)

    def write(self, words: Config, keys: GgufKeys) -> None:
        words.expect(self.word, self.value(words.written), why="llama.cpp has no key for it, and computes with this")


@dataclass(frozen=True)
class Present:
    """A word that says whether layers have a tensor, which a file shows by having it."""

    word: str
    tensor: str
    """Without `blk.0.`."""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        table[self.word] = f"blk.0.{self.tensor}" in keys.shapes

    def write(self, words: Config, keys: GgufKeys) -> None:
        words(self.word, None)


@dataclass(frozen=True)
class VocabularySize:
    """The rows of the embedding."""

    word: str = "vocab_size"

    def read(self, keys: GgufMetadata, table: Words) -> None:
        table[self.word] = keys.shapes["token_embd.weight"][0]

    def write(self, words: Config, keys: GgufKeys) -> None:
        keys.put("vocab_size", int(words(self.word)))


@dataclass(frozen=True)
class TiedHead:
    """Whether the head is the embedding: a file without `output.weight`."""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        table["tie_word_embeddings"] = "output.weight" not in keys.shapes

    def write(self, words: Config, keys: GgufKeys) -> None:
        words("tie_word_embeddings", None)


@dataclass(frozen=True)
class HeadWidth:
    """The width of a head, of keys and values alike. `said`: whether the configuration has `head_dim`; else heads fill D."""

    said: bool = True
    heads: str = "num_attention_heads"
    hidden: str = "hidden_size"

    def read(self, keys: GgufMetadata, table: Words) -> None:
        filled = table[self.hidden] // table[self.heads]
        width = keys("attention.key_length", filled)
        keys.expect("attention.value_length", width)
        if self.said:
            table["head_dim"] = width
        else:
            keys.expect("attention.key_length", filled)

    def write(self, words: Config, keys: GgufKeys) -> None:
        width = int(words("head_dim", words(self.hidden) // words(self.heads)))
        keys.put("attention.key_length", width)
        keys.put("attention.value_length", width)


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


SLIDING, FULL = "sliding_attention", "full_attention"


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
class ExpertWidth:
    """The width of one expert's network, which the tensors show."""

    word: str = "moe_intermediate_size"

    def read(self, keys: GgufMetadata, table: Words) -> None:
        name = next(name for name in sorted(keys.shapes) if name.endswith("ffn_down_exps.weight"))
        table[self.word] = keys.shapes[name][2]
        keys.expect("expert_feed_forward_length", table[self.word])

    def write(self, words: Config, keys: GgufKeys) -> None:
        keys.put("expert_feed_forward_length", int(words(self.word)))


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
