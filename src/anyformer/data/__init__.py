"""Text -> tokens -> batches. `prepare` makes a corpus from a description; `Batches` and `windows` cut it. No torch."""

from anyformer.data.baseline import interpolated_bigram_loss
from anyformer.data.batches import IGNORED, Batch, Batches, spread, window_count, windows
from anyformer.data.columns import Record, Table
from anyformer.data.corpus import Corpus, Endless, Mixed, Split
from anyformer.data.description import Data, Files, Text
from anyformer.data.generated import Generated
from anyformer.data.kinds import (
    Answers,
    Arrays,
    Chats,
    Completions,
    Component,
    Dialogue,
    Images,
    Labelled,
    Mixture,
    Pairs,
    Pixels,
    Preferences,
    Prompts,
    Scored,
    Similar,
    Spoken,
    Vectors,
    WordLabels,
)
from anyformer.data.packing import Rows
from anyformer.data.pipeline import prepare
from anyformer.data.reading import Skipped
from anyformer.data.record_batches import RecordBatch, RecordBatches, record_windows
from anyformer.data.records import Records
from anyformer.data.shares import Shares, quotas
from anyformer.data.tokenizer_specs import (
    BytePairs,
    Bytes,
    Characters,
    Learnt,
    Symbols,
    TokenizerFile,
    TokenizerSpec,
    Unigram,
    WordPiece,
    Words,
)

__all__ = [
    "IGNORED",
    "Answers",
    "Arrays",
    "Batch",
    "Batches",
    "BytePairs",
    "Bytes",
    "Characters",
    "Chats",
    "Completions",
    "Component",
    "Corpus",
    "Data",
    "Dialogue",
    "Endless",
    "Files",
    "Generated",
    "Images",
    "Labelled",
    "Learnt",
    "Mixed",
    "Mixture",
    "Pairs",
    "Pixels",
    "Preferences",
    "Prompts",
    "Record",
    "RecordBatch",
    "RecordBatches",
    "Records",
    "Rows",
    "Scored",
    "Shares",
    "Similar",
    "Skipped",
    "Split",
    "Spoken",
    "Symbols",
    "Table",
    "Text",
    "TokenizerFile",
    "TokenizerSpec",
    "Unigram",
    "Vectors",
    "WordLabels",
    "WordPiece",
    "Words",
    "interpolated_bigram_loss",
    "prepare",
    "quotas",
    "record_windows",
    "spread",
    "window_count",
    "windows",
]
