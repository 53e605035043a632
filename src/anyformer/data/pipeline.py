"""`prepare`: from a description to a corpus on disk, made once and reused until its description or a file changes."""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tokenizers

from anyformer.data.corpus import FORMAT, Corpus, Made, write_corpus
from anyformer.data.description import Data, Text
from anyformer.data.errors import DataError
from anyformer.data.record_pipeline import make_records, record_sources
from anyformer.data.records import Records
from anyformer.data.sources import Source
from anyformer.data.specials import Specials
from anyformer.data.text_pipeline import make_text, text_sources
from anyformer.data.tokenizer_specs import TokenizerFile
from anyformer.data.tokenizers import Tokenizer
from anyformer.data.workers import available_cores
from anyformer.files import default_cache, replacing_directory


def prepare(
    data: Data,
    cache: Path | None = None,
    workers: int | None = None,
    progress: bool = True,
    verify: bool = False,
    special: Specials | None = None,
) -> Corpus:
    """The corpus that `data` describes, tokenised now or found in `cache` (default: `default_cache()`).

    It is made again when the description, the special tokens asked for, the tokenizer file, or the path, size or time of change
    of a source differs. `workers` (default: the cores) changes the speed, never the tokens. `special`: tokens that a tokenizer
    made here must have. `verify` hashes a found corpus before it is used.
    """
    if workers is not None and workers < 1:
        raise DataError(f"workers = {workers} should be at least 1")
    special = special or Specials()
    key = _key(data, special)
    cache = cache or default_cache()
    target = cache / key[:24]
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f".{target.name}.lock"):
            corpus = _opened(target, verify)
            if corpus is None:
                with replacing_directory(target) as folder:
                    made = _make(folder, data, special, workers or available_cores(), progress)
                    write_corpus(folder, made, data.content(), key)
    except OSError as error:
        raise DataError(
            f"{error.filename or cache}: cannot be written ({error.strerror}); "
            "choose another place with the `cache` argument or the variable ANYFORMER_CACHE"
        ) from error
    return corpus or Corpus.open(target)


def _make(folder: Path, data: Data, special: Specials, workers: int, progress: bool) -> Made:
    match data:
        case Text():
            return make_text(folder, data, special, workers, progress)
        case Records():
            return make_records(folder, data, special, workers, progress)
    raise AssertionError("refused when its sources were looked for")


def _sources(data: Data) -> tuple[list[Source], list[Source]]:
    match data:
        case Text():
            return text_sources(data)
        case Records():
            return record_sources(data)
    raise DataError(f"data of kind {data.kind!r} is neither text nor records")


def _key(data: Data, special: Specials) -> str:
    """SHA-256 of everything that decides the content of the corpus, without reading it."""
    sources, held_out = _sources(data)
    parts: dict[str, Any] = {
        "format": FORMAT,
        "data": data.content(),
        "special": special.plain(),
        "sources": [source.identity() for source in sources],
        "held_out": [source.identity() for source in held_out],
        "library": tokenizers.__version__,
    }
    if isinstance(data.tokenizer, TokenizerFile):
        tokenizer = Tokenizer.load(data.tokenizer.path)
        parts["tokenizer"] = [tokenizer.digest, tokenizer.config]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _opened(target: Path, verify: bool) -> Corpus | None:
    if not target.exists():
        return None
    try:
        return Corpus.open(target, verify)
    except DataError as error:
        warnings.warn(f"a damaged cache is made again: {error}", stacklevel=3)
        return None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time make a corpus; the others wait and then open it. The lock ends with its process."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
