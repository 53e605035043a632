"""A model on disk: its architecture, its weights and its tokenizer, in one sealed directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from anyformer.checkpoint.few_bits import QUANTISED, InFewBits, gathered, in_few_bits, planes
from anyformer.checkpoint.manifest import ARCHITECTURE, WEIGHTS, CheckpointError, Manifest, verify, writing
from anyformer.describe import Value, from_json, to_json
from anyformer.files import read_text
from anyformer.model import Architecture, Transformer
from anyformer.model.adapters import adapted
from anyformer.model.divided import copy_in
from anyformer.model.portions import Divide, keep_whole
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.precision.finite import check_finite
from anyformer.quantising import Quantised
from anyformer.text import Tokenizer
from anyformer.text.beside import FOLDER, Beside
from anyformer.tuning import Adapter

ADAPTER, ADAPTER_WEIGHTS = "adapter.json", "adapter.safetensors"


class Adapted(Value):
    """What a checkpoint says of its adapter."""

    adapter: Adapter


Take = Callable[[Tensor], Tensor]
"""How a checkpoint takes a tensor: itself, or a copy that later updates leave alone; on the CPU and contiguous."""


def shared(tensor: Tensor) -> Tensor:
    """The tensor itself where it is on the CPU and contiguous."""
    return tensor.detach().cpu().contiguous()


def copied(tensor: Tensor) -> Tensor:
    """A copy on the CPU."""
    return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


@dataclass(frozen=True)
class Contents:
    """What a checkpoint is written from: tensors by file and name, texts by file, and what its manifest says."""

    tensors: Mapping[str, Mapping[str, Tensor]]
    texts: Mapping[str, str]
    beside: Beside
    facts: Mapping[str, Any]


def contents(
    model: Transformer,
    *,
    tokenizer: Tokenizer | None = None,
    beside: Beside | None = None,
    extra: Mapping[str, Mapping[str, Tensor]] | None = None,
    facts: Mapping[str, Any] | None = None,
    take: Take = shared,
) -> Contents:
    """The contents of a model's checkpoint. `extra`: more files of tensors by name, such as the optimiser's state.

    `beside`: what stands beside the weights, by default the tokenizer's files and what it was read with.

    Weights of the model and those of its adapter are two files, so that either can be had without the other.
    """
    own = {name: x.detach() for name, x in model.named_parameters() if name not in model.added}
    files = {WEIGHTS: {name: take(x) for name, x in planes(own).items()}}
    texts = {ARCHITECTURE: to_json(model.bare)}
    if (few := in_few_bits(own)) is not None:
        texts[QUANTISED] = to_json(few)
    if model.adapter is not None:
        files[ADAPTER_WEIGHTS] = {name: take(x) for name, x in model.named_parameters() if name in model.added}
        texts[ADAPTER] = to_json(Adapted(adapter=model.adapter))
    more = {f"{name}.safetensors": {key: take(x) for key, x in named.items()} for name, named in (extra or {}).items()}
    kept = beside or (Beside() if tokenizer is None else tokenizer.beside)
    return Contents(files | more, texts, kept, {"kind": "anyformer", **(facts or {})})


def write(given: Contents, directory: Path) -> None:
    """Write a checkpoint, whole or not at all."""
    with writing(directory, given.facts) as partial:
        for name, tensors in given.tensors.items():
            save_file(dict(tensors), partial / name)
        for name, text in given.texts.items():
            (partial / name).write_text(text, encoding="utf-8")
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
) -> tuple[Transformer, Tokenizer | None, Manifest]:
    """The verified model, its tokenizer if it has one, and the manifest. `dtype`: convert the weights, else keep theirs.

    `merge`: an adapter becomes one with the weights that it stands beside; else the model is that without the adapter.
    `divide`: among processes, each of which holds its share.
    """
    manifest, architecture = verify(directory), _architecture(directory)
    with torch.device("meta"):
        model = Transformer(architecture, plan)
    tensors = stored_weights(directory)
    check(model, tensors, directory / WEIGHTS)
    found = adapter_of(directory, manifest) if merge else None
    if found is not None:
        adapter, added = found
        tensors = adapter.merged(tensors, added)
        with torch.device("meta"):
            model = Transformer(adapted(architecture, adapter), plan)
    fill(model, tensors, directory / WEIGHTS, device, dtype, divide)
    return model.eval(), Tokenizer.found(beside_of(directory, manifest)), manifest


def beside_of(directory: Path, manifest: Manifest) -> Beside:
    """What stands beside the weights of a verified checkpoint, as far as its manifest lists it."""
    beside = Beside.read(directory)
    listed = {name.removeprefix(f"{FOLDER}/") for name in manifest.files}
    return beside.but({name: None for name in beside.files if name not in listed})


def adapter_of(directory: Path, manifest: Manifest) -> tuple[Adapter, dict[str, Tensor]] | None:
    """The adapter of a verified checkpoint and its parameters by name, None if it has none."""
    if ADAPTER not in manifest.files:
        return None
    if ADAPTER_WEIGHTS not in manifest.files:
        raise CheckpointError(f"{directory}: has {ADAPTER}, but no {ADAPTER_WEIGHTS}")
    path = directory / ADAPTER
    said = from_json(Adapted, read_text(path, CheckpointError), str(path))
    added = read_weights(directory / ADAPTER_WEIGHTS)
    declared = said.adapter.added(_architecture(directory).trained_cost(Shape(source=1)))
    _check_same({name: weight.shape for name, weight in declared.items()}, added, directory / ADAPTER_WEIGHTS, "adapter")
    return said.adapter, added


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, by name, on the CPU."""
    return {name: shared(parameter) for name, parameter in model.named_parameters()}


