"""How text becomes tokens: what a tokenizer is to be, as frozen values."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from anyformer.describe import Value

SampleBytes = Annotated[int, Field(ge=1)]


class LearntTokenizer(Value):
    """A tokenizer that is learnt from the training split, always the same one from the same text.

    Each has a `vocab` and `sample_bytes`, declared in the order in which its fields are written.
    """


class BytePairs(LearntTokenizer):
    """Byte-level BPE trained on the training split (Sennrich et al. 2016; bytes as in GPT-2): lossless on every string."""

    kind: Literal["byte_pairs"] = "byte_pairs"
    vocab: Annotated[int, Field(ge=257, le=2**20)] = 4096
    """Tokens wanted, the 256 bytes and `<|endoftext|>` included; little text may give fewer."""
    digits: Literal[1, 3] = 3
    """The longest run of digits that may become one token."""
    sample_bytes: SampleBytes = 100_000_000
    """At most about this much text trains the tokenizer, taken evenly from the whole training split."""


class WordPiece(LearntTokenizer):
    """BERT's tokens (Devlin et al. 2019): words cut at white space and punctuation, spelt greedily by the longest known pieces,
    `##` before a piece that goes on; white space, and accents of lower case, are lost."""

    kind: Literal["word_piece"] = "word_piece"
    vocab: Annotated[int, Field(ge=64, le=2**20)] = 4096
    """Tokens wanted, characters and special tokens included; little text may give fewer."""
    lowercase: bool = True
    """Lower case without accents, as BERT's uncased models; False keeps both."""
    sample_bytes: SampleBytes = 100_000_000
    """At most about this much text trains the tokenizer, taken evenly from the whole training split."""


class Unigram(LearntTokenizer):
    """The most probable pieces of a unigram model (Kudo 2018, as in SentencePiece), and bytes for characters that are rare:
    lossless on every string, since pieces spell white space as it is."""

    kind: Literal["unigram"] = "unigram"
    vocab: Annotated[int, Field(ge=320, le=2**20)] = 4096
    """Tokens wanted, the 256 bytes and special tokens included; little text may give fewer."""
    sample_bytes: SampleBytes = 100_000_000
    """At most about this much text trains the tokenizer, taken evenly from the whole training split."""


class WordTokenizer(LearntTokenizer):
    """One token per word or punctuation mark, for the most frequent ones; any other is `[UNK]`, and white space is lost."""

    kind: Literal["words"] = "words"
    vocab: Annotated[int, Field(ge=2, le=2**20)] = 4096
    """Tokens wanted, `[UNK]` and special tokens included; little text may give fewer."""
    sample_bytes: SampleBytes = 100_000_000
    """At most about this much text trains the tokenizer, taken evenly from the whole training split."""


class Bytes(Value):
    """One token per UTF-8 byte (the token's number is the byte), and `<|endoftext|>` = 256."""

    kind: Literal["bytes"] = "bytes"


class Characters(Value):
    """One token per character found in the data (all splits), in code point order, and `<|endoftext|>` last."""

    kind: Literal["characters"] = "characters"
    unknown: Literal["refuse", "replace"] = "refuse"
    """A character that is not in the data becomes an error, or U+FFFD."""


class Symbols(Value):
    """One token per symbol of generated data, by its name between blanks, beside `<|endoftext|>` and `[UNK]`."""

    kind: Literal["symbols"] = "symbols"


class TokenizerFile(Value):
    """An existing tokenizer: a `tokenizer.json`, a directory (as a Hugging Face model's) that has one, or a model of a hub."""

    kind: Literal["file"] = "file"
    path: Annotated[str, Field(min_length=1)]
    """Path of the file or of the directory; or `hub:ORG/NAME@REVISION`, of which the files about text are fetched."""


LearntSpec = Annotated[BytePairs | WordPiece | Unigram | WordTokenizer, Field(discriminator="kind")]
"""The tokenizers that are learnt from text, each with a `vocab`."""
TokenizerSpec = Annotated[
    BytePairs | WordPiece | Unigram | WordTokenizer | Bytes | Characters | Symbols | TokenizerFile, Field(discriminator="kind")
]


def learnt(spec: TokenizerSpec) -> LearntSpec | None:
    """The description itself if it is of a tokenizer that is learnt from text, else None."""
    match spec:
        case BytePairs() | WordPiece() | Unigram() | WordTokenizer():
            return spec
        case _:
            return None
