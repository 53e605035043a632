"""The tokenizer inside a GGUF file (`tokenizer.ggml.*`), as the files that stand beside a model's weights."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyformer.describe import Notice
from anyformer.huggingface.gguf.reader import DAMAGED, entries_of, metadata_of, pieces_of, values_of
from anyformer.huggingface.gguf.vocabulary import GgufVocabulary, definition, knows, stops
from anyformer.huggingface.gguf.vocabulary.value import MODEL, TOKENS, USUAL
from anyformer.text import DataError, Tokenizer
from anyformer.text.beside import GENERATION, TOKENIZER, TOKENIZER_CONFIG, Beside

MOST_PIECES = 500_000
"""Twice as many tokens as any published tokenizer has."""
NONE = ("no_vocab", "none")
"""What a file says of a model without one."""
_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


def beside_of(path: Path) -> Beside:
    """What stands beside a GGUF file; without a `tokenizer.json` there, with the files of the tokenizer inside it.

    A `Notice` says why one inside it is not read.
    """
    beside, first = Beside.read(path.parent), pieces_of(path)[0]
    inside = metadata_of(first, MODEL)
    if TOKENIZER in beside or inside is None or inside in NONE:
        return beside
    if (count := entries_of(first, TOKENS)) > MOST_PIECES:
        return _without(path, beside, f"has {count:,} pieces, and at most {MOST_PIECES:,} are read")
    try:
        vocabulary = GgufVocabulary.of(values_of(first))
        if not knows(vocabulary):
            return _without(path, beside, f"splits text in a way that is not known here ({inside}, {vocabulary.pre})")
        files = files_of(vocabulary)
        Tokenizer.of(Beside(files))
    except (*DAMAGED, DataError) as error:
        return _without(path, beside, f"cannot be read ({type(error).__name__}: {error})")
    return beside.but({name: content for name, content in files.items() if name not in beside})


def files_of(vocabulary: GgufVocabulary) -> dict[str, bytes]:
    """A vocabulary as `tokenizer.json`, `tokenizer_config.json` and, if texts end, `generation_config.json`."""
    named = {f"{role}_token": vocabulary.tokens[vocabulary.ids[role]] for role in _ROLES if role in vocabulary.ids}
    templates = vocabulary.templates
    chat: Any = (
        templates.get(USUAL)
        if templates.keys() <= {USUAL}
        else [{"name": name, "template": text} for name, text in templates.items()]
    )
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **named}
    config |= {"chat_template": chat} if chat else {}
    files: dict[str, Mapping[str, Any]] = {TOKENIZER: definition(vocabulary), TOKENIZER_CONFIG: config}
    if "eos" in vocabulary.ids:
        eos = vocabulary.ids["eos"]
        ends = [eos, *sorted(stops(vocabulary) - {eos})]
        numbered = {f"{role}_token_id": vocabulary.ids[role] for role in ("bos", "pad") if role in vocabulary.ids}
        files[GENERATION] = {"eos_token_id": ends, **numbered}
    return {name: json.dumps(table, ensure_ascii=False).encode() for name, table in files.items()}


def _without(path: Path, beside: Beside, problem: str) -> Beside:
    warnings.warn(f"{path}: goes without its tokenizer, which {problem}; put its {TOKENIZER} beside it", Notice, stacklevel=3)
    return beside
