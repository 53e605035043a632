from __future__ import annotations

import os
from pathlib import Path

import pytest

from anyformer.data.sources import find_sources, without
from anyformer.text import DataError


def _tree(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def _names(root: Path, *globs: str) -> list[str]:
    return [source.path.relative_to(root).as_posix() for source in find_sources([str(root)], globs)]


def test_a_directory_is_sorted_and_leaves_out_hidden_and_compiled(tmp_path: Path) -> None:
    _tree(tmp_path, "b/z.md", "b.txt", "a/x.py", "a/__pycache__/x.py", ".git/y.txt", ".hidden.txt", "a/image.png", "a-b/c.txt")
    assert _names(tmp_path) == ["a/x.py", "a-b/c.txt", "b/z.md", "b.txt"]
    assert _names(tmp_path, "*.png", "b/*") == ["a/image.png", "b/z.md"]


def test_each_file_comes_once_and_named_ones_are_explicit(tmp_path: Path) -> None:
    _tree(tmp_path, "a.txt", "b.txt")
    os.symlink(tmp_path / "b.txt", tmp_path / "c.txt")
    sources = find_sources([str(tmp_path), str(tmp_path / "b.txt")])
    assert [(source.path.name, source.explicit) for source in sources] == [("a.txt", False), ("b.txt", True)]
    assert [source.path.name for source in without(sources, sources[:1])] == ["b.txt"]


def test_the_standard_library_has_its_source_but_no_tests() -> None:
    paths = [source.path for source in find_sources(["python-stdlib"])]
    relative = [path.as_posix().split("/lib/python")[-1] for path in paths]
    assert any(name.endswith("/json/decoder.py") for name in relative)
    assert any(name.endswith("/pydoc_data/topics.py") for name in relative)
    unwanted = ("/test/", "/tests/", "site-packages", "__pycache__", "idle_test")
    assert not any(part in name for name in relative for part in unwanted)
    assert 5e6 < sum(source.size for source in find_sources(["python-stdlib"])) < 50e6
    assert paths == [source.path for source in find_sources(["python-stdlib"])]


def test_wrong_paths_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.txt: no such file"):
        find_sources([str(tmp_path / "nowhere.txt")])
    with pytest.raises(DataError, match="wildcards belong in `glob`"):
        find_sources([str(tmp_path / "*.txt")])
    with pytest.raises(DataError, match=r"this directory has no files; put some there, or name another"):
        find_sources([str(tmp_path)], ["*.md"])
    _tree(tmp_path, "a.jpg", "b.jpg", "c.jsonl.gz")
    with pytest.raises(DataError, match=r"no file in this directory matches \*\.md, only 2 \.jpg, 1 \.jsonl; name others"):
        find_sources([str(tmp_path)], ["*.md"])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="neither a regular file"):
        find_sources([str(tmp_path / "pipe")])


def test_names_that_are_not_utf8_are_refused_before_any_work(tmp_path: Path) -> None:
    """What was prepared could not be written down."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / os.fsdecode(b"caf\xe9.txt")).write_text("text")
    for path in (tmp_path / "in", tmp_path / "in" / os.fsdecode(b"caf\xe9.txt")):
        with pytest.raises(DataError, match=r"in/caf\\xe9\.txt: the name of this file is not UTF-8"):
            find_sources([str(path)])
