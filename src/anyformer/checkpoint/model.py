"""A model on disk: its architecture, its weights and its tokenizer, in one sealed directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from anyformer.checkpoint.digests import BY_ONE, Checkers, verify
from anyformer.checkpoint.few_bits import QUANTISED, FewBitWeights, InFewBits, in_few_bits, planes, restore_few_bits
from anyformer.checkpoint.manifest import (
    ARCHITECTURE,
    WEIGHTS,
    CheckpointError,
    Manifest,
    ManifestEntry,
    entries_of,
    entry_of,
    seal,
    writing,
)
from anyformer.checkpoint.pieces import Pick, Piece, file_of, share_name, shared, whole_by, write_pieces
from anyformer.checkpoint.stored import StoredTensors, TensorsOnDisk, copy_stored, dtype_of, shapes_of
from anyformer.describe import Value, from_json, to_json
from anyformer.files import read_text
from anyformer.model import Architecture
from anyformer.model.adapted import adapted
from anyformer.model.initialise import on_meta
from anyformer.model.portions import Divide, keep_whole
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.quantising.planes import weights_of
from anyformer.quantising.tensor import Quantised
from anyformer.text import Tokenizer
from anyformer.text.beside import FOLDER, Beside
from anyformer.tuning import Adapter

ADAPTER, ADAPTER_WEIGHTS = "adapter.json", "adapter.safetensors"
_WHOLE = whole_by(shared)


class Adapted(Value):
    """What a checkpoint says of its adapter."""

    adapter: Adapter


@dataclass(frozen=True)
class Contents:
    """What a checkpoint is written from: tensors by file and name, descriptions by file, and what its manifest says.

    Of tensors that several processes write together, what this one writes.
    """

    tensors: Mapping[str, Mapping[str, Piece]]
    descriptions: Mapping[str, Value]
    beside: Beside
    facts: Mapping[str, Any]
    few_bits: InFewBits | None = None
    """What is said of matrices in few bits: of the stages of a pipeline each knows its own."""


def contents(
    model: Transformer,
    *,
    tokenizer: Tokenizer | None = None,
    beside: Beside | None = None,
    extra: Mapping[str, Mapping[str, Tensor]] | None = None,
    facts: Mapping[str, Any] | None = None,
    pick: Pick = _WHOLE,
) -> Contents:
    """The contents of a model's checkpoint. `extra`: more files of tensors by name, such as the optimiser's state.

    `beside`: what stands beside the weights, by default the tokenizer's files and what it was read with.

    Weights of the model and those of its adapter are two files, so that either can be had without the other.
    """

    def picked(file: str, tensors: Mapping[str, Tensor]) -> dict[str, Piece]:
        pieces = ((name, pick(file, name, x)) for name, x in tensors.items())
        return {name: piece for name, piece in pieces if piece is not None}

    own = {name: x.detach() for name, x in weights_of(model).items() if name not in model.added}
    files = {WEIGHTS: picked(WEIGHTS, planes(own))}
    descriptions: dict[str, Value] = {ARCHITECTURE: model.bare}
    if model.adapter is not None:
        files[ADAPTER_WEIGHTS] = picked(
            ADAPTER_WEIGHTS, {name: x for name, x in model.named_parameters() if name in model.added}
        )
        descriptions[ADAPTER] = Adapted(adapter=model.adapter)
    more = {file: picked(file, named) for name, named in (extra or {}).items() for file in (f"{name}.safetensors",)}
    kept = beside or (Beside() if tokenizer is None else tokenizer.beside)
    return Contents(files | more, descriptions, kept, {"kind": "anyformer", **(facts or {})}, in_few_bits(own))


def write(given: Contents, directory: Path) -> None:
    """Write a checkpoint, whole or not at all."""
    with writing(directory) as partial:
        for name, pieces in given.tensors.items():
            save_file({key: piece.values for key, piece in pieces.items()}, partial / name)
        write_texts(given, partial)
        seal(partial, given.facts, entries_of(partial))


def write_share(given: Contents, partial: Path, number: int, of: int) -> dict[str, ManifestEntry]:
    """Write what process `number` of so many holds into a directory that becomes a checkpoint; gives its files' entries."""
    # The first process writes every file: one without tensors is there, too.
    written = {share_name(name, number, of): pieces for name, pieces in given.tensors.items() if pieces or number == 0}
    for name, pieces in written.items():
        write_pieces(pieces, partial / name)
    return {name: entry_of(partial / name) for name in written}


def write_texts(given: Contents, partial: Path) -> None:
    """Write the files of a checkpoint that hold no tensors."""
    few_bits = {} if given.few_bits is None else {QUANTISED: given.few_bits}
    for name, value in {**given.descriptions, **few_bits}.items():
        (partial / name).write_text(to_json(value), encoding="utf-8")
    if given.beside.files:
        given.beside.keep(partial)


