"""An adapter of PEFT's made one with the weights that it stands beside, whatever of a model it changes.

transformers' names are those under which a family stores its weights. So the weights of each stored matrix that an adapter
touches are written as they are stored, changed there as PEFT changes them, and read again: no rule of a family is in the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyformer.describe import change
from anyformer.huggingface.convert import shapes_of
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.fused import stacked
from anyformer.huggingface.peft_config import WEIGHTS, read_config, read_tensors, scale_of
from anyformer.huggingface.peft_files import read_adapter
from anyformer.huggingface.peft_prompts import KIND
from anyformer.huggingface.rules import Rule, Then, Transposed, rules
from anyformer.model import Architecture
from anyformer.model.adapters import adapted

Parts = Mapping[str, Tensor]
"""Ending of a name in the files -> the tensor."""
_ROWS, _WRAPPED = "token_adapter.trainable_tokens_delta", ".base_layer"
_ENDINGS = (
    "lora_A.weight", "lora_B.weight", "lora_B.bias", "lora_magnitude_vector", "lora_embedding_A", "lora_embedding_B",
    _ROWS, "base_layer.weight", "base_layer.bias", "weight", "bias",
)  # fmt: skip
"""What may stand behind a module's name, longer ones first."""


@dataclass(frozen=True)
class Found:
    """The configuration and the tensors of an adapter, by module and ending."""

    directory: Path
    config: Mapping[str, Any]
    modules: Mapping[str, Parts]

    @staticmethod
    def of(directory: Path) -> Found:
        config, modules = read_config(directory), dict[str, dict[str, Tensor]]()
        for name, tensor in read_tensors(directory).items():
            ending = next((each for each in _ENDINGS if name.endswith(f".{each}")), None)
            if ending is None:
                raise HuggingFaceError(f"{directory / WEIGHTS}: {name} is no parameter of an adapter that is read here")
            modules.setdefault(name.removesuffix(f".{ending}"), {})[ending] = tensor.float()
        if not modules:
            raise HuggingFaceError(f"{directory / WEIGHTS}: holds no adapter")
        return Found(directory, config, modules)

    def scale(self, module: str, rank: int) -> float:
        """alpha / r of a module, or alpha / sqrt(r)."""
        return scale_of(self.config, module, rank)

    def rows(self, module: str) -> list[int]:
        """The rows of a table that learn."""
        given = self.config.get("trainable_token_indices") or []
        if not isinstance(given, Mapping):
            return list(given)
        return next((list(rows) for name, rows in given.items() if re.match(rf"(.*\.)?({name})$", module)), [])


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
    found = Found.of(Path(directory))
    architecture, merged = _untied(found, architecture, family, dict(parameters))
    shapes, left = shapes_of(architecture), set(found.modules)
    for rule in stacked(rules(family.names_of(architecture), shapes)):
        touched = [(name, module) for name in rule.stored for module in found.modules if name in _names_of(module, family)]
        if not touched:
            continue
        dtype = merged[rule.parameters[0]].dtype
        stored = dict(zip(rule.stored, rule.op.write([merged[name].float() for name in rule.parameters]), strict=True))
        for name, module in dict(touched).items():
            stored[name] = _changed(found, name, module, stored[name], rule)
        read = rule.op.read([stored[name] for name in rule.stored], [shapes[name] for name in rule.parameters])
        merged |= {name: x.to(dtype).contiguous() for name, x in zip(rule.parameters, read, strict=True)}
        left -= {module for _, module in touched}
    if left:
        raise HuggingFaceError(
            f"{found.directory}: the adapter of {min(left)} has no place in this architecture ({family.model_type})"
        )
    return architecture, merged


def _untied(
    found: Found, architecture: Architecture, family: Family, parameters: dict[str, Tensor]
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


def _changed(found: Found, name: str, module: str, W: Tensor, rule: Rule) -> Tensor:
    """A stored weight with what the adapter does to it."""
    parts = found.modules[module]
    if name.endswith(".bias"):
        return _bias(found, module, W, parts)
    if W.dim() == 3:
        return _experts(found, name, W, rule)
    W = parts.get("weight", parts.get("base_layer.weight", W))
    if (rows := parts.get(_ROWS)) is not None:
        return W.index_copy(0, torch.tensor(found.rows(module)), rows)
    if "lora_embedding_A" in parts:
        A, B = parts["lora_embedding_A"], parts["lora_embedding_B"]
        V = W + found.scale(module, len(A)) * (B @ A).mT
        m = parts.get("lora_magnitude_vector")
        return V if m is None else V * (m / torch.linalg.vector_norm(V, dim=0))
    if "lora_A.weight" not in parts:
        return W
    if "lora_B.weight" not in parts:
        raise HuggingFaceError(f"{found.directory}: the adapter of {module} lacks lora_A or lora_B")
    A, B = parts["lora_A.weight"], parts["lora_B.weight"]
    turned = bool(found.config.get("fan_in_fan_out"))
    V = (W.mT if turned else W) + found.scale(module, len(A)) * (B @ A)
    if (m := parts.get("lora_magnitude_vector")) is not None:
        V = V * (m / torch.linalg.vector_norm(V, dim=1))[:, None]
    return V.mT if turned else V


def _bias(found: Found, module: str, b: Tensor, parts: Parts) -> Tensor:
    """A stored bias, replaced, or with the bias of B."""
    b = parts.get("bias", parts.get("base_layer.bias", b))
    more = parts.get("lora_B.bias")
    return b if more is None else b + found.scale(module, len(parts["lora_A.weight"])) * more


def _experts(found: Found, name: str, W: Tensor, rule: Rule) -> Tensor:
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


def _turned(rule: Rule) -> bool:
    """Whether the stored experts are (X, I, O)."""
    first = rule.op.first if isinstance(rule.op, Then) else rule.op
    return isinstance(first, Transposed)
