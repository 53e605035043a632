"""Running text -> a corpus on disk: checked, split, tokenised, written in shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from anyformer.data.corpus import PreparedFiles
from anyformer.data.description import Text
from anyformer.data.progress import meter
from anyformer.data.reading import Skipped, SourceFacts, TextPiece, changed, check, documents
from anyformer.data.shards import SplitWriter, token_dtype
from anyformer.data.sources import SourceFile, current, find_sources, without
from anyformer.data.splitting import SPLITS, SplitName, SplitRule, assign, decide
from anyformer.data.surveys import learn_tokenizer
from anyformer.data.vocabulary import TRAINING_PIECE
from anyformer.data.workers import encoded_in_order
from anyformer.text.errors import DataError
from anyformer.text.specials import Specials
from anyformer.text.tokenizers import Tokenizer

_GROUP_CHARACTERS, _GROUP_PIECES = 2**20, 4096
Group = list[tuple[SplitName, TextPiece]]


@dataclass(frozen=True)
class TextSurvey:
    """Facts of a text's files from one pass, and the rule by which it is split."""

    data: Text
    facts: Sequence[SourceFacts]
    held_out: Sequence[SourceFacts]
    skipped: Sequence[Skipped]
    rule: SplitRule

    @classmethod
    def of(cls, data: Text, progress: bool) -> Self:
        """Read all files once, and refuse what cannot be used."""
        sources, held_out = text_sources(data)
        with meter("reading", sum(source.size for source in (*sources, *held_out)), progress) as advance:
            facts, skipped = _check_all(sources, data.field, advance)
            facts_held_out, more = _check_all(held_out, data.field, advance)
        return cls(data, facts, facts_held_out, (*skipped, *more), decide(data, facts))

    @property
    def bytes(self) -> int:
        """Size of the text of `paths`, in UTF-8."""
        return sum(fact.bytes for fact in self.facts)

    def training(self) -> Iterator[str]:
        """The text that a tokenizer may learn from: none that is held out."""
        pieces = assign(self.data, self.rule, self.facts, (), TRAINING_PIECE)
        return (piece.text for split, piece in pieces if split == "train")

    def everything(self) -> Iterator[str]:
        """The whole text."""
        return (piece.text for _, piece in assign(self.data, self.rule, self.facts, self.held_out))


def make_text(folder: Path, data: Text, special: Specials, workers: int, progress: bool) -> PreparedFiles:
    """Write the tokens of the data's files into an empty folder."""
    survey = TextSurvey.of(data, progress)
    facts, rule = (*survey.facts, *survey.held_out), survey.rule
    tokenizer = learn_tokenizer(data.tokenizer, [(survey, 1.0)], special, progress)
    tokenizer.beside.keep(folder)  # for processes
    before, behind = around_documents(tokenizer, special, rule)
    writers = {name: SplitWriter(folder, name, token_dtype(tokenizer.vocab_size), before, behind) for name in SPLITS}
    size = sum(fact.bytes for fact in facts)
    groups = _groups(assign(data, rule, survey.facts, survey.held_out))
    encoded = encoded_in_order(tokenizer, folder, groups, _texts, size, workers)
    # Closed at once on any error, since it may own processes.
    with meter("tokenising", size, progress) as advance, closing(encoded):
        for group, arrays in encoded:
            for (split, piece), tokens in zip(group, arrays, strict=True):
                length = len(piece.text.encode())
                writers[split].add(tokens, length, piece.ends)
                advance(length)
    for fact in facts:
        if current(fact.source).identity() != fact.source.identity():
            raise changed(fact.source)
    return PreparedFiles(
        tokenizer,
        {name: writer.close() for name, writer in writers.items()},
        {str(fact.source.path): fact.fingerprint for fact in facts},
        survey.skipped,
    )


def around_documents(tokenizer: Tokenizer, special: Specials, rule: SplitRule) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What stands before and behind each document: what the tokenizer puts around a text, and the token that ends a text where
    it puts nothing behind one.

    As TRL and transformers' `run_clm` have it, but for the end, which the latter leaves out. Nothing but the end where rows are
    framed, and no end behind a single document of which a part is held out.
    """
    end = () if tokenizer.end_of_text is None or not rule.separate else (tokenizer.end_of_text,)
    frame = tokenizer.frame.single
    return ((), end) if special.rows else (frame.before, frame.behind or end)


def text_sources(data: Text) -> tuple[list[SourceFile], list[SourceFile]]:
    """The files to train on and the files of `validation_paths`."""
    held_out = find_sources(data.validation_paths, data.glob)
    sources = without(find_sources(data.paths, data.glob), held_out)
    if not sources:
        raise DataError(f"paths = {list(data.paths)}: every file is also in validation_paths; nothing is left to train on")
    return sources, held_out


def _check_all(
    sources: Sequence[SourceFile], field: str, advance: Callable[[int], None]
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


def _texts(group: Group) -> list[str]:
    return [piece.text for _, piece in group]


def _groups(pieces: Iterable[tuple[SplitName, TextPiece]]) -> Iterator[Group]:
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