def stored_weights(directory: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint without its adapter, by name; matrices in few bits as they are stored."""
    tensors, path = read_weights(directory / WEIGHTS), directory / QUANTISED
    if not path.is_file():
        return tensors
    said = from_json(InFewBits, read_text(path, CheckpointError), str(path))
    return gathered(tensors, said, _architecture(directory), directory / WEIGHTS)


def _architecture(directory: Path) -> Architecture:
    path = directory / ARCHITECTURE
    return from_json(Architecture, read_text(path, CheckpointError), str(path))


def read(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file. Raises `CheckpointError`, which names the file, if it cannot be read."""
    try:
        return load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: cannot be read as safetensors ({error})") from None


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file of weights. Raises `CheckpointError`, which names what is not finite."""
    tensors = read(path)
    for name, tensor in tensors.items():
        check_finite(tensor, f"{path}: {name}", CheckpointError)
    return tensors


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
    portion = divide(model)
    for name, empty in dict(model.named_parameters()).items():
        owner, _, leaf = name.rpartition(".")
        value = portion(name, tensors[name]).to(device=device)
        if not empty.is_floating_point():
            value = value.to(empty.dtype)  # whole numbers, such as a table of experts
        elif dtype is not None and value.is_floating_point():
            value = value.to(dtype)
        setattr(model.get_submodule(owner), leaf, nn.Parameter(value, requires_grad=empty.requires_grad))


def restore(model: Transformer, directory: Path) -> None:
    """Copy the weights of a checkpoint into the model's parameters, which stay the same objects for its optimiser."""
    tensors = stored_weights(directory)
    if model.adapter is not None:
        tensors |= read_weights(directory / ADAPTER_WEIGHTS)
    check(model, tensors, directory / WEIGHTS)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if isinstance(parameter, Quantised):
                parameter.become(tensors[name])
            else:
                copy_in(parameter, tensors[name])


def check(model: Transformer, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Names and shapes must match exactly: nothing is skipped silently."""
    wanted = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    _check_same(wanted, {name: x for name, x in tensors.items() if name in wanted or name not in model.stage_of}, source)


def _check_same(
    wanted: Mapping[str, tuple[int, ...]], tensors: Mapping[str, Tensor], source: Path, what: str = "architecture"
) -> None:
    missing, surplus = sorted(wanted.keys() - tensors.keys()), sorted(tensors.keys() - wanted.keys())
    if missing or surplus:
        raise CheckpointError(f"{source}: does not hold this {what}'s weights; missing {missing[:5]}, surplus {surplus[:5]}")
    for name, shape in wanted.items():
        if shape != tuple(tensors[name].shape):
            raise CheckpointError(f"{source}: {name} has shape {tuple(tensors[name].shape)}, the {what} says {shape}")
