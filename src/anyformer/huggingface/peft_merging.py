"""An adapter of PEFT's made one with the weights that it stands beside, whatever of a model it changes.

transformers' names are those under which a family stores its weights. So the weights of each stored matrix that an adapter
touches are written as they are stored, changed there as PEFT changes them, and read again: no rule of a family is in the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyformer.describe import change
from anyformer.huggingface.declared import shapes_of
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.fused import stacked
from anyformer.huggingface.patterns import ends
from anyformer.huggingface.peft_config import CONFIG, WEIGHTS, check_targets, read_config, read_tensors, scale_of
from anyformer.huggingface.peft_files import read_adapter
from anyformer.huggingface.peft_prompts import KIND
from anyformer.huggingface.rules import Then, Transposed, WeightRule, rules
from anyformer.model import Architecture
from anyformer.model.adapted import adapted

Parts = Mapping[str, Tensor]
"""Ending of a name in the files -> the tensor."""
_ROWS, _WRAPPED = "token_adapter.trainable_tokens_delta", ".base_layer"
_ENDINGS = (
    "lora_A.weight", "lora_B.weight", "lora_B.bias", "lora_magnitude_vector", "lora_embedding_A", "lora_embedding_B",
    _ROWS, "base_layer.weight", "base_layer.bias", "weight", "bias",
)  # fmt: skip
"""What may stand behind a module's name, longer ones first."""
_PAIRS = (("lora_A.weight", "lora_B.weight"), ("lora_embedding_A", "lora_embedding_B"))
_BESIDE = {"lora_B.bias", "lora_magnitude_vector"}
"""What changes the product of a pair, and is nothing without one."""


@dataclass(frozen=True)
class FoundAdapter:
    """The configuration and the tensors of an adapter, by module and ending."""

    directory: Path
    config: Mapping[str, Any]
    modules: Mapping[str, Parts]

    @staticmethod
    def of(directory: Path) -> FoundAdapter:
        config, modules = read_config(directory), dict[str, dict[str, Tensor]]()
        for name, tensor in read_tensors(directory).items():
            ending = next((each for each in _ENDINGS if name.endswith(f".{each}")), None)
            if ending is None:
                raise HuggingFaceError(f"{directory / WEIGHTS}: {name} is no parameter of an adapter that is read here")
            modules.setdefault(name.removesuffix(f".{ending}"), {})[ending] = tensor.float()
        if not modules:
            raise HuggingFaceError(f"{directory / WEIGHTS}: holds no adapter")
        for module, parts in modules.items():
            _check_pairs(directory, module, parts)
        return FoundAdapter(directory, config, modules)

    def scale(self, module: str, rank: int) -> float:
        """alpha / r of a module, or alpha / sqrt(r)."""
        return scale_of(self.directory, self.config, module, rank)

    def rows(self, module: str) -> list[int]:
        """The rows of a table that learn."""
        given: list[int] | Mapping[str, list[int]] = self.config.get("trainable_token_indices") or []
        if not isinstance(given, Mapping):
            return given
        where = f"{self.directory / CONFIG}: trainable_token_indices"
        return next((rows for pattern, rows in given.items() if ends(pattern, module, where)), [])


