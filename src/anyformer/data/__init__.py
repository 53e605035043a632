"""Text -> tokens -> batches. `prepare` makes a corpus from a description; `Batches` and `windows` cut it. No torch here."""

from anyformer.data.baseline import interpolated_bigram_loss
from anyformer.data.batches import IGNORED, Batch, Batches, spread, windows
from anyformer.data.corpus import Corpus, Split
from anyformer.data.description import BytePairs, Bytes, Characters, Data, TokenizerFile, TokenizerSpec
from anyformer.data.errors import DataError
from anyformer.data.pipeline import prepare
from anyformer.data.reading import Skipped
from anyformer.data.streaming import StreamDecoder
from anyformer.data.tokenizers import Tokenizer
from anyformer.files import default_cache

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
    "Skipped",
    "Split",
    "StreamDecoder",
    "Tokenizer",
    "TokenizerFile",
    "TokenizerSpec",
    "default_cache",
    "interpolated_bigram_loss",
    "prepare",
    "spread",
    "windows",
]
