"""Odd strings through published tokenizers, against transformers with the same files; skipped where these are not."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from anyformer.text import Tokenizer
from anyformer.text.chat.encoding import reading
from text.against import differences
from text.odd import odd

PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "tokenizers"
FOLDERS = sorted(path.name for path in PUBLISHED.iterdir() if path.is_dir()) if PUBLISHED.is_dir() else []
EACH = 4
"""Which strings a quick test asks: reading a published tokenizer takes longer than all of them."""


@pytest.mark.skipif(not FOLDERS, reason="there are no published tokenizers here")
@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("each", [EACH, pytest.param(1, marks=pytest.mark.slow)])
def test_odd_strings_are_read_and_said_as_in_transformers(tmp_path: Path, name: str, each: int) -> None:
    for path in (PUBLISHED / name).glob("*.gz"):
        (tmp_path / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    ours, theirs = Tokenizer.load(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    texts = odd()[::each]
    assert differences(ours, theirs, texts) == []
    marked = reading(ours)
    for text in texts:
        assert marked.encode(text).tokens.tolist() == theirs(text, add_special_tokens=False)["input_ids"], text
