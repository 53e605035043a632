"""What stands beside the weights that a run starts from stands beside those of its checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from anyformer.data import Bytes, TokenizerFile
from anyformer.text import Tokenizer
from anyformer.text.beside import Beside
from anyformer.training.text_settings import beside_of, kept_beside
from huggingface.layouts import LAYOUTS, write


@pytest.fixture
def base(tmp_path: Path) -> Path:
    write(LAYOUTS["chat with several ends"], tmp_path / "base")
    return tmp_path / "base"


def test_all_of_it_with_its_tokenizer(tiny, base: Path, tmp_path: Path) -> None:
    run = tiny.but(start_from=str(base), data=tiny.data.but(tokenizer=TokenizerFile(path=str(base))))
    data = kept_beside(run, tmp_path / "run")
    wanted = Beside.read(base).files
    shutil.rmtree(base)
    tokenizer = Tokenizer.load(data.tokenizer.path)
    assert beside_of(tokenizer, tmp_path / "run").files == tokenizer.beside.files == wanted
    assert tokenizer.conventions.ends == (2, 6)


def test_only_what_is_not_about_text_with_another_tokenizer(tiny, base: Path, tmp_path: Path) -> None:
    """The ids of a configuration mean other tokens there."""
    run = tiny.but(start_from=str(base), data=tiny.data.but(tokenizer=Bytes()))
    assert kept_beside(run, tmp_path / "run") == run.data
    own = Tokenizer.load(base)
    kept = beside_of(own, tmp_path / "run").files
    assert kept == own.beside.files
    assert set(Beside.read(tmp_path / "run").files) == {"README.md", "LICENSE", ".gitattributes"}
