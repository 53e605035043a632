"""From a file to its text: checked whole before any of it is used, then streamed in pieces. Memory stays at a few pieces."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, NoReturn

from anyformer.data.compressed import is_compressed, looks_like, opened, suffix_of, told
from anyformer.data.formats import READERS
from anyformer.data.lines import NoTextError, text_after
from anyformer.data.row import BadRecord
from anyformer.data.sources import SourceFile, current
from anyformer.text.errors import DataError

PIECE = 256 * 1024
"""Characters per piece: small enough that a tokenizer's working memory (100 bytes per token) stays small."""
_BLOCK = 1024 * 1024
EMPTY = "empty"
"""Reason why a file without characters is skipped."""


def documents(count: int) -> str:
    """`1 document`, `2 documents`."""
    return f"{count:,} document{'' if count == 1 else 's'}"


@dataclass(frozen=True)
class SourceFacts:
    """Facts of a file from one pass: text bytes, characters, documents, and the range of its documents' keys (64-bit)."""

    source: SourceFile
    bytes: int
    characters: int
    documents: int
    empty: int
    low: int
    high: int

    @property
    def fingerprint(self) -> str:
        """Equal for equal text: sizes, and the least and the greatest hash of its documents."""
        return f"{self.bytes}-{self.characters}-{self.documents}-{self.low:016x}-{self.high:016x}"


@dataclass(frozen=True)
class Skipped:
    """A file, or some of its lines, without usable text, and the reason."""

    path: str
    reason: str


@dataclass(frozen=True)
class TextPiece:
    """The next text of a document; `key` is the document's hash; `ends`: whether the document ends here."""

    text: str
    key: int
    ends: bool


class _UnfitError(Exception):
    """The file is no text."""


def check(source: SourceFile, field: str, advance: Callable[[int], None] = lambda count: None) -> SourceFacts | Skipped:
    """Read a file once, calling `advance` with bytes read. Empty, binary and non-UTF-8 files are `Skipped`, or refused if the
    user named them; a wrong JSON line is always refused, as `file:line`."""
    try:
        found = (_check_rows if source.rows else _check_text)(source, field, told(source.path, advance))
        if is_compressed(source.path):
            advance(source.size)
        return found
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
    except _UnfitError as error:
        reason = str(error)
    if source.explicit:
        if reason == EMPTY:
            raise DataError(f"{source.path}: the file is empty; give one with text, or leave it out")
        known = looks_like(source.path)
        if known is not None:
            raise DataError(f"{source.path}: is {known[0]}, by its first bytes, and no UTF-8 text: {known[1]}, or leave it out")
        raise DataError(f"{source.path}: {reason}; only UTF-8 text is read: convert the file or leave it out")
    return Skipped(str(source.path), reason)


def read(facts: SourceFacts, field: str, size: int = PIECE) -> Iterator[TextPiece]:
    """The text of a checked file in pieces of at most `size` characters (see `cut`)."""
    try:
        if not facts.source.rows:
            with opened(facts.source.path) as file:
                yield from _pieces(_decoded(file, size), facts.low, size)
            return
        for text in filter(None, _texts(facts.source, field, lambda count: None)):
            blocks = (text[start : start + size] for start in range(0, len(text), size))
            yield from _pieces(blocks, _key(hashlib.sha256(text.encode())), size)
    except (OSError, UnicodeDecodeError, _UnfitError):
        raise changed(facts.source) from None


def cut(text: str) -> int:
    """Where to cut running text, as a number of characters: after the last line end that an unindented line follows, because
    tokenizers join white space but no word across a line end; else after the last line end, or space, or at the end."""
    end = len(text)
    while (end := text.rfind("\n", 0, end)) >= 0:
        if end + 1 < len(text) and not text[end + 1].isspace():
            return end + 1
    return text.rfind("\n") + 1 or text.rfind(" ") + 1 or len(text)


def _pieces(blocks: Iterator[str], key: int, size: int) -> Iterator[TextPiece]:
    held = ""
    for block in blocks:
        held += block
        while len(held) > size:
            place = cut(held[:size])
            yield TextPiece(held[:place], key, ends=False)
            held = held[place:]
    yield TextPiece(held, key, ends=True)


def _decoded(file: IO[bytes], size: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    while block := file.read(size):
        yield decoder.decode(block)
    decoder.decode(b"", final=True)


def changed(source: SourceFile) -> DataError:
    """The error for a file that changed after it was checked."""
    return DataError(f"{source.path}: the file changed while it was being read; run again when nothing writes to it")


def check_same(source: SourceFile) -> None:
    """Raise the error of `changed` if a file is not what it was when it was found."""
    if current(source).identity() != source.identity():
        raise changed(source)


def _check_text(source: SourceFile, field: str, advance: Callable[[int], None]) -> SourceFacts:
    decoder = codecs.getincrementaldecoder("utf-8")()
    digest, seen, characters = hashlib.sha256(), 0, 0
    with opened(source.path) as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            if b"\0" in block:
                raise _UnfitError(f"binary (a NUL at byte {seen + block.index(0):,})")
            characters += len(_strict(decoder, block, seen))
            digest.update(block)
            seen += len(block)
            advance(len(block))
    _strict(decoder, b"", seen, final=True)
    if not characters:
        raise _UnfitError(EMPTY)
    key = _key(digest)
    return SourceFacts(source, bytes=seen, characters=characters, documents=1, empty=0, low=key, high=key)


def _strict(decoder: codecs.IncrementalDecoder, block: bytes, seen: int, final: bool = False) -> str:
    try:
        return text_after(decoder, block, seen, final)
    except ValueError as error:
        raise _UnfitError(str(error)) from None


def _check_rows(source: SourceFile, field: str, advance: Callable[[int], None]) -> SourceFacts:
    size = characters = documents = empty = high = 0
    low = 2**64
    for text in _texts(source, field, advance):
        if not text:
            empty += 1
            continue
        encoded = text.encode()
        key = _key(hashlib.sha256(encoded))
        size, characters, documents = size + len(encoded), characters + len(text), documents + 1
        low, high = min(low, key), max(high, key)
    if not documents:
        raise _UnfitError(EMPTY if not empty else f"all its {empty:,} documents are empty")
    return SourceFacts(source, bytes=size, characters=characters, documents=documents, empty=empty, low=low, high=high)


def _texts(source: SourceFile, field: str, advance: Callable[[int], None]) -> Iterator[str]:
    """The text of every row, and of every line that is not blank, empty texts included."""
    for row in READERS[suffix_of(source.path)](source.path, advance, _refuse):
        yield _field(row.values, field, row.where)


def _refuse(error: BadRecord) -> NoReturn:
    """No row may be bad; one that is no text says that the file is none."""
    if isinstance(error, NoTextError):
        raise _UnfitError(f"{error.reason}, line {error.where.rpartition(':')[2]}")
    raise error


def _field(row: Mapping[str, Any], field: str, where: str) -> str:
    if field not in row:
        raise DataError(f"{where}: has no field {field!r}, only {', '.join(map(repr, row)) or 'an empty object'}; set `field`")
    text = row[field]
    if not isinstance(text, str):
        raise DataError(f"{where}: field {field!r} should be text, got {_shown(text)}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: field {field!r} has {text[error.start]!r}, half of a surrogate pair") from None
    return text


def _key(digest: hashlib._Hash) -> int:
    return int.from_bytes(digest.digest()[:8], "big")


def _shown(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
