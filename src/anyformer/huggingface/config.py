"""The keys of a `config.json`, one by one: read from the file, or written with values taken from an architecture."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from os.path import isdir, isfile  # which no name is too long for
from pathlib import Path
from typing import Any

from anyformer.describe import DescriptionError, UserError, read_data
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.places import PLACES
from anyformer.huggingface.target import Place, Target, nowhere, value_at
from anyformer.huggingface.vocabulary import KINDS, NULL, ValueKind, misfits
from anyformer.text.conventions import GENERATION_KEYS

OWN = {"run.toml": "a run", "manifest.json": "a checkpoint"}
"""File -> which of our own directories has it: none of them is a Hugging Face model."""
FEW_BITS = ("quantization_config", "compression_config")
"""Keys under which a format of weights in few bits stands; the second is that of older compressed-tensors."""
FEW_BITS_BESIDE = "hf_quant_config.json"
"""The file in which Model Optimizer wrote that table before `config.json` had it."""
SPOKEN = (*GENERATION_KEYS, "id2label", "label2id", "num_labels", "sep_token_id", "unk_token_id")
"""How a model is spoken to: read by `anyformer.text` (ends, first tokens, classes) and by generation, which honours these keys
or refuses them; no logit depends on them. Heads read the number of classes."""
LENGTHS = ("max_position_embeddings", "model_max_length")
"""The longest text: a convention where positions are computed, and read by the families of which they are learned."""
STORED = ("dtype", "torch_dtype", "use_bfloat16")
"""The type of stored weights: loading keeps what the files have."""
NAMES_OF_FILES = (
    "_commit_hash", "_name_or_path", "architectures", "auto_map", "finetuning_task", "model_type", "tokenizer_class",
    "transformers_version",
)  # fmt: skip
"""What a file comes from: `model_type` and `architectures` choose the family and the head, the others nothing."""
IN_TRAINING = (
    "classifier_dropout", "gradient_checkpointing", "initializer_range", "output_router_logits", "problem_type",
    "router_aux_loss_coef", "tf_legacy_loss",
)  # fmt: skip
"""First values, dropout and losses of training, where a family reads none of them: a run of ours has its own."""
RETURNED = ("output_past", "return_dict", "torchscript")
"""What a call of transformers' class gives back beside the logits."""
IN_PIECES = ("chunk_size_feed_forward", "pretraining_tp")
"""In how many pieces a product is computed: the sum is the same."""
OF_PIPELINES = ("prefix", "task_specific_params")
"""What `pipeline` of transformers puts before a prompt, or did for a task; its models' own `generate` does not."""
UNUSED = ("is_encoder_decoder", "pruned_heads")
"""What no class of transformers 5 reads; T5's read the first, and so do its families."""
INERT = (*SPOKEN, *LENGTHS, *STORED, *NAMES_OF_FILES, *IN_TRAINING, *RETURNED, *IN_PIECES, *OF_PIPELINES, *UNUSED)
"""Keys that no computation of any model depends on, unless its family reads them."""
ONLY: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "add_cross_attention": ((False, None), "there is no source that layers could read"),
    "cross_attention_hidden_size": ((None,), "there is no source that layers could read"),
}
"""Key of any model type -> the values that change nothing, and why another one is refused."""

REQUIRED: Any = object()
"""The default of a key that must be there."""


