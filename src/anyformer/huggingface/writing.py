"""A model to a Hugging Face directory: the family that expresses it, its configuration, its weights, and what stands beside."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from anyformer.describe import Notice
from anyformer.files import check_directory, writing_directory
from anyformer.huggingface.card import PLACE, Facts, card
from anyformer.huggingface.class_heads import of_class
from anyformer.huggingface.composite_export import export_composite
from anyformer.huggingface.convert import tensors_of
from anyformer.huggingface.declared import shapes_of
from anyformer.huggingface.digests import write_digests
from anyformer.huggingface.export_config import DescribedExport, completed, described
from anyformer.huggingface.families.anyformer import auto_map_of
from anyformer.huggingface.family import Family
from anyformer.huggingface.files import json_text, write_shards
from anyformer.huggingface.number_types import came_in, in_type
from anyformer.huggingface.openings import check_opens
from anyformer.huggingface.plugin_families import KEY, plugins_of
from anyformer.huggingface.read_otherwise import read_otherwise
from anyformer.huggingface.registry import own
from anyformer.huggingface.remote_files import remote_files
from anyformer.huggingface.rules import rules
from anyformer.huggingface.trained_pixels import TrainedPixels
from anyformer.model import Architecture
from anyformer.model.mup import computed
from anyformer.model.transformer import Transformer
from anyformer.quantising.model import dense
from anyformer.text import Tokenizer
from anyformer.text.beside import CONFIG, GENERATION, README, Beside


def export(
    model: Transformer,
    directory: str | Path,
    *,
    tokenizer: Tokenizer | None = None,
    beside: Beside | None = None,
    model_type: str | None = None,
    length: int | None = None,
    labels: Sequence[str] = (),
    facts: Facts | None = None,
    extra: Mapping[str, Any] | None = None,
    towers: str | Path | None = None,
    dtype: torch.dtype | None = None,
    pixels: TrainedPixels | None = None,
    name: str = PLACE,
    engine: Literal["vllm"] | None = None,
) -> Family:
    """Write a directory that transformers' AutoModel loads, whole or not at all; returns the family that expresses the model.

    `beside`: what stands beside its weights, by default the tokenizer's files and what it was read with. All of it is written
    as it was, unless the model no longer agrees: a `Notice` says what has changed, and why, or what vLLM computes otherwise.

    Where no model type expresses the model, the directory has our own layout, which transformers loads with
    `trust_remote_code=True` where this package is installed. `model_type` asks for one family ("anyformer": our own). Of a
    model that came without a `config.json`, `length` is the positions that it was trained at, written as
    `max_position_embeddings` where positions are computed. `labels`: names of a classifier's outputs. `facts`: what the model
    card says of its training; without them a card stays as it was. `extra`: keys of the configuration that no computation
    depends on. `towers`: the directory of a composite, of whose text model these are the weights, written again with its other
    files. `dtype`: of the weights, by default the model's. `pixels`: how images were made in its training here. `engine`: one
    that must open it; our own layout is refused where it does not. `name`: the model's on a hub, for its card.
    """
    check_directory(directory := Path(directory))
    if towers is not None:
        return export_composite(model, directory, Path(towers), model_type=model_type, extra=extra, dtype=dtype, pixels=pixels)
    architecture, parameters = computed(model.architecture), dict(dense(model).named_parameters())
    beside = beside or (Beside() if tokenizer is None else tokenizer.beside)
    beside = beside if pixels is None else beside.but(pixels.files(beside))
    tokens, own_type = _tokens(architecture, tokenizer), next(iter(parameters.values())).dtype
    found = described(architecture, beside, model_type, dtype or own_type, labels)
    if dtype is None and found.family.beyond_fp16 and _from_fp16(beside, parameters):
        dtype = torch.float16
        found = described(architecture, beside, model_type, dtype, labels)
    found = _with_more(completed(found, tokens, length), model.architecture, extra or {})
    family, changes = found.family, list(found.changes)
    if engine is not None and family is own():
        check_opens(architecture, engine)
    files = {CONFIG: found.content, **_code(family), **_ends(tokens, beside)}
    if facts is not None or CONFIG not in beside:
        files[README] = card(architecture, family, beside, facts or Facts(), tokenizer, name).encode()
        changes += [f"{README} is written anew, since the model was trained further"] if README in beside else []
    tensors = tensors_of(rules(family.names_of(architecture), shapes_of(architecture)), parameters)
    named = next(iter(found.table.get("architectures") or ()), "")
    with writing_directory(directory) as partial:
        write_shards(partial, of_class(family, named, in_type(tensors, dtype, directory)))
        beside.but(files).write(partial)
        write_digests(partial)
    for change in (*changes, *read_otherwise(found.table)):
        warnings.warn(f"{directory}: {change}", Notice, stacklevel=2)
    return family


def _code(family: Family) -> dict[str, bytes | None]:
    """The Python files of our own layout, which another family's directory does not keep."""
    return {name: content if family is own() else None for name, content in remote_files().items()}


def _ends(tokens: Mapping[str, int], beside: Beside) -> dict[str, bytes]:
    """The settings of generation of a model that came without any: the tokens around a text."""
    if not tokens or CONFIG in beside or GENERATION in beside:
        return {}
    return {GENERATION: json_text({**tokens, "pad_token_id": tokens["eos_token_id"]}).encode()}


def _with_more(found: DescribedExport, architecture: Architecture, extra: Mapping[str, Any]) -> DescribedExport:
    """With keys that no computation depends on, and the plug-ins that the architecture needs."""
    more = dict(extra)
    if found.family is own():
        more["auto_map"] = auto_map_of(architecture)
    elif plugins := plugins_of(found.family, architecture):
        more[KEY] = plugins
    changed = any(found.table.get(key) != value for key, value in more.items())
    return replace(found, table={**found.table, **more}, text=None) if changed else found


def _from_fp16(beside: Beside, parameters: Mapping[str, Tensor]) -> bool:
    """Whether weights that are computed with in fp32 came in fp16, and are all still numbers of that type."""
    weights = (value.detach() for value in parameters.values() if value.is_floating_point())
    return came_in(beside) == torch.float16 and all(torch.equal(x.half().to(x.dtype), x) for x in weights)


def _tokens(architecture: Architecture, tokenizer: Tokenizer | None) -> dict[str, int]:
    """Ids of the tokens before and after a text: the tokenizer's end of text serves as both."""
    end = None if tokenizer is None else tokenizer.end_of_text
    if end is None or architecture.decoder is None:
        return {}
    return {"eos_token_id": end} if architecture.two_inputs else {"bos_token_id": end, "eos_token_id": end}
