"""Running text -> a corpus on disk: checked, split, tokenised, written in shards."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from anyformer.data.corpus import Made
from anyformer.data.description import Text
from anyformer.data.errors import DataError
from anyformer.data.progress import meter
from anyformer.data.reading import Piece, Skipped, SourceFacts, changed, check, documents
from anyformer.data.shards import SplitWriter, token_dtype
from anyformer.data.sources import Source, current, find_sources, without
from anyformer.data.specials import Specials
from anyformer.data.splitting import SPLITS, Rule, SplitName, assign, decide
from anyformer.data.tokenizer_specs import learnt
from anyformer.data.tokenizers import TokenArray, Tokenizer
from anyformer.data.vocabulary import TRAINING_PIECE, make_tokenizer, sample
from anyformer.data.workers import encode_in_processes

PROCESSES_FROM = 64_000_000
"""Bytes of text from which tokenising in processes is faster; below, the library's own threads are."""
LEARN_IN_PROCESS_FROM = 4_000_000
"""Bytes of text from which tokens are learnt in a process of its own; below, a signal waits for less than a second."""
_GROUP_CHARACTERS, _GROUP_PIECES = 2**20, 4096
Group = list[tuple[SplitName, Piece]]


def make_text(folder: Path, data: Text, special: Specials, workers: int, progress: bool) -> Made:
    """Write the tokens of the data's files into an empty folder."""
    sources, held_out = text_sources(data)
    with meter("reading", sum(source.size for source in (*sources, *held_out)), progress) as advance:
        facts, skipped = _check_all(sources, data.field, advance)
        facts_held_out, more = _check_all(held_out, data.field, advance)
    rule = decide(data, facts)
    tokenizer = _tokenizer(data, special, rule, facts, facts_held_out, progress)
    tokenizer.save(folder)  # for processes
    end = tokenizer.end_of_text if rule.separate else None
    writers = {name: SplitWriter(folder, name, token_dtype(tokenizer.vocab_size), end) for name in SPLITS}
    size = sum(fact.bytes for fact in (*facts, *facts_held_out))
    groups = _groups(assign(data, rule, facts, facts_held_out))
    # Closed at once on any error, since it may own processes.
    with meter("tokenising", size, progress) as advance, closing(_encode(tokenizer, folder, groups, size, workers)) as encoded:
        for group, arrays in encoded:
            for (split, piece), tokens in zip(group, arrays, strict=True):
                length = len(piece.text.encode())
                writers[split].add(tokens, length, piece.ends)
                advance(length)
    for fact in (*facts, *facts_held_out):
        if current(fact.source).identity() != fact.source.identity():
            raise changed(fact.source)
    return Made(
        tokenizer,
        {name: writer.close() for name, writer in writers.items()},
        {str(fact.source.path): fact.fingerprint for fact in (*facts, *facts_held_out)},
        (*skipped, *more),
    )


def text_sources(data: Text) -> tuple[list[Source], list[Source]]:
    """The files to train on and the files of `validation_paths`."""
    held_out = find_sources(data.validation_paths, data.glob)
    sources = without(find_sources(data.paths, data.glob), held_out)
    if not sources:
        raise DataError(f"paths = {list(data.paths)}: every file is also in validation_paths; nothing is left to train on")
    return sources, held_out


def _check_all(
    sources: Sequence[Source], field: str, advance: Callable[[int], None]
) -> tuple[list[SourceFacts], list[Skipped]]:
    facts: list[SourceFacts] = []
    skipped: list[Skipped] = []
    for source in sources:
        checked = check(source, field, advance)
        if isinstance(checked, Skipped):
            skipped.append(checked)
            continue
        facts.append(checked)
        if checked.empty:
            verb = "is" if checked.empty == 1 else "are"
            skipped.append(Skipped(str(source.path), f"{documents(checked.empty)} {verb} empty"))
    if sources and not facts:
        reasons = "; ".join(f"{item.path}: {item.reason}" for item in skipped[:5])
        raise DataError(f"no file has text ({reasons}); name files of UTF-8 text")
    return facts, skipped


def _tokenizer(
    data: Text, special: Specials, rule: Rule, facts: Sequence[SourceFacts], held_out: Sequence[SourceFacts], progress: bool
) -> Tokenizer:
    def training() -> Iterator[str]:
        # The held-out text may not shape the tokenizer.
        spec = learnt(data.tokenizer)
        share = 1.0 if spec is None else spec.sample_bytes / size
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
    return make_tokenizer(data.tokenizer, training, everything, special, in_process=size >= LEARN_IN_PROCESS_FROM)


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
