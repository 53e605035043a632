"""Text -> tokens -> batches. `prepare` makes a corpus from a description; `Batches` and `windows` cut it. No torch."""

from anyformer.data.baseline import interpolated_bigram_loss
from anyformer.data.batches import IGNORED, Batch, Batches, spread, windows
from anyformer.data.corpus import Corpus, Split
from anyformer.data.description import Data
from anyformer.data.errors import DataError
from anyformer.data.pipeline import prepare
from anyformer.data.reading import Skipped
from anyformer.data.specials import RoleName, Specials
from anyformer.data.streaming import StreamDecoder
from anyformer.data.tokenizer_specs import (
    BytePairs,
    Bytes,
    Characters,
    Learnt,
    TokenizerFile,
    TokenizerSpec,
    Unigram,
    WordPiece,
    Words,
)
from anyformer.data.tokenizers import Tokenizer

__all__ = [
    "IGNORED",
    "Batch",
    "Batches",
    "BytePairs",
    "Bytes",
    "Characters",
    "Corpus",
    "Data",
    "DataError",
    "Learnt",
    "RoleName",
    "Skipped",
    "Specials",
    "Split",
    "StreamDecoder",
    "Tokenizer",
    "TokenizerFile",
    "TokenizerSpec",
    "Unigram",
    "WordPiece",
    "Words",
    "interpolated_bigram_loss",
    "prepare",
    "spread",
    "windows",
]
