"""The tokenizers that are learnt: how each cuts text, is trained by the `tokenizers` library, and is put together.

Equal text gives equal tokenizers. The library alone does not give that: its trainer of WordPiece numbers the pieces that go on
in the order of a hash table, and breaks ties by these numbers, so they are given to it beforehand; its trainer of Unigram adds
in such an order, so scores are rounded (`_settled`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from anyformer.data.tokenizer_specs import BytePairs, LearntSpec, Unigram, WordPiece, WordTokenizer
from anyformer.text.errors import DataError
from anyformer.text.specials import UNKNOWN, Specials

COVERAGE = 0.9995
"""The share of a text's characters that get tokens of their own (SentencePiece's default); the others are rare."""
_SCORE_DIGITS = 4
"""Decimals of a piece's score: the library's own differ by 1e-11 from one run to the next."""
_NEVER = -1000.0
"""The score of pieces that text must not make: those of bytes."""
Learner = Callable[[Any, Specials, str, Iterable[str]], tokenizers.Tokenizer]
S = TypeVar("S")


def alphabet(spec: LearntSpec, special: Specials, texts: Iterable[str]) -> str:
    """The characters that are no rare ones, the most frequent first; empty for a tokenizer that needs none."""
    if not isinstance(spec, WordPiece | Unigram):
        return ""
    normalise = _bert(spec.lowercase).normalize_str if isinstance(spec, WordPiece) else str
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normalise(text))
    if isinstance(spec, WordPiece):
        counts = Counter({letter: count for letter, count in counts.items() if not letter.isspace()})
    room = (spec.vocab - least(spec, special)) // (4 if isinstance(spec, WordPiece) else 2)
    kept, seen, total = [], 0, counts.total()
    for letter, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: max(1, room)]:
        if seen >= COVERAGE * total:
            break
        kept.append(letter)
        seen += count
    return "".join(kept)


def least(spec: LearntSpec, special: Specials) -> int:
    """Tokens that a tokenizer has before it learns any."""
    own = {BytePairs: 256, WordPiece: 1, Unigram: 257, WordTokenizer: 1}
    return own[type(spec)] + len(special.names)


def check_room(spec: LearntSpec, special: Specials) -> None:
    """Refuse a vocabulary without room for the special tokens."""
    needed = least(spec, special) + (0 if isinstance(spec, BytePairs) else 1)
    if spec.vocab < needed:
        raise DataError(
            f"tokenizer.vocab = {spec.vocab} has no room for the {len(special.names)} special tokens that the objective needs "
            f"({', '.join(special.names[:4])}, ...); make it at least {needed}, better some thousands"
        )


def train(spec: LearntSpec, special: Specials, letters: str, texts: Iterable[str]) -> str:
    """The text of a `tokenizer.json` learnt from `texts`, whose `alphabet` is `letters`."""
    definition: str = _LEARNERS[type(spec)](spec, special, letters, texts).to_str()
    return definition


def byte_level(model: models.BPE) -> tokenizers.Tokenizer:
    """A tokenizer whose symbols are bytes in GPT-2's letters."""
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    return inner


def _words_of_text(digits: int) -> pre_tokenizers.PreTokenizer:
    """Words with the space or sign before them, digits apart, white space up to the last blank before a word (as in GPT-4).

    No special token, nor `<0x0A>`, is one of these words, so none can be learnt.
    """
    words = (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ).replace("DIGITS", str(digits))
    return pre_tokenizers.Split(Regex(words), "isolated")