class Config:
    """The keys of one configuration, read or written.

    When reading, `config(name)` returns a key's value and marks it as read; `finish` refuses unread keys. When writing, there
    is no value yet but a `target`, the architecture: `config(name)` takes the value from its place there, records it, and
    returns it. So the one function of a family that builds an architecture from a configuration serves both directions.
    """

    def __init__(self, data: Mapping[str, Any], where: str = "config.json", *, target: Target | None = None) -> None:
        self._data, self._left, self._usual = dict(data), set(data), dict[str, Any]()
        self.where, self.target = where, target

    def __call__(self, name: str, default: Any = REQUIRED, at: Place | None = None, *, kind: ValueKind | None = None) -> Any:
        """The value of a key, checked against the vocabulary; its default where it is absent, without one an error.

        `at`: its place in an architecture, where that is not the one in `PLACES`. Null is a value of its own where the
        vocabulary says so, and means absence where the default is None. `kind`: another kind than the vocabulary's, which
        allows no null.
        """
        assert kind or name in KINDS, f"{name}: say in huggingface/vocabulary.py what its value has to be, or give a kind here"
        if self.target is not None:
            self._write(name, default, at or PLACES.get(name), self.target)
        self._left.discard(name)
        if name in self._data:
            value = self._data[name]
            wanted = kind or KINDS[name]
            if value is None and default is not None and (kind is not None or name not in NULL):
                raise self.refused(name, value, wanted.words)
            for path, misfit, expected in misfits(name, value, kind):
                raise self.refused(path, misfit, expected.words)
            return value
        default = self._usual.get(name, default)
        if default is REQUIRED:
            raise HuggingFaceError(f"{self.where}: {name} is missing")
        return default

    def _write(self, name: str, default: Any, place: Place | None, target: Target) -> None:
        """Record the value at a key's place, once.

        A key with a default is left out where its place is empty, or holds None and absence means None.
        """
        if place is None or name in self._data:
            return
        default = self._usual.get(name, default)
        try:
            value = value_at(target, place)
        except MismatchError:
            if default is REQUIRED:
                raise
            return
        if value is not None or default not in (None, REQUIRED):
            self._data[name] = value

    def either(self, *names: str, default: Any = REQUIRED) -> Any:
        """The value of a key that has several spellings, of which the first is written; refuses two that disagree."""
        first, *older = names
        values = {name: self._data[name] for name in names if self._data.get(name) is not None and self.target is None}
        if len(set(map(str, values.values()))) > 1:
            listed = " and ".join(f"{name} = {shown(value)}" for name, value in values.items())
            raise HuggingFaceError(f"{self.where}: {' and '.join(values)} are one thing, and here {listed}")
        for name in older:
            default = self(name, default, nowhere) if name in self else default
        return self(first, default)

    def put(self, **values: Any) -> None:
        """Write keys with fixed values, or functions of the target; does nothing when reading."""
        if self.target is not None:
            for name, value in values.items():
                self._data.setdefault(name, value(self.target) if callable(value) else value)

    @property
    def written(self) -> dict[str, Any]:
        """The keys and values so far."""
        return dict(self._data)

    def inner(self, name: str, side: str = "") -> Config:
        """The configuration that is the value of a key; `side`: the stack that it describes."""
        table = self(name, None) or {}
        target = None if self.target is None else Target(self.target.architecture, side)
        inner = Config(table, f"{self.where}: {name}", target=target)
        self._data |= {} if target is None else {name: inner._data}
        return inner

    def refused(self, path: str, value: Any, expected: str) -> HuggingFaceError:
        """The error about a value that is not what it has to be."""
        return HuggingFaceError(f"{self.where}: {path} = {shown(value)} should be {expected}")

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Within, an error about a part names the keys whose values it speaks of."""
        try:
            yield
        except ValueError as error:
            if isinstance(error, UserError) and not isinstance(error, DescriptionError):
                raise
            said = str(error)
            words = set(re.findall(r"[\w.+-]*\w", said))
            read = {name: value for name, value in self._data.items() if name not in self._left}
            words |= {str(read[name]) for name in _OF_HEADS if name in read and "head width" in said}
            spoken_of = [f"{path} = {shown(value)}" for path, value in _spoken_of(read, words)]
            raise HuggingFaceError(": ".join([self.where, *([", ".join(spoken_of)] if spoken_of else []), said])) from None

    def assume(self, **values: Any) -> None:
        """Set the values that absent keys have in the model's configuration class."""
        self._usual = {**values, **self._usual}

    def usual(self, name: str, default: Any) -> Any:
        """The value of a key where it is absent."""
        return self._usual.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self._data or name in self._usual

    @property
    def model_type(self) -> str:
        return str(self("model_type"))

    @property
    def class_name(self) -> str:
        """The class of transformers that the files were saved from; empty where none is named."""
        return next(iter(self("architectures", None) or ()), "")

    @property
    def task(self) -> str:
        """The end of the model class's name: `ForCausalLM`, `LMHeadModel`, `Model`; empty where none is named."""
        named = self.class_name
        if named.endswith("LMHeadModel"):
            return "LMHeadModel"
        if named.endswith("Model"):  # RoFormerModel too
            return "Model"
        return "For" + named.rpartition("For")[2] if "For" in named else ""

    def expect(self, name: str, *values: Any, why: str = "") -> None:
        """Refuse any value of `name` but these (or its absence), for another would change what is computed."""
        self._left.discard(name)
        got = {**self._usual, **self._data}.get(name, values[0])
        if not any(got == value and isinstance(got, bool) == isinstance(value, bool) for value in values):
            allowed = " or ".join(json.dumps(value) for value in values)
            raise HuggingFaceError(
                f"{self.where}: {name} = {shown(got)} is not supported for {self.model_type}, only {allowed}"
                + (f" ({why})" if why else "")
            )

    def expect_all(self, **values: Any) -> None:
        """Refuse any value of these keys but the one given for each (or its absence)."""
        for name, value in values.items():
            self.expect(name, value)

    def finish(self, inert: Iterable[str]) -> None:
        """Refuse keys that were not read and are not `inert`; those that are count as read."""
        for name in sorted(ONLY.keys() & self._left - set(inert)):
            values, why = ONLY[name]
            self.expect(name, *values, why=why)
        unknown = sorted(self._left - {*INERT, *inert})
        self._left = set(unknown)
        if unknown:
            listed = ", ".join(f"{name} = {shown(self._data[name])}" for name in unknown)
            raise HuggingFaceError(
                f"{self.where}: {self.model_type} has keys that are not known here, so the model might compute something else: "
                f"{listed}"
            )


