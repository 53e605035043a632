"""A model to a Hugging Face directory: the family that expresses it, its configuration and its weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyformer.describe import UserError
from anyformer.files import check_directory, writing_directory
from anyformer.huggingface.carrying import export_composite
from anyformer.huggingface.config import Config
from anyformer.huggingface.convert import shapes_of, tensors_of
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.files import write_json, write_shards
from anyformer.huggingface.find import find_family
from anyformer.huggingface.outside import KEY, plugins_of
from anyformer.huggingface.registry import OWN, READ_ONLY, own
from anyformer.huggingface.rules import rules
from anyformer.huggingface.seal import seal
from anyformer.model import Architecture, Transformer
from anyformer.model.mup import computed
from anyformer.quantising import dense
from anyformer.text import Tokenizer

_LENGTH = "max_position_embeddings"


def export(
    model: Transformer,
    directory: str | Path,
    *,
    tokenizer: Tokenizer | None = None,
    model_type: str | None = None,
    length: int | None = None,
    extra: Mapping[str, Any] | None = None,
    towers: str | Path | None = None,
) -> Family:
    """Write a directory that transformers' AutoModel loads; returns the family that expresses the model.

    Where none does, the directory has our own layout, which transformers loads after `import anyformer.huggingface.auto`.
    `model_type` asks for one family ("anyformer": our own). `length`: positions that the model was trained at, written as
    `max_position_embeddings` of a model whose positions are computed; without it the family's value for no limit.
    `extra`: keys of the configuration that no computation depends on. `towers`: the directory of a composite, of whose text
    model these are the weights; it is written again with its towers and other files as they are. The directory is written whole
    or not at all.
    """
    directory = Path(directory)
    check_directory(directory)
    if towers is not None:
        return export_composite(model, directory, Path(towers), model_type=model_type, extra=extra)
    architecture = computed(model.architecture)
    family, config = _chosen(architecture, model_type)
    tokens = _tokens(architecture, tokenizer)
    if length is not None and (_LENGTH in config or family is own()):
        config = _with(config, {_LENGTH: length}, family)
    config = _with(config, tokens, family)
    declared = shapes_of(architecture)
    parameters = dict(dense(model).named_parameters())
    with writing_directory(directory) as partial:
        write_shards(partial, tensors_of(rules(family.names_of(architecture), declared), parameters))
        dtype = str(next(iter(parameters.values())).dtype).removeprefix("torch.")
        written = {"architectures": [family.default_class], **config, "dtype": dtype, **(extra or {})}
        if family is not own() and (plugins := plugins_of(family, model.architecture)):
            written[KEY] = plugins
        write_json(partial / "config.json", written)
        if tokens:
            write_json(partial / "generation_config.json", {**tokens, "pad_token_id": tokens["eos_token_id"]})
        if tokenizer is not None:
            tokenizer.save(partial)
        seal(partial)
    return family


def _tokens(architecture: Architecture, tokenizer: Tokenizer | None) -> dict[str, int]:
    """Ids of the tokens before and after a text: the tokenizer's end of text serves as both."""
    end = None if tokenizer is None else tokenizer.end_of_text
    if end is None or architecture.decoder is None:
        return {}
    return {"eos_token_id": end} if architecture.two_inputs else {"bos_token_id": end, "eos_token_id": end}


def _with(config: dict[str, Any], more: Mapping[str, int], family: Family) -> dict[str, Any]:
    """The configuration with `more` keys, or without them where this family computes from one of them."""
    changed = {**config, **more}
    try:
        return changed if family.read(Config(changed)) == family.read(Config(config)) else config
    except UserError:
        return config


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
