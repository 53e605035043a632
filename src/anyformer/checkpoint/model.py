"""A model on disk: its architecture, its weights and its tokenizer, in one sealed directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from anyformer.checkpoint.few_bits import QUANTISED, InFewBits, gathered, in_few_bits, planes
from anyformer.checkpoint.manifest import ARCHITECTURE, WEIGHTS, CheckpointError, Manifest, verify, writing
from anyformer.data import Tokenizer
from anyformer.describe import Value, from_json, to_json
from anyformer.model import Architecture, Transformer
from anyformer.model.adapters import adapted
from anyformer.plan import Plan
from anyformer.quantising import Quantised
from anyformer.tuning import Adapter

TOKENIZER = "tokenizer.json"
ADAPTER, ADAPTER_WEIGHTS = "adapter.json", "adapter.safetensors"


class Adapted(Value):
    """What a checkpoint says of its adapter."""

    adapter: Adapter


def save(
    model: Transformer,
    directory: Path,
    *,
    tokenizer: Tokenizer | None = None,
    extra: Mapping[str, Mapping[str, Tensor]] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write a checkpoint, whole or not at all. `extra`: more files of tensors by name, such as the optimiser's state.

    Weights of the model and those of its adapter are two files, so that either can be had without the other.
    """
    with writing(directory, {"kind": "anyformer", **(facts or {})}) as partial:
        tensors = weights(model)
        own = {name: x for name, x in tensors.items() if name not in model.added}
        save_file(planes(own), partial / WEIGHTS)
        if (few := in_few_bits(own)) is not None:
            (partial / QUANTISED).write_text(to_json(few), encoding="utf-8")
        (partial / ARCHITECTURE).write_text(to_json(model.bare), encoding="utf-8")
        if model.adapter is not None:
            save_file({name: tensors[name] for name in model.added}, partial / ADAPTER_WEIGHTS)
            (partial / ADAPTER).write_text(to_json(Adapted(adapter=model.adapter)), encoding="utf-8")
        if tokenizer is not None:
            tokenizer.save(partial)
        for name, more in (extra or {}).items():
            save_file(_stored(more.items()), partial / f"{name}.safetensors")


def load(
    directory: Path,
    *,
    plan: Plan | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    merge: bool = True,
) -> tuple[Transformer, Tokenizer | None, Manifest]:
    """The verified model, its tokenizer if it has one, and the manifest. `dtype`: convert the weights, else keep theirs.

    `merge`: an adapter becomes one with the weights that it stands beside; else the model is that without the adapter.
    """
    manifest = verify(directory)
    with torch.device("meta"):
        model = Transformer(_architecture(directory), plan)
    tensors = stored_weights(directory)
    check(model, tensors, directory / WEIGHTS)
    found = adapter_of(directory, manifest) if merge else None
    if found is not None:
        adapter, added = found
        tensors = adapter.merged(tensors, added)
        with torch.device("meta"):
            model = Transformer(adapted(architecture, adapter), plan)
    fill(model, tensors, directory / WEIGHTS, device, dtype)
    tokenizer = Tokenizer.load(directory / TOKENIZER) if TOKENIZER in manifest.files else None
    return model.eval(), tokenizer, manifest


def adapter_of(directory: Path, manifest: Manifest) -> tuple[Adapter, dict[str, Tensor]] | None:
    """The adapter of a verified checkpoint and its parameters by name, None if it has none."""
    if ADAPTER not in manifest.files:
        return None
    if ADAPTER_WEIGHTS not in manifest.files:
        raise CheckpointError(f"{directory}: has {ADAPTER}, but no {ADAPTER_WEIGHTS}")
    path = directory / ADAPTER
    said = from_json(Adapted, path.read_text(encoding="utf-8"), str(path))
    return said.adapter, read(directory / ADAPTER_WEIGHTS)


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, by name, on the CPU."""
    return _stored(model.named_parameters())


def _stored(tensors: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors}


def stored_weights(directory: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint without its adapter, by name; matrices in few bits as they are stored."""
    tensors, path = read(directory / WEIGHTS), directory / QUANTISED
    if not path.is_file():
        return tensors
    said = from_json(InFewBits, path.read_text(encoding="utf-8"), str(path))
    return gathered(tensors, said, _architecture(directory), directory / WEIGHTS)


def _architecture(directory: Path) -> Architecture:
    path = directory / ARCHITECTURE
    return from_json(Architecture, path.read_text(encoding="utf-8"), str(path))


def read(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file. Raises `CheckpointError`, which names the file, if it cannot be read."""
    try:
        return load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: cannot be read as safetensors ({error})") from None


def fill(
    model: Transformer,
    tensors: Mapping[str, Tensor],
    source: Path,
    device: torch.device | str,
    dtype: torch.dtype | None = None,
) -> None:
    """Replace every parameter of a model on the meta device by its tensor."""
    check(model, tensors, source)
    for name, empty in dict(model.named_parameters()).items():
        owner, _, leaf = name.rpartition(".")
        value = tensors[name].to(device=device, dtype=dtype or tensors[name].dtype)
        setattr(model.get_submodule(owner), leaf, nn.Parameter(value, requires_grad=empty.requires_grad))


def restore(model: Transformer, directory: Path) -> None:
    """Copy the weights of a checkpoint into the model's parameters, which stay the same objects for its optimiser."""
    tensors = stored_weights(directory)
    if model.adapter is not None:
        tensors |= read(directory / ADAPTER_WEIGHTS)
    check(model, tensors, directory / WEIGHTS)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if isinstance(parameter, Quantised):
                parameter.become(tensors[name])
            else:
                parameter.copy_(tensors[name])


def check(model: Transformer, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Names and shapes must match exactly: nothing is skipped silently."""
    wanted = dict(model.named_parameters())
    missing, surplus = sorted(wanted.keys() - tensors.keys()), sorted(tensors.keys() - wanted.keys())
    if missing or surplus:
        raise CheckpointError(
            f"{source}: does not hold this architecture's weights; missing {missing[:5]}, surplus {surplus[:5]}"
        )
    for name, parameter in wanted.items():
        if parameter.shape != tensors[name].shape:
            raise CheckpointError(
                f"{source}: {name} has shape {tuple(tensors[name].shape)}, the architecture says {tuple(parameter.shape)}"
            )
