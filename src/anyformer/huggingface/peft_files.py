"""Adapters in PEFT's files, both ways: `adapter_config.json` and `adapter_model.safetensors` beside a family's own names.

A stored matrix may be several of ours, one after the other or by head ([q; k; v]). What acts on rows alone acts on B in the
same way, and A is that of all: so one stored adapter is one of each of ours. Back again, adapters of several matrices are one
whose A has the rows of all of theirs, and whose B has a block for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from anyformer.files import check_directory, writing_directory
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.files import write_json
from anyformer.huggingface.peft_config import (
    CONFIG,
    PREFIX,
    WEIGHTS,
    check_apart,
    check_targets,
    read_config,
    read_tensors,
    scale_of,
)
from anyformer.huggingface.peft_prompts import KIND, STORED, check_prompt, read_prompt, tensors_of, written_prompt
from anyformer.huggingface.rules import Op, WeightRule, rules
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.tuning import Adapter, Dora, Lora, Prompt
from anyformer.tuning.adapter import DOWN, MAGNITUDE, UP, LowRankAdapter, linear_maps
from anyformer.tuning.prompt import VIRTUAL

_STORED = {DOWN: "lora_A.weight", UP: "lora_B.weight", MAGNITUDE: "lora_magnitude_vector"}


@dataclass(frozen=True)
class _Beside:
    """A, B and, for DoRA, the lengths m beside one matrix; B A is multiplied by `scale`."""

    down: Tensor
    up: Tensor
    magnitude: Tensor | None
    scale: float


def read_adapter(directory: str | Path, architecture: Architecture, family: Family) -> tuple[Adapter, dict[str, Tensor]]:
    """The adapter of a directory as PEFT writes it, for a model of this family, and its parameters by our names.

    Raises `HuggingFaceError` for what is no LoRA or DoRA of the model's matrices and no prompt tuning.
    """
    directory = Path(directory)
    config, tensors = read_config(directory), read_tensors(directory)
    check_apart(directory, config)
    if config["peft_type"] == KIND:
        return read_prompt(config, tensors, architecture, str(directory)), {VIRTUAL: tensors[STORED].float()}
    shapes = {name: weight.shape for name, weight in architecture.cost(Shape(source=1)).weights.items()}
    of_weights = rules(family.names_of(architecture), shapes)
    stored = {rule.stored[0]: rule for rule in of_weights if len(rule.stored) == 1}
    found: dict[str, _Beside] = {}
    modules = sorted({name.split(".lora_")[0] for name in tensors})
    for module in modules:
        own = {word: tensors.pop(f"{module}.{leaf}", None) for word, leaf in _STORED.items()}
        A, B = own[DOWN], own[UP]
        rule = next((stored[name] for name in _names_of(module, family) if name in stored), None)
        if A is None or B is None or rule is None:
            problem = "has no place in this architecture" if rule is None else "lacks lora_A or lora_B"
            raise HuggingFaceError(f"{directory}: the adapter of {module} {problem} ({family.model_type})")
        if A.dim() != 2 or B.dim() != 2 or len(A) != B.shape[1]:
            both = f"lora_A {tuple(A.shape)} and lora_B {tuple(B.shape)}"
            raise HuggingFaceError(f"{directory}: {module} has {both}, and must have (rank, inputs) and (outputs, rank)")
        if (own[MAGNITUDE] is None) == bool(config.get("use_dora")):
            raise HuggingFaceError(f"{directory}: use_dora of {CONFIG} and the lora_magnitude_vector of {module} disagree")
        theirs = _Beside(A.float(), B.float(), own[MAGNITUDE], scale_of(directory, config, module, len(A)))
        found |= _of_ours(theirs, rule, [shapes[name] for name in rule.parameters], f"{directory}: {module}")
    if tensors:
        raise HuggingFaceError(f"{directory}: {next(iter(tensors))} is no parameter of an adapter that is read here")
    if not found:
        raise HuggingFaceError(f"{directory / WEIGHTS}: holds no adapter")
    check_targets(directory, config, of_weights, shapes, {name for module in modules for name in _names_of(module, family)})
    return _together(config, found, architecture)


def write_adapter(
    directory: str | Path,
    adapter: Adapter,
    added: Mapping[str, Tensor],
    architecture: Architecture,
    family: Family,
    base: str | None = None,
) -> None:
    """Write an adapter, whose parameters are `added`, as PEFT does for a model of this family; whole or not at all.

    `base`: the path of that model, which PEFT's AutoPeftModel loads first.
    """
    directory = Path(directory)
    check_directory(directory)
    match adapter:
        case LowRankAdapter():
            tensors, config = _low_rank(adapter, added, architecture, family, base)
        case Prompt():
            check_prompt(adapter, architecture, str(directory))
            tensors, config = tensors_of(added), written_prompt(adapter, architecture, base)
        case _:
            raise HuggingFaceError(f"an adapter of kind {adapter.kind!r} has no place in PEFT's files")
    with writing_directory(directory) as partial:
        save_file(tensors, partial / WEIGHTS, metadata={"format": "pt"})
        write_json(partial / CONFIG, config)


def _low_rank(
    adapter: LowRankAdapter, added: Mapping[str, Tensor], architecture: Architecture, family: Family, base: str | None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the configuration of a LoRA or a DoRA."""
    shapes = {name: weight.shape for name, weight in architecture.cost(Shape(source=1)).weights.items()}
    tensors: dict[str, Tensor] = {}
    ranks: dict[str, int] = {}
    transposed = False
    for rule in rules(family.names_of(architecture), shapes):
        ours = [_own(adapter, added, name) for name in rule.parameters]
        if not any(ours):
            continue
        if len(rule.stored) > 1:
            raise HuggingFaceError(f"{rule.parameters[0]} is stored in {len(rule.stored)} tensors of {family.model_type}")
        module = rule.stored[0].removesuffix(".weight")
        theirs, turned = _of_theirs(ours, rule, [shapes[name] for name in rule.parameters])
        transposed, ranks[module] = transposed or turned, len(theirs.down)
        for word, tensor in ((DOWN, theirs.down), (UP, theirs.up), (MAGNITUDE, theirs.magnitude)):
            if tensor is not None:
                tensors[f"{PREFIX}{module}.{_STORED[word]}"] = tensor.contiguous().clone()
    return tensors, _written(adapter, ranks, transposed, architecture, base)


