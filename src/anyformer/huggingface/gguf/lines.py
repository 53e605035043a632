"""Lines of an architecture's table: a word of Hugging Face's configuration and the key of the metadata that says the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from anyformer.describe import Notice
from anyformer.huggingface.config import REQUIRED, Config
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
    checked: bool = True
    """Whether a file has to say the same; converters compute some of them another way, and the tensors show them."""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        if self.checked:
            keys.expect(self.key, self.value(table))
        else:
            keys(self.key, None)

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
        table[self.word] = any(name.endswith(f".{self.tensor}") for name in keys.shapes)

    def write(self, words: Config, keys: GgufKeys) -> None:
        words(self.word, None)


@dataclass(frozen=True)
class Depth:
    """The number of layers, which a file counts with the predictions of later tokens; those are not read."""

    word: str = "num_hidden_layers"

    def read(self, keys: GgufMetadata, table: Words) -> None:
        table[self.word] = keys("block_count") - keys(LATER, 0)

    def write(self, words: Config, keys: GgufKeys) -> None:
        keys.put("block_count", int(words(self.word)))


LATER = "nextn_predict_layers"
"""The key of how many layers at the end predict later tokens."""


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
class TanhGelu:
    """GELU, which llama.cpp computes by its tanh form whatever the model has; a `Notice` says so of the exact one.

    `word`: empty where the architecture has no other activation; `usual`: what files amount to.
    """

    word: str = "hidden_act"
    usual: str = "gelu"

    def read(self, keys: GgufMetadata, table: Words) -> None:
        if self.word:
            table[self.word] = self.usual

    def write(self, words: Config, keys: GgufKeys) -> None:
        found = self.usual
        if self.word:
            words.expect(self.word, self.usual, *TANH, why="no other is in llama.cpp's graph")
            found = words.written.get(self.word, self.usual)
        if found not in TANH:
            warnings.warn(
                f"{words.where}: llama.cpp computes GELU by its tanh form, which is up to 5e-4 off", Notice, stacklevel=2
            )


TANH = ("gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_python_tanh")
"""Names of the tanh form."""


@dataclass(frozen=True)
class SameAs:
    """Two words with one value, of which the graph has no second: heads of keys and of queries, ..."""

    word: str
    other: str

    def read(self, keys: GgufMetadata, table: Words) -> None:
        table[self.word] = table[self.other]

    def write(self, words: Config, keys: GgufKeys) -> None:
        words.expect(self.word, words(self.other), why="llama.cpp's graph has one number for both")