def _byte_pairs(spec: BytePairs, special: Specials, letters: str, texts: Iterable[str]) -> tokenizers.Tokenizer:
    inner = byte_level(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [_words_of_text(spec.digits), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=spec.vocab,
        min_frequency=2,
        special_tokens=list(special.names),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    return inner


def _bert(lowercase: bool) -> normalizers.Normalizer:
    return normalizers.BertNormalizer(lowercase=lowercase, strip_accents=lowercase)


def _word_piece(spec: WordPiece, special: Specials, letters: str, texts: Iterable[str]) -> tokenizers.Tokenizer:
    def dressed(model: models.WordPiece) -> tokenizers.Tokenizer:
        inner = tokenizers.Tokenizer(model)
        inner.normalizer = _bert(spec.lowercase)
        inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        inner.decoder = decoders.WordPiece(cleanup=False)
        return inner

    given = [*special.names, UNKNOWN, *sorted(letters), *(f"##{letter}" for letter in sorted(letters))]
    trainer = trainers.WordPieceTrainer(vocab_size=spec.vocab, min_frequency=2, special_tokens=given, show_progress=False)
    inner = dressed(models.WordPiece(unk_token=UNKNOWN))
    kept = _without_rare(texts, letters, inner.normalizer.normalize_str)
    inner.train_from_iterator(kept, trainer)
    return _with_specials(dressed(models.WordPiece(_table(inner), unk_token=UNKNOWN)), special)


def _unigram(spec: Unigram, special: Specials, letters: str, texts: Iterable[str]) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.Unigram())
    inner.pre_tokenizer = _words_of_text(3)
    trainer = trainers.UnigramTrainer(
        vocab_size=spec.vocab - least(spec, special) + 1,
        unk_token="<unk>",
        special_tokens=["<unk>"],
        initial_alphabet=sorted(letters),
        show_progress=False,
    )
    inner.train_from_iterator(_without_rare(texts, letters), trainer)
    learnt = _settled([(piece, score) for piece, score in json.loads(inner.to_str())["model"]["vocab"] if piece != "<unk>"])
    spelt = [(f"<0x{byte:02X}>", _NEVER) for byte in range(256)]
    made = tokenizers.Tokenizer(models.Unigram([("<unk>", _NEVER), *spelt, *learnt], unk_id=0, byte_fallback=True))
    made.pre_tokenizer = inner.pre_tokenizer
    made.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return _with_specials(made, special)


def _settled(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Pieces with scores that are the same in every run, the greatest first.

    The trainer gives letters that it lost the least score, each 0.0001 more than the one before, in the order of a hash table.
    """
    least = min((score for _, score in pieces), default=0.0)
    lost = least + 1e-4 * (sum(len(piece) == 1 for piece, _ in pieces) + 0.5)
    equal = [(piece, round(least if len(piece) == 1 and score < lost else score, _SCORE_DIGITS)) for piece, score in pieces]
    return sorted(equal, key=lambda item: (-item[1], item[0]))


def _words(spec: WordTokenizer, special: Specials, letters: str, texts: Iterable[str]) -> tokenizers.Tokenizer:
    def dressed(model: models.WordLevel) -> tokenizers.Tokenizer:
        inner = tokenizers.Tokenizer(model)
        inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return inner

    trainer = trainers.WordLevelTrainer(vocab_size=spec.vocab, special_tokens=[*special.names, UNKNOWN], show_progress=False)
    inner = dressed(models.WordLevel(unk_token=UNKNOWN))
    inner.train_from_iterator(texts, trainer)
    return _with_specials(dressed(models.WordLevel(_table(inner), unk_token=UNKNOWN)), special)


_LEARNERS: dict[type[LearntSpec], Learner] = {
    BytePairs: _byte_pairs,
    WordPiece: _word_piece,
    Unigram: _unigram,
    WordTokenizer: _words,
}


def _table(inner: tokenizers.Tokenizer) -> dict[str, int]:
    vocabulary: dict[str, int] = inner.get_vocab(with_added_tokens=False)
    return vocabulary


def _with_specials(inner: tokenizers.Tokenizer, special: Specials) -> tokenizers.Tokenizer:
    """The special tokens added: those that the model's vocabulary has keep their numbers, others come last."""
    inner.add_special_tokens(list(special.names))
    return inner


def _without_rare(texts: Iterable[str], letters: str, normalise: Callable[[str], str] = str) -> Iterator[str]:
    """Texts with a line end for every rare character, so that none gets a token."""
    common = set(letters)
    for text in texts:
        text = normalise(text)
        rare = {ord(letter): "\n" for letter in set(text) - common if not letter.isspace()}
        yield text.translate(rare) if rare else text
