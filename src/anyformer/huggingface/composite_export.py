"""A composite again: its towers, configuration and other files as they are, around the weights of a text model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from os.path import isdir  # which no name is too long for
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyformer.files import writing_directory
from anyformer.huggingface.canonical import canonical
from anyformer.huggingface.config import FEW_BITS, FEW_BITS_BESIDE, read_table
from anyformer.huggingface.convert import architecture_of, tensors_of
from anyformer.huggingface.declared import shapes_of
from anyformer.huggingface.digests import check_digests, write_digests
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.files import Stored, write_shards
from anyformer.huggingface.find import find_family
from anyformer.huggingface.fused import as_stored
from anyformer.huggingface.number_types import in_type
from anyformer.huggingface.rules import WeightRule, rules
from anyformer.huggingface.towers import towers_asked
from anyformer.huggingface.trained_pixels import TrainedPixels
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.quantising.model import dense
from anyformer.text.beside import CONFIG, Beside


def export_composite(
    model: Transformer,
    directory: Path,
    source: Path,
    *,
    model_type: str | None = None,
    extra: Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    pixels: TrainedPixels | None = None,
) -> Family:
    """Write the composite of `source` with the weights of a text model; returns its family.

    Every tensor that is not the text model's is written bit for bit, under its name; so is every other file. Weights in few
    bits become plain, those of towers too, and the configuration no longer says otherwise. Where the text model's architecture
    has changed, its table in the configuration is written anew; its width must stay, which the towers project to. `pixels`: as
    in `export`.
    """
    if not isdir(source):
        raise HuggingFaceError(
            f"{source}: no such directory, and the towers stand in it; give the directory that the model was imported from as "
            f"towers (--towers DIRECTORY), or export the text model alone (--family, or no --towers)"
        )
    check_digests(source)
    architecture, family, stored = architecture_of(source, **towers_asked(model.architecture))
    if family.text is None:
        raise HuggingFaceError(f"{source}: {family.model_type} is no composite, so it has no towers; export without towers")
    if model_type not in (None, family.model_type):
        raise HuggingFaceError(f"{source}: holds the towers of {family.model_type}, and {model_type} is asked for")
    parameters = dict(dense(model).named_parameters())
    named = str(dtype or next(iter(parameters.values())).dtype).removeprefix("torch.")
    beside = Beside.read(source)
    beside = beside if pixels is None else beside.but(pixels.files(beside))
    config = {**_config(model.architecture, source, architecture, family), **(extra or {})}
    for key in ("dtype", "torch_dtype"):
        config |= {key: named} if key in config else {}
    for table in (config, _at(config, family)):
        for key in FEW_BITS:  # all weights are plain now
            table.pop(key, None)
    changed = None if config == beside.table(CONFIG) else (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode()
    files = beside.but({FEW_BITS_BESIDE: None} if changed is None else {FEW_BITS_BESIDE: None, CONFIG: changed})
    of_weights = as_stored(rules(family.names_of(model.architecture), shapes_of(model.architecture)), stored)
    with writing_directory(directory) as partial:
        write_shards(partial, _tensors(of_weights, parameters, stored, dtype))
        files.write(partial)
        write_digests(partial)
    return family


def _tensors(
    of_weights: list[WeightRule], parameters: Mapping[str, Tensor], stored: Stored, dtype: torch.dtype | None
) -> Iterator[tuple[str, Tensor]]:
    """The text model's tensors under the names of the files, then every other tensor of the files as it is."""
    needed = {name for rule in of_weights for name in rule.stored}
    absent = sorted(name for name in needed if name not in stored)
    if absent:
        raise HuggingFaceError(
            f"{stored.directory}: the files of the composite have no {absent[0]}, which this model has ({len(absent)} such); "
            f"export the text model alone, without towers"
        )
    written = set()
    for own, tensor in in_type(tensors_of(of_weights, parameters), dtype, stored.directory):
        known = stored.known_as(own)
        if known in stored.stored:  # copies and idle tensors need not be there
            written.add(stored.stored[known])
            yield stored.stored[known], tensor
    for name in (*(stored.stored[own] for own in stored.files), *stored.aside):
        if name not in written:
            yield name, stored.carried(name)


def _config(architecture: Architecture, source: Path, was: Architecture, family: Family) -> dict[str, Any]:
    """The configuration of `source`, with the text model's table written anew where its architecture has changed."""
    config = read_table(source / "config.json")
    if canonical(architecture) == canonical(was):
        return config
    if architecture.width != was.width:
        raise HuggingFaceError(
            f"{source}: its towers project to embeddings of width {was.width}, and this model has width {architecture.width}; "
            f"export the text model alone, without towers"
        )
    if (architecture.images, architecture.audio) != (was.images, was.audio):
        named = "images" if architecture.images != was.images else "sound"
        raise HuggingFaceError(
            f"{source}: the tower for {named} of this model is not that of the files, and only a text model may "
            f"change; export the text model alone, without towers and {named}"
        )
    assert family.text is not None
    text = find_family(architecture.but(images=None, audio=None), family.text.model_type)[1]
    _at(config, family).update({name: value for name, value in text.items() if name not in ("model_type", "architectures")})
    if "tie_word_embeddings" in text:
        config["tie_word_embeddings"] = text["tie_word_embeddings"]
    return config


def _at(config: dict[str, Any], family: Family) -> dict[str, Any]:
    """The text model's table in a composite's, which may be that one itself."""
    table = config
    for key in family.text_path:
        table = table.get(key, table)
    return table
