"""A `config.json` read key by key: what is asked for is recorded, and what nobody asked for is refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from os.path import isfile  # which no name is too long for
from pathlib import Path
from typing import Any

from anyformer.describe import DescriptionError, UserError, read_data
from anyformer.huggingface.vocabulary import KINDS, NULL, Kind, misfits


class HuggingFaceError(UserError):
    """A directory of Hugging Face's layout cannot be read or written as asked."""


OWN = {"run.toml": "a run", "manifest.json": "a checkpoint"}
"""Files by which directories of our own are known, which are no Hugging Face model."""
INERT = (
    "_commit_hash", "_name_or_path", "add_cross_attention", "architectures", "auto_map", "bad_words_ids",
    "begin_suppress_tokens", "bos_token_id", "chunk_size_feed_forward", "classifier_dropout",
    "cross_attention_hidden_size", "decoder_start_token_id", "diversity_penalty", "do_sample", "dtype", "early_stopping",
    "encoder_no_repeat_ngram_size", "eos_token_id", "exponential_decay_length_penalty", "finetuning_task",
    "forced_bos_token_id", "forced_eos_token_id", "gradient_checkpointing", "id2label", "initializer_range",
    "is_encoder_decoder", "label2id", "length_penalty", "max_length", "max_position_embeddings", "min_length",
    "model_max_length", "model_type", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_labels",
    "num_return_sequences", "output_attentions", "output_hidden_states", "output_past", "output_router_logits",
    "output_scores", "pad_token_id", "prefix", "pretraining_tp", "problem_type", "pruned_heads", "remove_invalid_values",
    "repetition_penalty", "return_dict", "return_dict_in_generate", "router_aux_loss_coef", "sep_token_id",
    "suppress_tokens", "task_specific_params", "temperature", "tf_legacy_loss", "tokenizer_class", "top_k", "top_p",
    "torch_dtype", "torchscript", "transformers_version", "typical_p", "unk_token_id", "use_bfloat16", "use_cache",
)  # fmt: skip
"""Keys that change nothing that a model computes: names, ids of special tokens, generation, bookkeeping."""

_REQUIRED: Any = object()


class Config:
    """The keys of one configuration. `config(name)` gives a value and counts it as read; `finish` refuses what is left."""

    def __init__(self, data: Mapping[str, Any], where: str = "config.json") -> None:
        self._data, self._left, self.where = dict(data), set(data), where

    def __call__(self, name: str, default: Any = _REQUIRED, *, kind: Kind | None = None) -> Any:
        """The value of a key, of the kind that the vocabulary says; its default where it is absent.

        Without a default it must be there. Null is a value of its own where the vocabulary says so, and absence where the
        default is None. `kind`: where a model type wants more than the vocabulary does, and no null.
        """
        self._left.discard(name)
        assert name in KINDS, f"{name}: say in huggingface/vocabulary.py what its value has to be"
        if name in self._data:
            value = self._data[name]
            wanted = kind or KINDS[name]
            if value is None and default is not None and (kind is not None or name not in NULL):
                raise self.refused(name, value, wanted.words)
            for path, found, expected in misfits(name, value, kind):
                raise self.refused(path, found, expected.words)
            return value
        if default is _REQUIRED:
            raise HuggingFaceError(f"{self.where}: {name} is missing")
        return default

    def refused(self, path: str, value: Any, expected: str) -> HuggingFaceError:
        """The error about a value that is not what it has to be."""
        return HuggingFaceError(f"{self.where}: {path} = {shown(value)} should be {expected}")

    def assume(self, **values: Any) -> None:
        """What the model's configuration class puts where a key is absent."""
        self._data = {**values, **self._data}

    def __contains__(self, name: str) -> bool:
        return name in self._data

    @property
    def model_type(self) -> str:
        return str(self("model_type"))

    @property
    def task(self) -> str:
        """What the model's class ends in: `ForCausalLM`, `ForMaskedLM`, `Model`; empty where none is named."""
        named = next(iter(self("architectures", None) or ()), "")
        return "For" + named.rpartition("For")[2] if "For" in named else "Model" if named.endswith("Model") else ""

    def expect(self, name: str, *values: Any, why: str = "") -> None:
        """Refuse any value of `name` but these (or its absence): another would change what is computed."""
        self._left.discard(name)
        got = self._data.get(name, values[0])
        if not any(got == value and isinstance(got, bool) == isinstance(value, bool) for value in values):
            allowed = " or ".join(json.dumps(value) for value in values)
            raise HuggingFaceError(
                f"{self.where}: {name} = {shown(got)} is not supported for {self.model_type}, only {allowed}"
                + (f" ({why})" if why else "")
            )

    def finish(self, inert: Iterable[str]) -> None:
        """Refuse keys that nobody read and that are not `inert`."""
        unknown = sorted(self._left - {*INERT, *inert})
        if unknown:
            listed = ", ".join(f"{name} = {shown(self._data[name])}" for name in unknown)
            raise HuggingFaceError(
                f"{self.where}: {self.model_type} has keys that are not known here, so the model might compute something else: "
                f"{listed}"
            )


def shown(value: Any) -> str:
    """A value as its file has it, cut where it is long."""
    try:
        text = json.dumps(value, default=str)
    except ValueError:  # Python writes no number of more than 4,300 digits
        text = "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


def read_table(path: Path) -> dict[str, Any]:
    """The table that a JSON file of such a directory holds."""
    try:
        data = read_data(path)
    except DescriptionError as error:
        raise HuggingFaceError(str(error)) from None
    if not isinstance(data, dict):
        raise HuggingFaceError(f"{path}: should hold a table of keys, got {shown(data)}")
    return data


def read_config(directory: Path) -> Config:
    """The `config.json` of a directory; refuses quantised weights."""
    path = directory / "config.json"
    if not isfile(path):
        own = next((what for name, what in OWN.items() if isfile(directory / name)), None)
        remedy = f"; this is {own}: export it first with anyformer export {directory} DIRECTORY" if own else ""
        raise HuggingFaceError(f"{directory}: has no config.json{remedy}")
    data = read_table(path)
    quantised = data.get("quantization_config")
    if quantised:
        method = quantised.get("quant_method", "unknown") if isinstance(quantised, dict) else quantised
        raise HuggingFaceError(
            f"{path}: the weights are quantised ({method}); take the unquantised checkpoint, or dequantise it with "
            f"transformers' model.dequantize() and save_pretrained()"
        )
    return Config(data, str(path))