def merge_adapter(
    directory: str | Path, architecture: Architecture, family: Family, parameters: Mapping[str, Tensor]
) -> tuple[Architecture, dict[str, Tensor]]:
    """The model that computes what one of these `parameters` and the adapter of a directory do.

    Where the adapter changes one of two tied tables, each has its own. Changed weights are computed in fp32 and have the type
    of the model's. Raises `HuggingFaceError` for what has no place in the model.
    """
    if read_config(Path(directory))["peft_type"] == KIND:
        prompt, own = read_adapter(directory, architecture, family)
        return adapted(architecture, prompt), prompt.merged(parameters, own)
    found = FoundAdapter.of(Path(directory))
    architecture, merged = _untied(found, architecture, family, dict(parameters))
    shapes, left = shapes_of(architecture), {module: set(parts) for module, parts in found.modules.items()}
    of_weights = rules(family.names_of(architecture), shapes)
    for rule in stacked(of_weights):
        touched = [(name, module) for name in rule.stored for module in found.modules if name in _names_of(module, family)]
        if not touched:
            continue
        dtype = merged[rule.parameters[0]].dtype
        stored = dict(zip(rule.stored, rule.op.write([merged[name].float() for name in rule.parameters]), strict=True))
        for name, module in dict(touched).items():
            stored[name] = _fitting(found, name, module, stored[name], rule)
        read = rule.op.read([stored[name] for name in rule.stored], [shapes[name] for name in rule.parameters])
        merged |= {name: x.to(dtype).contiguous() for name, x in zip(rule.parameters, read, strict=True)}
        for name, module in touched:
            left[module] -= _used(name, rule, shapes)
    if unused := {module: endings for module, endings in left.items() if endings}:
        module = min(unused)
        what = "the adapter" if unused[module] == set(found.modules[module]) else min(unused[module])
        raise HuggingFaceError(f"{found.directory}: {what} of {module} has no place in this architecture ({family.model_type})")
    reached = {name for module in found.modules for name in _names_of(module, family)}
    check_targets(found.directory, found.config, of_weights, shapes, reached)
    return architecture, merged


def _check_pairs(directory: Path, module: str, parts: Parts) -> None:
    """Refuse parts of an adapter without A or B."""
    pairs = [[ending in parts for ending in pair] for pair in _PAIRS]
    if any(any(pair) and not all(pair) for pair in pairs) or (_BESIDE & parts.keys() and not any(map(all, pairs))):
        raise HuggingFaceError(f"{directory}: the adapter of {module} lacks lora_A or lora_B")


def _used(name: str, rule: WeightRule, shapes: Mapping[str, tuple[int, ...]]) -> set[str]:
    """The endings of what changes a stored weight of this name."""
    if name.endswith(".bias"):
        return {"bias", "base_layer.bias", "lora_B.bias"}
    if len(shapes[rule.parameters[0]]) == 3 and len(rule.stored) == 1:
        return {"lora_A.weight", "lora_B.weight"}
    return {*_ENDINGS} - {"bias", "base_layer.bias", "lora_B.bias"}


def _fitting(found: FoundAdapter, name: str, module: str, W: Tensor, rule: WeightRule) -> Tensor:
    """`_changed`; refuses tensors whose shapes do not fit the weight."""
    try:
        changed = _changed(found, name, module, W, rule)
    except (RuntimeError, IndexError, ValueError) as error:  # of products and sums of other shapes
        problem = str(error)
    else:
        if changed.shape == W.shape:
            return changed
        problem = f"it would be {tuple(changed.shape)}"
    sizes = ", ".join(f"{ending} {tuple(x.shape)}" for ending, x in sorted(found.modules[module].items()))
    raise HuggingFaceError(
        f"{found.directory}: the adapter of {module} ({sizes}) does not fit {name} of shape {tuple(W.shape)}: {problem}"
    )


def _untied(
    found: FoundAdapter, architecture: Architecture, family: Family, parameters: dict[str, Tensor]
) -> tuple[Architecture, dict[str, Tensor]]:
    """The model with a head of its own where the adapter changes the embedding's table alone, or the head alone."""
    head, table = architecture.head, architecture.head_table
    if head is None or table is None or not head.tied:
        return architecture, parameters
    apart = change(architecture, "head.tied", False)
    names = {rule.parameters[0]: rule.stored[0] for rule in rules(family.names_of(apart), shapes_of(apart))}
    both = {names[table[0]], names["head.weight"]}
    # Rows that learn are those of both.
    touched = [module for module, parts in found.modules.items() if set(parts) - {_ROWS}]
    if not any(both & set(_names_of(module, family)) for module in touched):
        return architecture, parameters
    return apart, {**parameters, "head.weight": parameters[table[0]].clone()}


