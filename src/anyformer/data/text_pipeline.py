"""Running text -> a corpus on disk: checked, split, tokenised in stretches, joined into shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Self

from anyformer.data.corpus import PreparedFiles
from anyformer.data.description import Text
from anyformer.data.progress import meter
from anyformer.data.reading import check_same
from anyformer.data.shards import RunWriter, SplitWriter, TokenRun, token_dtype
from anyformer.data.sources import SourceFile
from anyformer.data.splitting import SPLITS, AssignedPiece, SplitRule, assign
from anyformer.data.stretches import WHOLE, Stretches, WorkShare
from anyformer.data.surveys import kept_tokenizer, learn_tokenizer
from anyformer.data.text_survey import TextSurvey
from anyformer.data.workers import encoded_in_order
from anyformer.text.specials import Specials
from anyformer.text.tokenizers import TokenArray, Tokenizer

_GROUP_CHARACTERS, _GROUP_PIECES = 2**20, 4096
Group = list[AssignedPiece]


@dataclass(frozen=True)
class TextWork:
    """A text on its way to tokens: facts of its files, its tokenizer and the stretches made so far, kept in `folder`."""

    folder: Path
    survey: TextSurvey
    tokenizer: Tokenizer
    around: tuple[tuple[int, ...], tuple[int, ...]]
    """Tokens before and behind each document."""

    @classmethod
    def begun(cls, folder: Path, data: Text, special: Specials, progress: bool, share: WorkShare = WHOLE) -> Self:
        """The work on `data`, begun or continued in `folder`: its files are read once, and its tokenizer is made."""
        folder.mkdir(exist_ok=True)
        survey = TextSurvey.of(data, progress, folder / "facts", share)
        tokenizer = kept_tokenizer(folder, lambda: learn_tokenizer(data.tokenizer, [(survey, 1.0)], special, progress))
        return cls(folder, survey, tokenizer, around_documents(tokenizer, special, survey.rule))

    @property
    def stretches(self) -> Stretches:
        """The stretches of the whole text."""
        return Stretches(self.folder / "stretches", sum(fact.characters for fact in self.survey.every))

    def tokenise(self, share: WorkShare, workers: int, progress: bool) -> None:
        """Make the stretches of a share that are missing."""
        stretches = self.stretches
        missing = stretches.missing(share.of(stretches.count))
        size = sum(fact.bytes for fact in self.survey.every) * len(missing) // stretches.count
        survey = self.survey
        pieces = assign(
            survey.data, survey.rule, survey.facts, survey.held_out,
            wanted=lambda start, stop: stretches.touched(missing, start, stop),
        )  # fmt: skip
        encoded = encoded_in_order(self.tokenizer, self.folder / "tokenizer", _groups(pieces), _texts, size, workers)
        made = set[int]()
        # Closed at once on any error, since it may own processes.
        with meter("tokenising", size, progress) as advance, closing(encoded):
            items = (item for group, arrays in encoded for item in zip(group, arrays, strict=True))
            for number, those in groupby(items, lambda item: stretches.number(item[0].at)):
                advance(self._make(number, those))
                made.add(number)
        for number in missing - made:  # nothing begins in them
            self._make(number, ())

    def joined(self, folder: Path) -> PreparedFiles:
        """Write the tokens of all stretches, in order, into an empty folder."""
        writers = {name: SplitWriter(folder, name, token_dtype(self.tokenizer.vocab_size)) for name in SPLITS}
        for number in range(self.stretches.count):
            arrays = self.stretches.read(number)
            for name, writer in writers.items():
                writer.add(TokenRun.of(name, arrays))
        return PreparedFiles(
            self.tokenizer,
            {name: writer.close() for name, writer in writers.items()},
            {str(fact.source.path): fact.fingerprint for fact in self.survey.every},
            self.survey.skipped,
        )

    def _make(self, number: int, items: Iterable[tuple[AssignedPiece, TokenArray]]) -> int:
        """Keep a stretch, unless a file that it is of has changed meanwhile; gives the bytes of its text."""
        writers, sources = {name: RunWriter(*self.around) for name in SPLITS}, dict[SourceFile, None]()
        for each, tokens in items:
            writers[each.split].add(tokens, len(each.piece.text.encode()), each.begins, each.piece.ends)
            sources[each.source] = None
        for source in sources:
            check_same(source)
        dtype = token_dtype(self.tokenizer.vocab_size)
        runs = {name: writer.run() for name, writer in writers.items()}
        self.stretches.write(
            number, {key: array for name, run in runs.items() for key, array in run.arrays(name, dtype).items()}
        )
        return sum(run.bytes for run in runs.values())


def around_documents(tokenizer: Tokenizer, special: Specials, rule: SplitRule) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What stands before and behind each document: what the tokenizer puts around a text, and the token that ends a text where
    it puts nothing behind one.

    As TRL and transformers' `run_clm` have it, but for the end, which the latter leaves out. Nothing but the end where rows are
    framed, and no end behind a single document of which a part is held out.
    """
    end = () if tokenizer.end_of_text is None or not rule.separate else (tokenizer.end_of_text,)
    frame = tokenizer.frame.single
    return ((), end) if special.rows else (frame.before, frame.behind or end)


def _texts(group: Sequence[AssignedPiece]) -> list[str]:
    return [each.piece.text for each in group]


def _groups(pieces: Iterable[AssignedPiece]) -> Iterator[Group]:
    """Pieces in lists of about a million characters."""
    group: Group = []
    characters = 0
    for each in pieces:
        group.append(each)
        characters += len(each.piece.text)
        if characters >= _GROUP_CHARACTERS or len(group) >= _GROUP_PIECES:
            yield group
            group, characters = [], 0
    if group:
        yield group