def _written(
    adapter: LowRankAdapter, ranks: Mapping[str, int], transposed: bool, architecture: Architecture, base: str | None
) -> dict[str, Any]:
    """The configuration; matrices that are stored together have a rank of their own, and alpha that keeps the scale."""
    root = adapter.scaling == "root_rank"
    other = {module: rank for module, rank in ranks.items() if rank != adapter.rank}
    alphas = {module: adapter.scale * (rank**0.5 if root else rank) for module, rank in other.items()}
    task = "SEQ_2_SEQ_LM" if architecture.two_inputs else None if architecture.decoder is None else "CAUSAL_LM"
    return {
        "peft_type": "LORA", "task_type": task, "base_model_name_or_path": base, "inference_mode": True,
        "r": adapter.rank, "lora_alpha": _whole(adapter.alpha), "lora_dropout": adapter.dropout, "bias": "none",
        "target_modules": sorted(ranks), "rank_pattern": {re.escape(name): rank for name, rank in other.items()},
        "alpha_pattern": {re.escape(name): _whole(alpha) for name, alpha in alphas.items()},
        "use_rslora": root, "use_dora": isinstance(adapter, Dora), "fan_in_fan_out": transposed,
    }  # fmt: skip


def _names_of(module: str, family: Family) -> Iterator[str]:
    """Names under which a module's weight may be stored: adapters of a headless model lack the family's prefix."""
    yield f"{module}.weight"
    yield f"{family.base}{module}.weight"
    yield module


def _of_ours(theirs: _Beside, rule: WeightRule, shapes: Sequence[tuple[int, ...]], where: str) -> dict[str, _Beside]:
    """One adapter of a stored matrix as adapters of the parameters in it, by their names."""
    A, B, m = theirs.down, theirs.up, theirs.magnitude
    turned = _turned(rule.op, [shape[0] for shape in shapes], len(B))
    if turned is None:
        raise HuggingFaceError(f"{where}: an adapter of a matrix that is stored in another form cannot be read")
    rows = _read(rule.op, B, shapes, turned)
    whole = _read(rule.op, B @ A, shapes, turned)
    if any(not torch.allclose(each, up @ A, atol=1e-5) for each, up in zip(whole, rows, strict=True)):
        raise HuggingFaceError(f"{where}: an adapter of a matrix whose inputs are stored in another order cannot be read")
    # Of matrices that are stored together some may have none, which shows as zeros; a fresh adapter is zero everywhere.
    some = m is None and any(bool(up.any()) for up in rows)
    lengths = [None] * len(rows) if m is None else [x[:, 0] for x in _read(rule.op, m.float().view(-1, 1), shapes, turned)]
    return {
        name.removesuffix(".weight"): _Beside(*_trimmed(A, up), length, theirs.scale)
        for name, up, length in zip(rule.parameters, rows, lengths, strict=True)
        if not some or bool(up.any())
    }


