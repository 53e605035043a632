"""`prepare`: from a description to a corpus on disk, made once and used again until something changes."""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import tokenizers

from anyformer.data.corpus import FORMAT, Corpus, content_digest, write_index
from anyformer.data.description import BytePairs, Data, TokenizerFile
from anyformer.data.errors import DataError
from anyformer.data.progress import meter
from anyformer.data.reading import Piece, Skipped, SourceFacts, changed, check, documents
from anyformer.data.shards import SplitWriter, token_dtype
from anyformer.data.sources import Source, current, find_sources, without
from anyformer.data.splitting import SPLITS, Rule, SplitName, assign, decide
from anyformer.data.tokenizers import TokenArray, Tokenizer
from anyformer.data.vocabulary import TRAINING_PIECE, make_tokenizer, sample
from anyformer.data.workers import available_cores, encode_in_processes
from anyformer.files import default_cache, replacing_directory

PROCESSES_FROM = 64_000_000
"""Bytes of text from which starting processes pays; below, the library's own threads do."""
LEARN_APART_FROM = 4_000_000
"""Bytes of text from which tokens are learnt in a process of its own: below, a signal waits for less than a second."""
_GROUP_CHARACTERS, _GROUP_PIECES = 2**20, 4096
Group = list[tuple[SplitName, Piece]]


def prepare(
    data: Data, cache: Path | None = None, workers: int | None = None, progress: bool = True, verify: bool = False
) -> Corpus:
    """The corpus that `data` describes, tokenised now or found in `cache` (default: `default_cache()`).

    It is made again when a source's path, size or time of change, the description, or the tokenizer file is another one.
    `workers` (default: the cores) changes the speed, never the tokens. `verify` hashes a found corpus before it is used.
    """
    if workers is not None and workers < 1:
        raise DataError(f"workers = {workers} should be at least 1")
    held_out = find_sources(data.validation_paths, data.glob)
    sources = without(find_sources(data.paths, data.glob), held_out)
    if not sources:
        raise DataError(f"paths = {list(data.paths)}: every file is also in validation_paths; nothing is left to train on")
    key = _key(data, sources, held_out)
    cache = cache or default_cache()
    target = cache / key[:24]
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f".{target.name}.lock"):
            found = _found(target, verify)
            if found is None:
                with replacing_directory(target) as folder:
                    _make(folder, data, sources, held_out, key, workers or available_cores(), progress)
    except OSError as error:
        raise DataError(
            f"{error.filename or cache}: cannot be written ({error.strerror}); "
            "choose another place with the `cache` argument or the variable ANYFORMER_CACHE"
        ) from error
    return found or Corpus.open(target)


def _key(data: Data, sources: Sequence[Source], held_out: Sequence[Source]) -> str:
    """SHA-256 of everything that decides the content, without reading the text."""
    parts: dict[str, Any] = {
        "format": FORMAT,
        "data": data.content(),
        "sources": [source.identity() for source in sources],
        "held_out": [source.identity() for source in held_out],
        "library": tokenizers.__version__,
    }
    if isinstance(data.tokenizer, TokenizerFile):
        parts["tokenizer"] = Tokenizer.load(data.tokenizer.path).digest
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _found(target: Path, verify: bool) -> Corpus | None:
    if not target.exists():
        return None
    try:
        return Corpus.open(target, verify)
    except DataError as error:
        warnings.warn(f"a damaged cache is made again: {error}", stacklevel=3)
        return None


