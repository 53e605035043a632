"""Small texts and a cache of each test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyformer.data import Corpus, Text, prepare
from data.texts import Prepare, prose


@pytest.fixture
def make(tmp_path: Path) -> Prepare:
    """`make(paths=..., ...)` prepares a corpus in this test's cache."""

    def run(workers: int | None = 1, cache: Path | None = None, verify: bool = False, **fields: object) -> Corpus:
        return prepare(Text(**fields), cache or tmp_path / "cache", workers, progress=False, verify=verify)

    return run


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A directory of 60 documents."""
    folder = tmp_path / "library"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number:02d}.txt").write_text(prose(number, 60 + number))
    return folder
