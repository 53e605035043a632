"""Where a run starts from: the weights of a run, a checkpoint or a Hugging Face directory, as far as they fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from os.path import abspath, isdir
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyformer.checkpoint import BY_ONE, Checkers, at_hand, few_bits_of, newest
from anyformer.describe import UserError, spelled
from anyformer.hub import is_hub, parsed, pinned
from anyformer.loading import load
from anyformer.model.divided import copy_in
from anyformer.model.portions import Portion, Types
from anyformer.model.transformer import Transformer
from anyformer.quantising.model import held_as
from anyformer.quantising.planes import put, weights_of
from anyformer.quantising.tensor import Quantised, restored
from anyformer.resolving import architecture
from anyformer.text import Tokenizer
from anyformer.text.beside import Beside
from anyformer.text.tokenizers import has_tokenizer

_SHOWN = 6
"""Names of weights listed in a line of the report."""

STORED = "fp32"
"""The format of a base of which nothing is said."""
WITHOUT_TEXT = ("task", "images", "arrays", "pixels")
"""Kinds of data that have no text, or symbols of their own."""


@dataclass(frozen=True)
class Taken:
    """Names of the weights that were `taken`, with their number of parameters; of those that are `new` in this run, of those
    `unused`, and of those whose `shapes` differ, there and here."""

    source: str
    taken: tuple[str, ...]
    parameters: int
    new: tuple[str, ...]
    unused: tuple[str, ...]
    shapes: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]

    def lines(self) -> list[str]:
        """The report, the clean case in one line."""
        said = [f"start from {self.source}: took {len(self.taken):,} tensors, {self.parameters:,} parameters"]
        differ = [f"{name} {_size(there)} there, {_size(here)} here" for name, (there, here) in self.shapes.items()]
        for words, names in (("new", self.new), ("not used", self.unused), ("shape differs, so new", differ)):
            if names:
                said.append(f"  {words}: {_listed(names)}")
        return said


@dataclass
class Taking:
    """`Divide` of a model that is read for its weights alone: each that fits is given to `model`, and none is kept.

    Of a model that several processes divide, each process gives its part. `base`: see `take`.
    """

    model: Transformer
    source: str
    base: str
    there: Mapping[str, tuple[int, ...]] = field(default_factory=dict, init=False)
    """The shapes of the source's weights."""
    here: Mapping[str, tuple[int, ...]] = field(init=False)
    """The shapes of the model's weights, which other processes may have."""

    def __post_init__(self) -> None:
        self.here = {name: weight.shape for name, weight in self.model.declared.items() if name not in self.model.added}

    @property
    def fits(self) -> list[str]:
        """The names of weights that are taken."""
        return [name for name, shape in self.here.items() if self.there.get(name) == shape]

    def __call__(self, found: Transformer, types: Types) -> Portion:
        """Hear of the model that is read, before its weights. Raises `UserError` if none of them fits."""
        self.there = {name: tuple(weight.shape) for name, weight in found.named_parameters()}
        if not self.fits:
            raise UserError(
                f"start_from: no weight of {self.source} fits this architecture (there {found.architecture.shape_of_model} of "
                f"width {found.architecture.width}, here {self.model.architecture.shape_of_model} of width "
                f"{self.model.architecture.width}); leave architecture out to take that of start_from"
            )
        own, fits = weights_of(self.model), set(self.fits)

        def given(name: str, value: Tensor) -> Tensor:
            if name in fits and name in own:
                self._give(name, own[name], value)
            return torch.empty(0)

        return given

    def _give(self, name: str, weight: Tensor, value: Tensor) -> None:
        if isinstance(weight, Quantised):
            put(weight, value)
        elif isinstance(value, Quantised) and value.format.name == self.base and not weight.requires_grad:
            held_as(self.model, name, value)
        else:
            copy_in(weight, restored(value))


def take(model: Transformer, source: str, tokenizer: Tokenizer, base: str = STORED, among: Checkers = BY_ONE) -> Taken:
    """Give a model the weights of `source` whose names and shapes fit.

    `base`: the format of weights that do not learn; matrices that are stored in it are taken to the bit. `among`: the processes
    that check the source's digests together.

    Raises `UserError` where none fits, or where the source's tokens are others than those of this run.
    """
    taking = Taking(model, source, base)
    _, theirs = load(source, divide=taking, among=among)
    here, there, fits = taking.here, taking.there, taking.fits
    if theirs is not None and theirs != tokenizer and any(name.startswith("embedding.") for name in fits):
        raise UserError(
            f"start_from: {source} was trained with other tokens ({theirs.vocab_size:,}) than data.tokenizer makes "
            f"({tokenizer.vocab_size:,}), so its embedding has other words in its rows; leave data.tokenizer out to take that "
            "of start_from"
        )
    return Taken(
        source,
        tuple(fits),
        sum(prod(here[name]) for name in fits),
        tuple(name for name in here if name not in there),
        tuple(name for name in there if name not in here),
        {name: (there[name], shape) for name, shape in here.items() if name in there and there[name] != shape},
    )


def tokenizer_of(source: str | Path) -> str | None:
    """Path of the tokenizer of a run, a checkpoint or a Hugging Face directory; None where there is none."""
    path = newest(at_hand(source))
    return str(path) if has_tokenizer(Beside.read(path)) else None


def base_of(source: str | Path) -> str | None:
    """The format in which the matrices of a run or a checkpoint are stored in few bits; None where they are plain numbers."""
    return few_bits_of(newest(at_hand(source)))


def completed(data: dict[str, Any], beside: Path = Path()) -> dict[str, Any]:
    """The data of a run with what follows from its `start_from`: the architecture and the tokenizer, where they are not named.

    A relative path is looked for `beside` the run's file first. A model of a hub is named with its commit from here on.
    """
    source = data.get("start_from")
    if not isinstance(source, str) or _says_all(data, source):
        return data
    path = beside / source if isdir(beside / source) else at_hand(source)
    if not isdir(path):
        raise UserError(f"start_from: {source}: no such directory; give that of a run, a checkpoint or a Hugging Face model")
    made = {**data, "start_from": lasting(path)}
    if "architecture" not in data:
        made["architecture"] = architecture(path).plain()
    tuning = data.get("tuning")
    if isinstance(tuning, Mapping) and "adapter" in tuning and "base" not in tuning and (base := base_of(path)):
        made["tuning"] = {**tuning, "base": base}
    text = data.get("data")
    if isinstance(text, Mapping) and spelled("tokenizer", text) not in text:
        if file := tokenizer_of(path):
            made["data"] = {**text, "tokenizer": {"kind": "file", "path": lasting(Path(file))}}
        elif text.get("kind", "text") not in WITHOUT_TEXT and architecture(path).embedding.symbols is not None:
            raise UserError(
                f"start_from: {source}: has a table of tokens and no tokenizer, so nobody knows which token is which: put its "
                "tokenizer.json into the directory, or name the one it was trained with: "
                "data.tokenizer = {kind = 'file', path = PATH}; a new one is learnt only if it is named, as in "
                "data.tokenizer = {kind = 'byte_pairs'}"
            )
    return made


def lasting(path: Path) -> str:
    """What a run names a model by: one of a hub by its commit, any other by its absolute path."""
    return pinned(path) or abspath(path)


def _says_all(data: Mapping[str, Any], source: str) -> bool:
    """Whether nothing is to be read of a model on a hub: its commit, the architecture and the tokenizer are named."""
    text = data.get("data")
    if not is_hub(source) or parsed(source).commit is None or "architecture" not in data:
        return False
    return isinstance(text, Mapping) and spelled("tokenizer", text) in text


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
