"""Text -> tokens -> batches. `prepare` makes a corpus from a description; `Batches` and `windows` cut it. No torch."""

from anyformer.data.baseline import interpolated_bigram_loss
from anyformer.data.batches import IGNORED, Batch, Batches, spread, windows
from anyformer.data.corpus import Corpus, Split
from anyformer.data.description import BytePairs, Bytes, Characters, Data, TokenizerFile, TokenizerSpec
from anyformer.data.errors import DataError
from anyformer.data.pipeline import prepare
from anyformer.data.reading import Skipped
from anyformer.data.streaming import StreamDecoder
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
    "Skipped",
    "Split",
    "StreamDecoder",
    "Tokenizer",
    "TokenizerFile",
    "TokenizerSpec",
    "interpolated_bigram_loss",
    "prepare",
    "spread",
    "windows",
]