def save(
    model: Transformer,
    directory: Path,
    *,
    tokenizer: Tokenizer | None = None,
    beside: Beside | None = None,
    extra: Mapping[str, Mapping[str, Tensor]] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write the checkpoint of a model, whole or not at all; see `contents`."""
    write(contents(model, tokenizer=tokenizer, beside=beside, extra=extra, facts=facts), directory)


def load(
    directory: Path,
    *,
    plan: Plan | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    merge: bool = True,
    divide: Divide = keep_whole,
    among: Checkers = BY_ONE,
) -> tuple[Transformer, Tokenizer | None, Manifest]:
    """The verified model, its tokenizer if it has one, and the manifest. `dtype`: convert the weights, else keep theirs.

    `merge`: an adapter becomes one with the weights that it stands beside; else the model is that without the adapter.
    `divide`: among processes, each of which holds its share; `among`: the processes that check it together.
    """
    manifest, architecture = verify(directory, among=among), _architecture(directory)
    with on_meta():
        model = Transformer(architecture, plan)
    tensors: Mapping[str, Tensor] = stored_weights(directory)
    check(model, tensors, directory / WEIGHTS)
    found = adapter_of(directory, manifest) if merge else None
    if found is not None:
        adapter, added = found
        tensors = adapter.merged(tensors, added)
        with on_meta():
            model = Transformer(adapted(architecture, adapter), plan)
    fill(model, tensors, directory / WEIGHTS, device, dtype, divide)
    return model.eval(), Tokenizer.found(beside_of(directory, manifest)), manifest


def beside_of(directory: Path, manifest: Manifest) -> Beside:
    """What stands beside the weights of a verified checkpoint, as far as its manifest lists it."""
    beside = Beside.read(directory)
    listed = {name.removeprefix(f"{FOLDER}/") for name in manifest.files}
    return beside.but({name: None for name in beside.files if name not in listed})


def adapter_of(directory: Path, manifest: Manifest) -> tuple[Adapter, Mapping[str, Tensor]] | None:
    """The adapter of a verified checkpoint and its parameters by name, None if it has none."""
    if ADAPTER not in manifest.files:
        return None
    if ADAPTER_WEIGHTS not in map(file_of, manifest.files):
        raise CheckpointError(f"{directory}: has {ADAPTER}, but no {ADAPTER_WEIGHTS}")
    path = directory / ADAPTER
    said = from_json(Adapted, read_text(path, CheckpointError), str(path))
    added = read_weights(directory / ADAPTER_WEIGHTS)
    declared = said.adapter.added(_architecture(directory).trained_cost(Shape(source=1)))
    wanted = {name: weight.shape for name, weight in declared.items()}
    _check_same(wanted, added.shapes, directory / ADAPTER_WEIGHTS, "adapter")
    return said.adapter, added


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, by name, on the CPU."""
    return {name: shared(parameter) for name, parameter in model.named_parameters()}


def stored_weights(directory: Path) -> TensorsOnDisk:
    """The weights of a checkpoint without its adapter, by name; matrices in few bits as they are stored."""
    tensors, path = read_weights(directory / WEIGHTS), directory / QUANTISED
    if not path.is_file():
        return tensors
    said = from_json(InFewBits, read_text(path, CheckpointError), str(path))
    return FewBitWeights.of(tensors, said, _architecture(directory))


def _architecture(directory: Path) -> Architecture:
    path = directory / ARCHITECTURE
    return from_json(Architecture, read_text(path, CheckpointError), str(path))


def read(path: Path) -> StoredTensors:
    """The tensors of a safetensors file, or of its shares, each read when it is looked up.

    Raises `CheckpointError`, which names the file, if it cannot be read.
    """
    return StoredTensors.open(path)


def read_weights(path: Path) -> StoredTensors:
    """The tensors of a file of weights; looking up one that is not finite raises a `CheckpointError`, which names it."""
    return StoredTensors.open(path, finite=True)


def fill(
    model: Transformer,
    tensors: Mapping[str, Tensor],
    source: Path,
    device: torch.device | str,
    dtype: torch.dtype | None = None,
    divide: Divide = keep_whole,
) -> None:
    """Replace every parameter of a model on the meta device by its tensor, or by this process's portion of it."""
    check(model, tensors, source)
    whole = dict(model.named_parameters())
    portion = divide(model, lambda name: _held_as(dtype_of(tensors, name), whole[name], dtype))
    for name, empty in dict(model.named_parameters()).items():
        owner, _, leaf = name.rpartition(".")
        value = portion(name, tensors[name])
        value = value.to(device=device, dtype=_held_as(value.dtype, empty, dtype))
        setattr(model.get_submodule(owner), leaf, nn.Parameter(value, requires_grad=empty.requires_grad))


def _held_as(stored: torch.dtype, empty: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """The type in which the weight of a place is held; `dtype`: that of floating-point numbers, by default as `stored`."""
    if not empty.is_floating_point():
        return empty.dtype  # whole numbers, such as a table of experts
    return dtype if dtype is not None and stored.is_floating_point else stored


def restore(model: Transformer, directory: Path) -> None:
    """Copy the weights of a checkpoint into the model's parameters, which stay the same objects for its optimiser.

    A process reads its part of a weight that it divides with others.
    """
    files = [stored_weights(directory)]
    if model.adapter is not None:
        files.append(read_weights(directory / ADAPTER_WEIGHTS))
    place = {name: tensors for tensors in files for name in tensors}
    shapes = {name: shape for tensors in files for name, shape in shapes_of(tensors).items()}
    _check_shapes(model, shapes, directory / WEIGHTS)
    for name, weight in weights_of(model).items():
        if isinstance(weight, Quantised):
            restore_few_bits(place[name], name, weight)
        else:
            copy_stored(place[name], name, weight)


def check(model: Transformer, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Names and shapes must match exactly: nothing is skipped silently."""
    _check_shapes(model, shapes_of(tensors), source)


def _check_shapes(model: Transformer, shapes: Mapping[str, tuple[int, ...]], source: Path) -> None:
    wanted = {name: tuple(weight.shape) for name, weight in weights_of(model).items()}
    _check_same(wanted, {name: x for name, x in shapes.items() if name in wanted or name not in model.stage_of}, source)


def _check_same(
    wanted: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]], source: Path, what: str = "architecture"
) -> None:
    missing, surplus = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    if missing or surplus:
        raise CheckpointError(f"{source}: does not hold this {what}'s weights; missing {missing[:5]}, surplus {surplus[:5]}")
    for name, shape in wanted.items():
        if shape != found[name]:
            raise CheckpointError(f"{source}: {name} has shape {found[name]}, the {what} says {shape}")