def _of_theirs(ours: Sequence[_Beside | None], rule: WeightRule, shapes: Sequence[tuple[int, ...]]) -> tuple[_Beside, bool]:
    """Adapters of parameters as the one of the matrix that stores them all, and whether that is stored as (inputs, outputs)."""
    own = [each for each in ours if each is not None]
    A = torch.cat([each.down for each in own])
    columns = iter(torch.split(torch.eye(len(A), dtype=A.dtype), [len(each.down) for each in own]))
    blocks = [
        torch.zeros(shape[0], len(A), dtype=A.dtype) if each is None else each.up @ next(columns)
        for each, shape in zip(ours, shapes, strict=True)
    ]
    turned = _turned(rule.op, [shape[0] for shape in shapes], sum(shape[0] for shape in shapes))
    name = rule.parameters[0]
    if turned is None:
        raise HuggingFaceError(f"{name}: an adapter of a matrix that is stored in another form ({rule.stored[0]}) has no place")
    B = _write(rule.op, blocks, turned)
    whole = _write(rule.op, [block @ A for block in blocks], turned)
    if whole.shape != (len(B), A.shape[1]) or not torch.allclose(whole, B @ A, atol=1e-5):
        raise HuggingFaceError(f"{name}: an adapter of a matrix whose inputs are stored in another order has no place")
    lengths = [each.magnitude for each in own if each.magnitude is not None]
    if lengths and len(lengths) < len(ours):
        raise HuggingFaceError(
            f"{name}: DoRA of some of the matrices that are stored together in {rule.stored[0]}; give all of them an adapter"
        )
    m = _write(rule.op, [x[:, None] for x in lengths], turned)[:, 0] if lengths else None
    return _Beside(A, B, m, own[0].scale), turned


def _own(adapter: LowRankAdapter, added: Mapping[str, Tensor], path: str) -> _Beside | None:
    """The adapter beside a parameter."""
    name = path.removesuffix(".weight")
    if f"{name}.{DOWN}" not in added:
        return None
    magnitude = added.get(f"{name}.{MAGNITUDE}")
    return _Beside(
        added[f"{name}.{DOWN}"].detach().cpu().float(),
        added[f"{name}.{UP}"].detach().cpu().float(),
        None if magnitude is None else magnitude.detach().cpu().float(),
        adapter.scale,
    )


def _turned(op: Op, outputs: Sequence[int], rows: int) -> bool | None:
    """Whether the op reads a matrix stored as (inputs, outputs), found by trying; None where it does neither."""
    probe = torch.zeros(rows, rows + 1)
    for turned in (False, True):
        shapes = [(count, rows + 1) for count in outputs]
        try:
            read = _read(op, probe, shapes, turned)
        except (RuntimeError, ValueError, IndexError):
            continue
        if [tuple(x.shape) for x in read] == shapes:
            return turned
    return None


def _read(op: Op, rows: Tensor, shapes: Sequence[tuple[int, ...]], turned: bool) -> list[Tensor]:
    """What the op makes of a stored matrix with these rows."""
    return op.read([rows.mT if turned else rows], [(shape[0], rows.shape[1]) for shape in shapes])


def _write(op: Op, rows: Sequence[Tensor], turned: bool) -> Tensor:
    """The rows of the matrix that the op stores."""
    (stored,) = op.write(list(rows))
    return stored.mT if turned else stored


def _trimmed(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """A and B without the columns of B that are zero, as those of other matrices stored in the same one are; B of a fresh
    adapter keeps them."""
    used = (B != 0).any(0)
    return (A[used], B[:, used].contiguous()) if bool(used.any()) else (A, B.contiguous())


def _together(
    config: Mapping[str, Any], found: Mapping[str, _Beside], architecture: Architecture
) -> tuple[LowRankAdapter, dict[str, Tensor]]:
    """One adapter of one rank and scale: lower ranks are filled up with zeros, other scales become part of B."""
    rank = max(len(each.down) for each in found.values())
    root, first = bool(config.get("use_rslora")), next(iter(found.values()))
    paths = [f"{name}.weight" for name in found]
    adapter = (Dora if config.get("use_dora") else Lora)(
        rank=rank,
        alpha=first.scale * (rank**0.5 if root else rank),
        scaling="root_rank" if root else "rank",
        targets=("*",) if set(linear_maps(architecture.cost(Shape(source=1)))) == set(paths) else tuple(paths),
    )
    added: dict[str, Tensor] = {}
    for name, each in found.items():
        more = rank - len(each.down)
        added[f"{name}.{DOWN}"] = torch.nn.functional.pad(each.down, (0, 0, 0, more))
        added[f"{name}.{UP}"] = torch.nn.functional.pad(each.up, (0, more)) * (each.scale / first.scale)
        if each.magnitude is not None:
            added[f"{name}.{MAGNITUDE}"] = each.magnitude
    return adapter, added


def _whole(number: float) -> float | int:
    return int(number) if float(number).is_integer() else number
