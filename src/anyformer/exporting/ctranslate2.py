"""A directory for CTranslate2, by its own converter of Hugging Face's layout."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from anyformer import huggingface
from anyformer.describe import did_you_mean
from anyformer.exporting.graphs import ExportError
from anyformer.files import check_directory, writing_directory
from anyformer.model.transformer import Transformer
from anyformer.text import Tokenizer
from anyformer.text.beside import Beside

BESIDE: Final = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json", "preprocessor_config.json",
)  # fmt: skip
"""Files that programs around CTranslate2 read beside its own."""

DEFAULTS: Final = {"position_embedding_type": "absolute", "normalize_before": False, "normalize_embedding": True}
"""Keys that the converter reads, and that the configurations of transformers have no more: what every model here has."""

DEPARTS: Final = {"gemma2": "it leaves the caps of scores and logits out"}
"""Model types that the converter knows and CTranslate2 computes otherwise."""


def export_ctranslate2(
    model: Transformer,
    directory: str | Path,
    *,
    tokenizer: Tokenizer | None = None,
    beside: Beside | None = None,
    model_type: str | None = None,
    length: int | None = None,
    labels: Sequence[str] = (),
) -> str:
    """Write a directory that CTranslate2 loads; gives the model type by whose rules it was converted.

    The model stands in Hugging Face's layout first, in a directory that does not stay, and the installed converter reads that.
    Numbers keep their type; CTranslate2 rounds them to `compute_type` when it loads them. `ExportError`: a model type that the
    converter does not know, one without a tokenizer, or what it refuses itself. Arguments as in `huggingface.export`.
    """
    directory = Path(directory)
    check_directory(directory)
    converters = _converters()
    family = huggingface.find_family(model.architecture, model_type)[0]
    known = _known(converters)
    if family.model_type not in known:
        raise ExportError(
            f"CTranslate2's converter knows no model type {family.model_type!r}{did_you_mean(family.model_type, known)}; it "
            f"knows {', '.join(sorted(known))}: export it without --format, or to ONNX"
        )
    if family.model_type in DEPARTS:
        raise ExportError(
            f"CTranslate2 computes {family.model_type} otherwise: {DEPARTS[family.model_type]}; export it to ONNX"
        )
    if tokenizer is None:
        raise ExportError("CTranslate2's converter reads the tokenizer's words, and this model has no tokenizer beside it")
    with TemporaryDirectory(dir=directory.absolute().parent) as scratch, writing_directory(directory) as partial:
        source = Path(scratch) / "model"
        huggingface.export(
            model,
            source,
            tokenizer=tokenizer,
            beside=beside,
            model_type=model_type,
            length=length,
            labels=labels,
            extra=DEFAULTS,
        )
        copied = [name for name in BESIDE if (source / name).is_file()]
        try:
            converter = converters.TransformersConverter(str(source), copy_files=copied)
            converter.convert(str(partial), force=True)
        except Exception as error:  # whatever the converter raises of a model, or of transformers' version
            raise ExportError(f"CTranslate2's converter cannot read this {family.model_type} model: {error}") from error
    return family.model_type


def _converters() -> Any:
    """The module of converters; refuses without the packages."""
    try:
        import transformers  # noqa: F401
        from ctranslate2 import converters
    except ImportError as error:
        raise ExportError(f"{error.name} is missing: pip install 'anyformer[ctranslate2]'") from None
    logging.getLogger("transformers").setLevel(logging.ERROR)
    return converters


def _known(converters: Any) -> set[str]:
    """The model types that the installed converter has a loader for, by the names of transformers' configurations."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    loaders = converters.transformers._MODEL_LOADERS
    return {model_type for model_type, name in CONFIG_MAPPING_NAMES.items() if name in loaders}
