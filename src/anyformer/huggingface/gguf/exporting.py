"""A model to a GGUF file: the model type that llama.cpp knows, its metadata, its tensors one rule at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anyformer.data.progress import meter
from anyformer.describe import Notice, did_you_mean
from anyformer.files import check_file, writing
from anyformer.huggingface.config import LENGTHS
from anyformer.huggingface.declared import shapes_of
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.export_config import with_inert
from anyformer.huggingface.family import Family
from anyformer.huggingface.find import find_family
from anyformer.huggingface.gguf.architectures import forms
from anyformer.huggingface.gguf.keys import GgufKeys
from anyformer.huggingface.gguf.names import GgufRule, check_named, depth_of, gguf_rules
from anyformer.huggingface.gguf.numbers import FILE_TYPES, IN_BLOCKS, PLAIN, byte_shape, encoded, held_as, type_name
from anyformer.huggingface.gguf.quantising import LARGE_BLOCKS, rounded, unrounded
from anyformer.huggingface.gguf.reader import library
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.gguf.tokenizer import NONE
from anyformer.huggingface.gguf.vocabulary import vocabulary_of
from anyformer.huggingface.gguf.vocabulary.value import MODEL
from anyformer.huggingface.rules import SAME, WeightRule, rules
from anyformer.model import Architecture
from anyformer.model.mup import computed
from anyformer.model.transformer import Transformer
from anyformer.precision.finite import check_finite
from anyformer.quantising.model import dense
from anyformer.text import Tokenizer
from anyformer.text.beside import CONFIG, Beside


@dataclass(frozen=True)
class GgufExport:
    """A model as llama.cpp's form: what is written, before any number is read."""

    form: GgufForm
    family: Family
    keys: GgufKeys
    rules: Sequence[WeightRule]
    """Our weights to Hugging Face's tensors."""
    file_rules: Sequence[GgufRule]
    """These to the file's."""
    shapes: Mapping[str, tuple[int, ...]]
    """Name in the file -> shape, in the order of the file."""

    def tensors(self, parameters: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """(name in the file, tensor) in the order of the file; no tensor is held longer than until those that it is joined with
        are there."""
        yield from self.keys.tensors.items()
        place = {name: number for number, rule in enumerate(self.file_rules) for name in rule.theirs}
        both = self.form.output and "output.weight" not in {stored for rule in self.file_rules for stored in rule.stored}
        held: dict[str, Tensor] = {}
        for rule in self.rules:
            written = rule.op.write([parameters[name].detach() for name in rule.parameters])
            held |= dict(zip(rule.stored, written, strict=True))
            for number in dict.fromkeys(place[name] for name in rule.stored):
                to = self.file_rules[number]
                if held.keys() >= set(to.theirs):
                    for name, tensor in _joined(to, [held.pop(each) for each in to.theirs]):
                        yield name, tensor
                        if both and name == "token_embd.weight":
                            yield "output.weight", tensor


def _joined(rule: GgufRule, theirs: Sequence[Tensor]) -> list[tuple[str, Tensor]]:
    """(name in the file, tensor) of one rule, changed in fp32."""
    if rule.op != SAME:
        theirs = [tensor.float() for tensor in theirs]
    if rule.stacked:
        return [(rule.stored[0], torch.stack([rule.op.write([each])[0] for each in theirs]))]
    return list(zip(rule.stored, rule.op.write(theirs), strict=True))


def planned(
    architecture: Architecture, where: Path, *, model_type: str | None = None, came: str = "", length: int | None = None
) -> GgufExport:
    """How an architecture is written. Raises `HuggingFaceError` with what is missing of every type that comes near.

    `came`: the type that the weights came as, which is tried first. `length`: the longest text, of architectures whose
    positions are computed.
    """
    reasons: list[tuple[int, str]] = []
    """How many differences, -1 of a type that has the architecture and another graph; and what is said of them."""
    known = forms()
    if model_type is not None and model_type not in known:
        raise HuggingFaceError(
            f"{where}: {model_type} is no type that GGUF files are written of: give one of {', '.join(sorted(known))}, or "
            f"export a directory of Hugging Face's layout"
        )
    for asked in (model_type,) if model_type is not None else _tried(known, came):
        near = False
        try:
            family, table = find_family(architecture, asked)
            told, near = {} if length is None else {LENGTHS[0]: length}, True
            table = with_inert(table, told, family) if LENGTHS[0] in table else table
            return _plan(architecture, known[asked], family, table, known[asked].write(table, str(where)))
        except HuggingFaceError as error:
            said = str(error).removeprefix(f"{where}: ")
            reasons.append((-1 if near else said.count(";"), said))
    if model_type is not None:
        raise HuggingFaceError(f"{where}: llama.cpp does not compute this {model_type}: {reasons[0][1]}")
    raise HuggingFaceError(
        "\n  ".join(
            [
                f"{where}: llama.cpp computes this architecture under none of the {len(known)} model types that are written "
                f"here; export a directory of Hugging Face's layout instead. The nearest:",
                *(said for _, said in sorted(reasons, key=lambda reason: reason[0])[:3]),
            ]
        )
    )


def _tried(known: Mapping[str, GgufForm], came: str) -> Iterator[str]:
    """The model types that are tried: the one that the weights came as, if it is known, then the others."""
    if came in known:
        yield came
    yield from (model_type for model_type in known if model_type != came)


def _plan(architecture: Architecture, form: GgufForm, family: Family, table: Mapping[str, Any], keys: GgufKeys) -> GgufExport:
    declared = shapes_of(architecture)
    ours = rules(family.names_of(architecture), declared)
    theirs = [name for rule in ours for name in rule.stored]
    plan = GgufExport(form, family, keys, ours, gguf_rules(form, dict(table), depth_of(architecture), theirs), {})
    check_named(form, plan.file_rules, theirs)
    empty = {name: torch.empty(shape, device="meta") for name, shape in declared.items()}
    return replace(plan, shapes={name: tuple(tensor.shape) for name, tensor in plan.tensors(empty)})


def export_gguf(
    model: Transformer,
    path: Path,
    *,
    tokenizer: Tokenizer | None = None,
    beside: Beside | None = None,
    model_type: str | None = None,
    length: int | None = None,
    dtype: torch.dtype | None = None,
    quantise: str | None = None,
    progress: bool = False,
) -> GgufExport:
    """Write a file that llama.cpp runs: the model of a type that it knows, whole or not at all; one tensor at a time.

    `tokenizer`: goes into the file where llama.cpp splits text as it does, and is refused where it does not; None: the file is
    for token numbers. `beside`: what stands beside the weights, whose configuration says the length. `model_type`: of
    transformers, by default the first that llama.cpp knows. `length`: the longest text, where positions are computed. `dtype`:
    of the matrices, by default the weights' own; vectors and routers are fp32. `quantise`: a type in few bits for the matrices.
    Raises `HuggingFaceError`, before anything is written, for an architecture or a setting that llama.cpp does not compute.
    """
    check_file(path)
    library()
    parameters = dict(dense(model).named_parameters())
    table = beside.table(CONFIG) if beside is not None else {}
    told = next((table[name] for name in LENGTHS if isinstance(table.get(name), int)), None)
    spoken = {MODEL: NONE[0]} if tokenizer is None else vocabulary_of(tokenizer, model.architecture.embedding.symbols).keys()
    architecture, came = _now(computed(model.architecture), path), str(table.get("model_type"))
    plan = planned(architecture, path, model_type=model_type, came=came, length=length or told)
    kind = _kind(path, dtype or next(iter(parameters.values())).dtype, quantise)
    if kind in LARGE_BLOCKS:
        with writing(path) as partial, unrounded(partial) as plain:
            _write(plain, plan, spoken, parameters, "F32", path, progress)
            rounded(plain, partial, kind)
        return plan
    with writing(path) as partial:
        _write(partial, plan, spoken, parameters, kind, path, progress)
    return plan


def _now(architecture: Architecture, path: Path) -> Architecture:
    """The architecture without predictions of later tokens, which no next token depends on; a `Notice` says so."""
    if architecture.mtp is not None:
        warnings.warn(f"{path}: goes without the predictions of later tokens, which no next token needs", Notice, stacklevel=3)
    return architecture.but(mtp=None)


def _kind(path: Path, dtype: torch.dtype, quantise: str | None) -> str:
    """The type of matrices; refuses one that nothing here writes."""
    if quantise is None:
        return PLAIN[dtype][0]
    kinds = {kind.lower(): kind for kind in (*IN_BLOCKS, *LARGE_BLOCKS)}
    if quantise.lower() not in kinds:
        hint = did_you_mean(quantise, sorted(kinds), "docs/huggingface.md")
        raise HuggingFaceError(f"{path}: quantise = {quantise!r} is not known{hint}")
    return kinds[quantise.lower()]


def _write(
    path: Path,
    plan: GgufExport,
    spoken: Mapping[str, Any],
    parameters: Mapping[str, Tensor],
    kind: str,
    named: Path,
    progress: bool,
) -> None:
    gguf = library()
    writer = gguf.GGUFWriter(path, plan.form.architecture)
    writer.add_type("model")
    writer.add_name(named.stem)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_file_type(gguf.LlamaFileType[FILE_TYPES[kind]])
    for name, value in {**plan.keys.table, **spoken}.items():
        _add(writer, name, value)
    kinds = {name: type_name(name, shape, kind) for name, shape in plan.shapes.items()}
    for name, shape in plan.shapes.items():
        held = byte_shape(shape or (1,), kinds[name])
        writer.add_tensor_info(name, held, np.dtype(np.uint8), prod(held), gguf.GGMLQuantizationType[kinds[name]])
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        total = sum(map(prod, plan.shapes.values()))
        with meter(f"writing {named.name}", total, progress, "numbers") as advance, torch.no_grad():
            for name, tensor in plan.tensors(parameters):
                check_finite(tensor, f"{named}: {name}", HuggingFaceError)
                writer.write_tensor_data(encoded(held_as(tensor.detach().cpu(), kinds[name], f"{named}: {name}"), kinds[name]))
                advance(tensor.numel())
    finally:
        writer.close()


def _add(writer: Any, name: str, value: Any) -> None:
    """A key with the type that llama.cpp asks for: whole numbers of 32 bits without a sign, numbers of 32 bits."""
    types = library().GGUFValueType
    kinds = {bool: types.BOOL, int: types.UINT32, float: types.FLOAT32, str: types.STRING}
    if isinstance(value, bytes):
        writer.add_key_value(name, list(value), types.ARRAY, sub_type=types.UINT8)
    elif isinstance(value, list):
        kind = types.INT32 if all(type(each) is int for each in value) else kinds[type(value[0])]
        writer.add_key_value(name, value, types.ARRAY, sub_type=kind)
    else:
        writer.add_key_value(name, value, kinds[type(value)])
