"""The `config.json` of an export: the one that the model came with, changed where the model has, or one written anew."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from anyformer.describe import UserError, diff
from anyformer.huggingface.canonical import canonical
from anyformer.huggingface.composites import COMPOSITES
from anyformer.huggingface.config import FEW_BITS, Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.find import find_family
from anyformer.huggingface.registry import OWN, READ_ONLY, own, read_architecture
from anyformer.model import Architecture
from anyformer.text.beside import CONFIG, Beside

LENGTH = "max_position_embeddings"
_TIED = "tie_word_embeddings"
_KEPT = (
    "bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "id2label", "label2id", "problem_type",
)  # fmt: skip
"""Keys that a configuration keeps when it is written anew: they belong to the text, not to the architecture."""


@dataclass(frozen=True)
class DescribedExport:
    """The family that reads an export and its configuration. `changes`: what is not as it came, each with the reason."""

    family: Family
    table: Mapping[str, Any]
    changes: Sequence[str] = ()
    text: bytes | None = None
    """The file as it came, if nothing of it changed."""

    @property
    def content(self) -> bytes:
        """The file."""
        return self.text or (json.dumps(self.table, indent=2, ensure_ascii=False) + "\n").encode()


def described(
    architecture: Architecture, beside: Beside, model_type: str | None, dtype: torch.dtype, labels: Sequence[str] = ()
) -> DescribedExport:
    """The configuration of a model, from the one beside its weights where that still describes it.

    `model_type`: the family asked for, None for any. `labels`: the names of a classifier's outputs, by default as they were.
    """
    came = _came(beside, model_type)
    if came is None:
        return _labelled(_anew(architecture, beside, model_type, dtype), labels)
    family, was = came
    table = beside.table(CONFIG)
    if canonical(_alike(was, architecture)) != canonical(architecture):
        found = _anew(architecture, beside, model_type or _of_weights(family), dtype)
        first = "; ".join(f"{path}: {old!r} -> {new!r}" for path, old, new in diff(was, architecture)[:3])
        change = f"{CONFIG} is written anew, since the architecture is another than it came with ({first})"
        return _labelled(replace(found, changes=(change, *found.changes)), labels)
    changes = []
    head = architecture.head
    if head is not None and was.head is not None and head.tied != was.head.tied:
        table[_TIED] = head.tied
        changes.append(f"{CONFIG}: {_TIED} = {json.dumps(head.tied)}, as the weights are")
    for key in (key for key in FEW_BITS if table.pop(key, None) is not None):
        changes.append(f"{CONFIG}: {key} is left out, since the weights are plain now")
    key, written = next((key for key in ("dtype", "torch_dtype") if key in table), ""), str(dtype).removeprefix("torch.")
    if key and table[key] != written:
        changes.append(f"{CONFIG}: {key} = {written}, as the weights are, and was {table[key]}")
        table[key] = written
    kept = DescribedExport(family, table, tuple(changes), None if changes else beside.files[CONFIG])
    return _labelled(kept, labels)


def completed(found: DescribedExport, tokens: Mapping[str, int], length: int | None) -> DescribedExport:
    """With the numbers of special tokens and the length that a model was trained at, where its configuration is not that of its
    authors.

    Keys from which this family computes are left out; so is the length where positions are a table.
    """
    if found.text is not None or found.changes:
        return found
    told = length is not None and (LENGTH in found.table or found.family is own())
    more = {**({LENGTH: length} if told else {}), **tokens}
    return replace(found, table=with_inert(found.table, more, found.family))


def _came(beside: Beside, model_type: str | None) -> tuple[Family, Architecture] | None:
    """The family and the architecture that the `config.json` beside the weights describes; None where it will not do."""
    if CONFIG not in beside:
        return None
    config = Config(beside.table(CONFIG), str(CONFIG))
    asked = model_type in (None, config.model_type)
    if not asked or config.model_type in COMPOSITES or any(config.model_type in types for types in READ_ONLY.values()):
        return None
    architecture, family = read_architecture(config)
    return family, architecture


def _alike(was: Architecture, now: Architecture) -> Architecture:
    """The architecture as it was, with what files of weights may leave open as it is now: tied tables, later tokens."""
    alike = was if now.mtp is not None else was.but(mtp=None)
    if alike.head is None or now.head is None:
        return alike
    return alike.but(head=alike.head.but(tied=now.head.tied))


def _of_weights(family: Family) -> str | None:
    """The model type of a family, if an architecture may be written as it."""
    return None if family.text is not None else family.model_type


def _anew(architecture: Architecture, beside: Beside, model_type: str | None, dtype: torch.dtype) -> DescribedExport:
    """A configuration of the first family that expresses the architecture, else of our own."""
    family, table = _chosen(architecture, model_type)
    kept = {key: value for key, value in beside.table(CONFIG).items() if key in _KEPT}
    written = {"architectures": [family.default_class], **with_inert(table, kept, family)}
    return DescribedExport(family, {**written, "dtype": str(dtype).removeprefix("torch.")})


def _labelled(found: DescribedExport, labels: Sequence[str]) -> DescribedExport:
    """With the names of the classes that a run has found."""
    numbered = {str(number): name for number, name in enumerate(labels)}
    was = found.table.get("id2label")
    if not labels or was == numbered:
        return found
    table = {**found.table, "id2label": numbered, "label2id": {name: number for number, name in enumerate(labels)}}
    changes = [f"{CONFIG}: id2label names the classes of the training: {', '.join(labels[:6])}"] if was is not None else []
    return DescribedExport(found.family, table, (*found.changes, *changes))


def with_inert(config: Mapping[str, Any], more: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """The configuration with each of `more` keys from which this family computes nothing."""
    table = dict(config)
    for key, value in more.items():
        changed = {**table, key: value}
        try:
            table = changed if family.read(Config(changed)) == family.read(Config(table)) else table
        except UserError:
            continue
    return table


def _chosen(architecture: Architecture, model_type: str | None) -> tuple[Family, dict[str, Any]]:
    """The family of `model_type` and its configuration, else the first that expresses the architecture, else our own."""
    if any(model_type in types for types in READ_ONLY.values()):
        raise HuggingFaceError(
            f"{model_type} is read, and no class of transformers loads it without code of its own: leave --family out, and the "
            f"model is written as a type that computes the same"
        )
    if model_type is not None:
        return find_family(architecture, model_type)
    try:
        return find_family(architecture)
    except HuggingFaceError:
        return find_family(architecture, OWN)