def _names_of(module: str, family: Family) -> Iterator[str]:
    """Names under which what an adapter changes may be stored: adapters of a headless model lack the family's prefix."""
    plain = module.replace(_WRAPPED, "")
    for prefix in ("", family.base):
        yield from (f"{prefix}{plain}.weight", f"{prefix}{plain}.bias", f"{prefix}{plain}")
        if plain.endswith(".experts"):
            yield from (f"{prefix}{plain}.gate_up_proj", f"{prefix}{plain}.down_proj")


def _changed(found: FoundAdapter, name: str, module: str, W: Tensor, rule: WeightRule) -> Tensor:
    """A stored weight with what the adapter does to it."""
    parts = found.modules[module]
    if name.endswith(".bias"):
        return _bias(found, module, W, parts)
    if W.dim() == 3:
        return _experts(found, name, W, rule)
    W = parts.get("weight", parts.get("base_layer.weight", W))
    if (rows := parts.get(_ROWS)) is not None:
        return W.index_copy(0, torch.tensor(found.rows(module)), rows)
    m = parts.get("lora_magnitude_vector")
    if "lora_embedding_A" in parts:
        A, B = parts["lora_embedding_A"], parts["lora_embedding_B"]
        V = W + found.scale(module, len(A)) * _like(W, (B @ A).mT)
        return V if m is None else V * (_like(V[0], m) / torch.linalg.vector_norm(V, dim=0))
    if "lora_A.weight" not in parts:
        return W
    A, B = parts["lora_A.weight"], parts["lora_B.weight"]
    turned = bool(found.config.get("fan_in_fan_out"))
    W = W.mT if turned else W
    V = W + found.scale(module, len(A)) * _like(W, B @ A)
    if m is not None:
        V = V * (_like(V[:, 0], m) / torch.linalg.vector_norm(V, dim=1))[:, None]
    return V.mT if turned else V


def _like(weight: Tensor, part: Tensor) -> Tensor:
    """A part of the weight's shape; refuses another, which might be repeated along it without a word."""
    if part.shape != weight.shape:
        raise ValueError(f"{tuple(part.shape)} beside {tuple(weight.shape)}")
    return part


def _bias(found: FoundAdapter, module: str, b: Tensor, parts: Parts) -> Tensor:
    """A stored bias, replaced, or with the bias of B."""
    b = parts.get("bias", parts.get("base_layer.bias", b))
    more = parts.get("lora_B.bias")
    return b if more is None else b + found.scale(module, len(parts["lora_A.weight"])) * _like(b, more)


def _experts(found: FoundAdapter, name: str, W: Tensor, rule: WeightRule) -> Tensor:
    """Stacked experts (X, O, I), or (X, I, O): of A each has some of the rows, of B every X-th column."""
    inner, experts = name.rpartition(".")[0], len(W)
    for module, parts in found.modules.items():
        A, B = parts.get("lora_A.weight"), parts.get("lora_B.weight")
        if A is None or B is None or not inner.endswith(module.replace(_WRAPPED, "")):
            continue
        sizes, rank = (B.shape[0], A.shape[1]), len(A) // experts
        fits = [turned for turned in (False, True) if sizes == tuple(W.mT.shape[1:] if turned else W.shape[1:])]
        if fits:
            turned = _turned(rule) if len(fits) == 2 else fits[0]
            delta = torch.einsum("orx,xri->xoi", B.view(sizes[0], rank, experts), A.view(experts, rank, sizes[1]))
            W = W + found.scale(module, rank) * (delta.mT if turned else delta)
    return W


def _turned(rule: WeightRule) -> bool:
    """Whether the stored experts are (X, I, O)."""
    first = rule.op.first if isinstance(rule.op, Then) else rule.op
    return isinstance(first, Transposed)
