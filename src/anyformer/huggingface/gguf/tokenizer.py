"""The tokenizer inside a GGUF file (`tokenizer.ggml.*`), as the files that transformers makes of it."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

from anyformer.describe import Notice
from anyformer.huggingface.gguf.reader import entries_of, metadata_of, pieces_of
from anyformer.text.beside import TOKENIZER, Beside

MODEL = "tokenizer.ggml.model"
"""The key that every tokenizer in a file has."""
PIECES, MOST_PIECES = "tokenizer.ggml.tokens", 500_000
"""The key of a tokenizer's tokens, and twice as many as any published one has."""
NONE = ("none", "no_vocab")
"""What it says of a model without one."""


def beside_of(path: Path) -> Beside:
    """What stands beside a GGUF file; without a `tokenizer.json` there, with the files of the tokenizer inside it.

    A `Notice` says why one inside it is not read: transformers is not installed, or knows no such tokenizer.
    """
    beside, first = Beside.read(path.parent), pieces_of(path)[0]
    inside = metadata_of(first, MODEL)
    if TOKENIZER in beside or inside is None or inside in NONE:
        return beside
    if (count := entries_of(first, PIECES)) > MOST_PIECES:
        problem = f"has {count:,} pieces, and transformers needs minutes for more than {MOST_PIECES:,}"
        warnings.warn(
            f"{path}: goes without its tokenizer, which {problem}; put its {TOKENIZER} beside it", Notice, stacklevel=2
        )
        return beside
    problem = "it is read with transformers, which is not installed: pip install 'anyformer[hf]'"
    try:
        from transformers import AutoTokenizer
    except ImportError:
        warnings.warn(f"{path}: goes without its tokenizer ({inside}); {problem}", Notice, stacklevel=2)
        return beside
    with tempfile.TemporaryDirectory() as place:
        try:
            AutoTokenizer.from_pretrained(str(first.parent), gguf_file=first.name).save_pretrained(place)
        except Exception as error:  # any failure of transformers' own code
            problem = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            warnings.warn(
                f"{path}: goes without its tokenizer ({inside}), of which transformers makes none ({problem}); put the "
                f"model's {TOKENIZER} beside the file",
                Notice,
                stacklevel=2,
            )
            return beside
        return beside.but(dict(Beside.read(Path(place)).files))
