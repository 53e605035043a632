"""How llama.cpp spells one model type of transformers, as data that goes both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.gguf.keys import GgufKeys, GgufMetadata
from anyformer.huggingface.gguf.lines import GgufLine, Words
from anyformer.huggingface.rules import Op

IN_FILE = (
    "file_type",
    "quantization_version",
    "vocab_size",
    "rope.dimension_count",
    "expert_shared_feed_forward_length",
)
"""Keys of files that repeat what the tensors say, or that were checked."""
IN_TRAINING = (
    "activation_dropout", "attention_dropout", "attn_pdrop", "embd_pdrop", "embedding_dropout", "hidden_dropout",
    "hidden_dropout_prob", "attention_probs_dropout_prob", "resid_pdrop", "residual_dropout", "dropout", "dropout_rate",
    "router_aux_loss_coef", "router_jitter_noise", "summary_first_dropout", "use_cache", "router_z_loss_coef",
)  # fmt: skip
"""Words that no inference depends on."""

Changes = Mapping[str, Callable[[Words], Op]]
"""Name of a tensor without `blk.0.`, with or without its ending -> what the file's layout does to it."""


@dataclass(frozen=True)
class GgufForm:
    """One model type of transformers under one `general.architecture`.

    `names`: end of the name of a module or weight in a layer -> its names in the file, where gguf's `TensorNameMap` has none
    or another; `{x}` stands for the number of an expert.
    """

    architecture: str
    model_type: str
    lines: tuple[GgufLine, ...]
    names: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    changes: Changes = field(default_factory=dict)
    when: Callable[[GgufMetadata], bool] = lambda keys: True
    """Whether a file is of this model type: several types may share an architecture."""
    output: bool = False
    """Whether the graph needs a matrix of the head of its own: of tied ones the file has the embedding twice."""
    unread: tuple[str, ...] = ()
    """Keys that converters write and the graph does not read."""

    def read(self, keys: GgufMetadata) -> Words:
        """The configuration that the metadata amounts to."""
        table: Words = {"model_type": self.model_type}
        for line in self.lines:
            line.read(keys, table)
        keys.finish((*IN_FILE, *self.unread))
        return table

    def write(self, table: Mapping[str, Any], where: str) -> GgufKeys:
        """The metadata of a configuration; `HuggingFaceError` for a word that llama.cpp's graph does not compute."""
        words, keys = Config(table, where), GgufKeys(self.architecture)
        for line in self.lines:
            line.write(words, keys)
        words.finish(IN_TRAINING)
        return keys
