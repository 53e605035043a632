"""`prepare`: from a description to a corpus on disk, made once and reused until its description or a file changes."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import tokenizers

from anyformer.data.columns import RecordTable
from anyformer.data.corpus import FORMAT, Corpus, Endless, MadeData, Mixed, PreparedFiles, Split, write_corpus
from anyformer.data.description import Data, Files, Text
from anyformer.data.kinds.mixture import Mixture
from anyformer.data.prepared import is_prepared, open_prepared
from anyformer.data.record_pipeline import RecordSurvey, RecordWork, record_sources
from anyformer.data.records import Records
from anyformer.data.shards import note_written
from anyformer.data.sources import SourceFile
from anyformer.data.stretches import WHOLE, WorkShare
from anyformer.data.surveys import Survey, learn_tokenizer
from anyformer.data.text_pipeline import TextWork
from anyformer.data.text_survey import TextSurvey, text_sources
from anyformer.data.tokenizer_specs import TokenizerFile, learnt
from anyformer.data.workers import available_cores
from anyformer.files import default_cache, locked, replacing_directory
from anyformer.mesh import started_here
from anyformer.text.beside import Beside
from anyformer.text.errors import DataError
from anyformer.text.specials import Specials


def prepare(
    data: Data,
    cache: Path | None = None,
    workers: int | None = None,
    progress: bool = True,
    verify: bool = False,
    special: Specials | None = None,
) -> Corpus:
    """The corpus that `data` describes, tokenised now or found in `cache` (default: `default_cache()`).

    Each part of a mixture is a corpus of its own, with the tokenizer of all. A corpus is made again when the description, the
    special tokens asked for, the tokenizer file, or the path, size or time of change of a source differs. `workers` (default:
    the cores) changes the speed, never the tokens. `special`: tokens that a tokenizer made here must have. `verify` hashes a
    found corpus before it is used.
    """
    cache, special, workers = cache or default_cache(), special or Specials(), _workers(workers)
    with _written(cache):
        match data:
            case Mixture() | Files():
                parts = {
                    name: _prepared(part, cache, workers, progress, verify, special)
                    for name, part in _parts(data, cache, special, progress).items()
                }
                return mixed_corpus(data, parts, cache) if isinstance(data, Mixture) else parts[""]
            case MadeData():
                return data.corpus(cache)
    raise DataError(f"data of kind {data.kind!r} is neither in files nor a mixture of such data, nor generated")


def prepare_share(
    data: Data,
    share: WorkShare,
    cache: Path | None = None,
    workers: int | None = None,
    progress: bool = True,
    special: Specials | None = None,
) -> int:
    """Make the tokens of one of several equal parts of the data, and give the number of stretches that others have to make.

    They are kept in `cache`, which all who make a part can reach. `prepare` joins them, and makes those that are missing.
    """
    cache, special, workers = cache or default_cache(), special or Specials(), _workers(workers)
    left = 0
    with _written(cache):
        if not isinstance(data, Mixture | Files):
            return 0
        for part in _parts(data, cache, special, progress).values():
            if is_prepared(part):
                continue
            target = cache / _key(part, special)[:24]
            if not target.exists():
                begun = _begun(work_folder(target), part, special, progress, share)
                begun.tokenise(share, workers, progress)
                left += begun.stretches.left
    return left


def _workers(workers: int | None) -> int:
    """How many processes tokenise on this machine, for each of those that a launcher started here."""
    if workers is not None and workers < 1:
        raise DataError(f"workers = {workers} should be at least 1")
    return workers or max(1, available_cores() // started_here())


@contextmanager
def _written(cache: Path) -> Iterator[None]:
    """Make the cache; an error of the disk inside is told with the remedy."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise DataError(
            f"{error.filename or cache}: cannot be written ({error.strerror}); "
            "choose another place with the `cache` argument or the variable ANYFORMER_CACHE"
        ) from error


def _parts(data: Mixture | Files, cache: Path, special: Specials, progress: bool) -> Mapping[str, Files]:
    """The data that are prepared apart, by name: the parts of a mixture have the tokenizer of all."""
    if isinstance(data, Files):
        return {"": data}
    _check_apart(data)
    shared = _shared_tokenizer(data, cache, special, progress)
    return {name: part.but(tokenizer=shared) for name, part in data.components.items()}


def _prepared(data: Files, cache: Path, workers: int, progress: bool, verify: bool, special: Specials) -> Corpus:
    if is_prepared(data):
        return open_prepared(data, cache, special, verify)
    key = _key(data, special)
    target = cache / key[:24]
    with locked(cache / f".{target.name}.lock"):
        corpus = _opened(target, verify)
        if corpus is None:
            work = work_folder(target)
            with replacing_directory(target) as folder:
                made = _make(folder, work, data, special, workers, progress)
                write_corpus(folder, made, data.content(), key, special)
            note_written(target)
            shutil.rmtree(work, ignore_errors=True)
    return corpus or Corpus.open(target)