def _make(
    folder: Path, data: Data, sources: Sequence[Source], held_out: Sequence[Source], key: str, workers: int, progress: bool
) -> None:
    """Write the corpus into an empty folder."""
    with meter("reading", sum(source.size for source in (*sources, *held_out)), progress) as advance:
        facts, skipped = _check_all(sources, data.field, advance)
        facts_held_out, more = _check_all(held_out, data.field, advance)
    rule = decide(data, facts)
    tokenizer = _tokenizer(data, rule, facts, facts_held_out, progress)
    tokenizer.save(folder)
    dtype = token_dtype(tokenizer.vocab_size)
    end = tokenizer.end_of_text if rule.separate else None
    writers = {name: SplitWriter(folder, name, dtype, end) for name in SPLITS}
    size = sum(fact.bytes for fact in (*facts, *facts_held_out))
    groups = _groups(assign(data, rule, facts, facts_held_out))
    # Closed at once on any error, for it may own processes.
    with meter("tokenising", size, progress) as advance, closing(_encode(tokenizer, folder, groups, size, workers)) as encoded:
        for group, arrays in encoded:
            for (split, piece), tokens in zip(group, arrays, strict=True):
                length = len(piece.text.encode())
                writers[split].add(tokens, length, piece.ends)
                advance(length)
    for fact in (*facts, *facts_held_out):
        if current(fact.source).identity() != fact.source.identity():
            raise changed(fact.source)
    splits: dict[str, Any] = {name: writer.close() for name, writer in writers.items()}
    write_index(
        folder,
        {
            "format": FORMAT,
            "key": key,
            "digest": content_digest(tokenizer.digest, dtype.str, splits),
            "dtype": dtype.str,
            "tokenizer": tokenizer.digest,
            "data": data.content(),
            "splits": splits,
            "skipped": [{"path": item.path, "reason": item.reason} for item in (*skipped, *more)],
            "sources": {str(fact.source.path): fact.fingerprint for fact in (*facts, *facts_held_out)},
        },
    )


def _check_all(
    sources: Sequence[Source], field: str, advance: Callable[[int], None]
) -> tuple[list[SourceFacts], list[Skipped]]:
    facts: list[SourceFacts] = []
    skipped: list[Skipped] = []
    for source in sources:
        found = check(source, field, advance)
        if isinstance(found, Skipped):
            skipped.append(found)
            continue
        facts.append(found)
        if found.empty:
            skipped.append(Skipped(str(source.path), f"{documents(found.empty)} {'is' if found.empty == 1 else 'are'} empty"))
    if sources and not facts:
        reasons = "; ".join(f"{item.path}: {item.reason}" for item in skipped[:5])
        raise DataError(f"no file found has text ({reasons}); name files of UTF-8 text")
    return facts, skipped


def _tokenizer(
    data: Data, rule: Rule, facts: Sequence[SourceFacts], held_out: Sequence[SourceFacts], progress: bool
) -> Tokenizer:
    def training() -> Iterator[str]:
        # The held-out text may not shape the tokenizer.
        share = data.tokenizer.sample_bytes / size if isinstance(data.tokenizer, BytePairs) else 1.0
        with meter("learning tokens", int(size * min(1.0, share)), progress) as advance:
            pieces = (piece.text for split, piece in assign(data, rule, facts, (), TRAINING_PIECE) if split == "train")
            for text in sample(pieces, share):
                advance(len(text.encode()))
                yield text

    def everything() -> Iterator[str]:
        with meter("collecting characters", size + sum(fact.bytes for fact in held_out), progress) as advance:
            for _, piece in assign(data, rule, facts, held_out):
                advance(len(piece.text.encode()))
                yield piece.text

    size = sum(fact.bytes for fact in facts)
    return make_tokenizer(data.tokenizer, training, everything, apart=size >= LEARN_APART_FROM)


def _encode(
    tokenizer: Tokenizer, folder: Path, groups: Iterable[Group], size: int, workers: int
) -> Generator[tuple[Group, list[TokenArray]]]:
    def texts(group: Group) -> list[str]:
        return [piece.text for _, piece in group]

    if workers > 1 and size >= PROCESSES_FROM and not tokenizer.instant:
        yield from encode_in_processes(folder, groups, texts, workers)
        return
    for group in groups:
        yield group, tokenizer.encode_batch(texts(group), threads=workers > 1)


def _groups(pieces: Iterable[tuple[SplitName, Piece]]) -> Iterator[Group]:
    """Pieces in lists of about a million characters."""
    group: Group = []
    characters = 0
    for item in pieces:
        group.append(item)
        characters += len(item[1].text)
        if characters >= _GROUP_CHARACTERS or len(group) >= _GROUP_PIECES:
            yield group
            group, characters = [], 0
    if group:
        yield group


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time make a corpus; the others wait and find it made. The lock goes with its process."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
