"""Tokenizers of a directory without a `tokenizer.json`, from the files of their first libraries."""

from __future__ import annotations

import tempfile
from pathlib import Path

from anyformer.text.beside import TOKENIZER, Beside
from anyformer.text.errors import DataError

SOURCES = (
    "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "sentencepiece.model", "source.spm", "tekken.json",
    "tiktoken.model", "vocab.json", "vocab.txt", "bpe.codes",
)  # fmt: skip
"""Files of SentencePiece, tiktoken, Mistral, GPT-2 and BERT, of which a tokenizer is made."""


def source_of(beside: Beside) -> str | None:
    """The file of which a tokenizer could be made, None if there is none."""
    return next((name for name in SOURCES if name in beside), None)


def converted(beside: Beside) -> str:
    """The text of the `tokenizer.json` that transformers makes of a directory's files; `DataError` if it cannot."""
    source = source_of(beside)
    remedy = (
        f"make its {TOKENIZER} where it can be made, with transformers (`AutoTokenizer.from_pretrained(DIRECTORY)`, "
        f"`.save_pretrained(DIRECTORY)`)"
    )
    try:
        from transformers import AutoTokenizer, PreTrainedTokenizerFast
    except ImportError:
        raise DataError(
            f"{beside.where}: its tokenizer is in {source}, which transformers converts, and that is not installed: "
            f"pip install 'anyformer[hf]'; or {remedy}"
        ) from None
    with tempfile.TemporaryDirectory() as place:
        beside.write(Path(place))
        try:
            made = AutoTokenizer.from_pretrained(place, trust_remote_code=False)
        except Exception as error:  # any failure of transformers' own code
            problem = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            raise DataError(f"{beside.where}: transformers makes no tokenizer of {source} ({problem}); {remedy}") from None
    if not isinstance(made, PreTrainedTokenizerFast):
        raise DataError(
            f"{beside.where}: {source} makes a {type(made).__name__}, which works without the tokenizers library; take a "
            f"model with a {TOKENIZER}"
        )
    definition: str = made.backend_tokenizer.to_str()
    return definition