def work_folder(target: Path) -> Path:
    """Where what is made on the way to a corpus is kept until it is whole."""
    return target.with_name(f"{target.name}.work")


def _check_apart(data: Mixture) -> None:
    """Refuse a file that one part trains on and another holds out."""
    files = {name: [{source.path for source in split} for split in _sources(part)] for name, part in data.components.items()}
    for name, (training, _) in files.items():
        for other, (_, held_out) in files.items():
            for path in sorted(training & held_out, key=str):
                raise DataError(f"{path}: {name} trains on it, and {other} holds it out; leave it out of one of them")


def _shared_tokenizer(data: Mixture, cache: Path, special: Specials, progress: bool) -> TokenizerFile:
    """The tokenizer of all parts as a file: made now from their text, or found in `cache`."""
    if isinstance(data.tokenizer, TokenizerFile):
        return data.tokenizer
    parts = list(data.components.values())
    if done := next((part for part in parts if is_prepared(part)), None):
        raise DataError(
            f"{done.paths[0]}: is prepared, with a tokenizer; name that as `tokenizer` (kind 'file') of the mixture"
        )
    # Only a learnt tokenizer depends on how much of each part it learns from.
    weights = [part.weight if learnt(data.tokenizer) else 1.0 for part in data.parts]
    key = _digest({"parts": [_key(part, special) for part in parts], "weights": weights})
    target = cache / f"tokenizer-{key[:24]}"
    with locked(cache / f".{target.name}.lock"):
        if not target.exists():
            with replacing_directory(target) as folder:
                surveys = [(_survey(part, progress), weight) for part, weight in zip(parts, weights, strict=True)]
                wanted = reduce(or_, (part.special for part in parts), special)
                learn_tokenizer(data.tokenizer, surveys, wanted, progress).beside.keep(folder)
    return TokenizerFile(path=str(target))


def _survey(data: Files, progress: bool) -> Survey:
    match data:
        case Text():
            return TextSurvey.of(data, progress)
        case Records():
            return RecordSurvey.of(data, progress)
    raise AssertionError("refused when its sources were looked for")


def _make(folder: Path, work: Path, data: Files, special: Specials, workers: int, progress: bool) -> PreparedFiles:
    """Write the numbers of the data's files into an empty folder; `work` keeps what is made on the way."""
    begun = _begun(work, data, special, progress)
    begun.tokenise(WHOLE, workers, progress)
    return begun.joined(folder)


def _begun(work: Path, data: Files, special: Specials, progress: bool, share: WorkShare = WHOLE) -> TextWork | RecordWork:
    match data:
        case Text():
            return TextWork.begun(work, data, special, progress, share)
        case Records():
            return RecordWork.begun(work, data, special, progress, share)
    raise AssertionError("refused when its sources were looked for")


def _sources(data: Files) -> tuple[list[SourceFile], list[SourceFile]]:
    if is_prepared(data):
        return [], []
    match data:
        case Text():
            return text_sources(data)
        case Records():
            return record_sources(data)
    raise DataError(f"data of kind {data.kind!r} is neither text nor records")


def _key(data: Files, special: Specials) -> str:
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
        # Its content counts, wherever it lies.
        parts["data"] = {**parts["data"], "tokenizer": Beside.named(data.tokenizer.path).digest}
    return _digest(parts)


def _digest(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _opened(target: Path, verify: bool) -> Corpus | None:
    if not target.exists():
        return None
    try:
        return Corpus.open(target, verify)
    except DataError as error:
        warnings.warn(f"a damaged cache is made again: {error}", stacklevel=3)
        return None


def mixed_corpus(data: Mixture, parts: Mapping[str, Corpus], cache: Path) -> Corpus:
    """The parts together; `DataError` if their classes differ. Its digest tells other weights, and another order of parts."""
    first, *others = parts
    one = parts[first]
    for name in others:
        for column, classes in parts[name].names.items():
            if classes != one.names[column]:
                raise DataError(
                    f"the parts of a mixture have the same classes, and {column} has {_few(one.names[column])} in {first} and "
                    f"{_few(classes)} in {name}: leave out the records of the others, or give all parts all of them"
                )
    content = [[parts[part.called].digest, part.weight, part.repeats] for part in data.parts]
    return Corpus(
        directory=cache,
        tokenizer=one.tokenizer,
        train=Mixed("train", {name: _whole(part.train) for name, part in parts.items()}),
        validation=Mixed("validation", {name: _whole(part.validation) for name, part in parts.items()}),
        skipped=tuple(item for part in parts.values() for item in part.skipped),
        digest=hashlib.sha256(json.dumps(content).encode()).hexdigest(),
        sources={path: mark for part in parts.values() for path, mark in part.sources.items()},
        names=one.names,
        parts=parts,
    )


def _whole(split: Split | RecordTable | Mixed | Endless) -> Split | RecordTable:
    assert not isinstance(split, Mixed | Endless), "refused where the mixture is described"
    return split


def _few(classes: tuple[str, ...]) -> str:
    return ", ".join(classes[:5]) + ", ..." * (len(classes) > 5)