_OF_HEADS = ("hidden_size", "num_attention_heads", "head_dim", "partial_rotary_factor")
"""Keys from which the width of a head follows."""


def _spoken_of(table: Mapping[str, Any], words: Collection[str], path: str = "") -> Iterator[tuple[str, Any]]:
    """The path and value of every number, name and list of them in a table, or in one within it, that is among the words."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _spoken_of(value, words, f"{path}{name}.")
        elif any(str(each) in words for each in (value if isinstance(value, list | tuple) else [value]) if each is not None):
            yield f"{path}{name}", value


def shown(value: Any) -> str:
    """A value as JSON, cut to 60 characters."""
    try:
        text = json.dumps(value, default=str)
    except ValueError:  # Python writes no number of more than 4,300 digits
        text = "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


def read_table(path: Path) -> dict[str, Any]:
    """The table in a JSON file of a Hugging Face directory."""
    try:
        data = read_data(path)
    except DescriptionError as error:
        raise HuggingFaceError(str(error)) from None
    if not isinstance(data, dict):
        raise HuggingFaceError(f"{path}: should hold a table of keys, got {shown(data)}")
    return data


def read_config(directory: Path) -> Config:
    """The `config.json` of a directory."""
    path = directory / "config.json"
    if not isfile(path):
        own = next((kind for name, kind in OWN.items() if isfile(directory / name)), None)
        remedy = f"; this is {own}: export it first with anyformer export {directory} DIRECTORY" if own else ""
        gguf = next((each.name for each in sorted(directory.glob("*.gguf"))), None) if isdir(directory) and not own else None
        remedy = f"; give its GGUF file: {directory / gguf}" if gguf else remedy
        raise HuggingFaceError(f"{directory}: has no config.json{remedy}")
    return Config(_with_format(read_table(path), directory), str(path))


def _with_format(data: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The configuration, with the format of the weights from a file beside it where it names none itself."""
    path = directory / FEW_BITS_BESIDE
    if any(data.get(key) for key in FEW_BITS) or not isfile(path):
        return data
    table = read_table(path).get("quantization")
    if not isinstance(table, dict):
        raise HuggingFaceError(f"{path}: quantization should be a table of keys, got {shown(table)}")
    return {**data, FEW_BITS[0]: {**table, "quant_method": "modelopt"}}
