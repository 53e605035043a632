"""Text -> tokens -> batches. `prepare` makes a corpus from a description; `Batches` and `windows` cut it. No torch."""

from anyformer.data.baseline import interpolated_bigram_loss
from anyformer.data.batches import IGNORED, Batch, Batches, spread, window_count, windows
from anyformer.data.columns import Record, RecordTable
from anyformer.data.corpus import Corpus, Endless, Mixed, Split
from anyformer.data.description import Data, Files, Text
from anyformer.data.kinds import (
    AnswerSpans,
    Arrays,
    ChatRecords,
    Chats,
    Completions,
    Component,
    Dialogue,
    Images,
    Labelled,
    Mixture,
    Pixels,
    Preferences,
    Prompts,
    Scored,
    Similar,
    Sounds,
    Speech,
    TextPairs,
    Vectors,
    WordLabels,
)
from anyformer.data.packing import PackedRows
from anyformer.data.pipeline import prepare, prepare_share
from anyformer.data.reading import Skipped
from anyformer.data.record_batches import RecordBatch, RecordBatches, record_windows
from anyformer.data.records import Records
from anyformer.data.shares import Shares, quotas
from anyformer.data.stretches import WorkShare
from anyformer.data.tokenizer_specs import (
    BytePairs,
    Bytes,
    Characters,
    LearntTokenizer,
    Symbols,
    TokenizerFile,
    TokenizerSpec,
    Unigram,
    WordPiece,
    WordTokenizer,
)

__all__ = [
    "IGNORED",
    "AnswerSpans",
    "Arrays",
    "Batch",
    "Batches",
    "BytePairs",
    "Bytes",
    "Characters",
    "ChatRecords",
    "Chats",
    "Completions",
    "Component",
    "Corpus",
    "Data",
    "Dialogue",
    "Endless",
    "Files",
    "Images",
    "Labelled",
    "LearntTokenizer",
    "Mixed",
    "Mixture",
    "PackedRows",
    "Pixels",
    "Preferences",
    "Prompts",
    "Record",
    "RecordBatch",
    "RecordBatches",
    "RecordTable",
    "Records",
    "Scored",
    "Shares",
    "Similar",
    "Skipped",
    "Sounds",
    "Speech",
    "Split",
    "Symbols",
    "Text",
    "TextPairs",
    "TokenizerFile",
    "TokenizerSpec",
    "Unigram",
    "Vectors",
    "WordLabels",
    "WordPiece",
    "WordTokenizer",
    "WorkShare",
    "interpolated_bigram_loss",
    "prepare",
    "prepare_share",
    "quotas",
    "record_windows",
    "spread",
    "window_count",
    "windows",
]
