"""Files are written whole or not at all, and refusals of the disk are words."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from safetensors import SafetensorError

from anyformer.files import PlaceError, check_directory, check_file, disk_errors, write_text, writing, writing_directory


def fail_half_way(place):
    with place as partial:
        (partial / "a.toml" if partial.is_dir() else partial).write_text("half")
        raise KeyError


def test_a_file_takes_its_place_whole_and_a_failure_leaves_the_old_one(tmp_path):
    path = tmp_path / "a.toml"
    write_text(path, "old")
    with pytest.raises(KeyError):
        fail_half_way(writing(path))
    assert path.read_text() == "old"
    write_text(path, "new")
    assert path.read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["a.toml"]


def test_looking_whether_a_place_can_be_written_makes_no_name_there(tmp_path, monkeypatch):
    """A process that was killed while it looked left `.anyformer-PID` behind."""
    made = []
    own = os.open

    def opened(path, flags, *more, **others):
        fd = own(path, flags, *more, **others)
        made.extend(tmp_path.iterdir())
        return fd

    monkeypatch.setattr(os, "open", opened)
    check_directory(tmp_path / "new")
    if hasattr(os, "O_TMPFILE"):
        assert not made
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("place", "words"),
    [("none/a.png", "does not exist"), ("file/a.png", "is a file"), (".", "it is a directory"), ("x" * 300, "too long")],
)
def test_a_place_that_cannot_be_is_refused_before_work(tmp_path, place, words):
    (tmp_path / "file").write_text("")
    with pytest.raises(PlaceError, match=words):
        check_file(tmp_path / place)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_new_directory_is_whole_or_absent(tmp_path):
    made = tmp_path / "deep" / "made"
    with pytest.raises(KeyError):
        fail_half_way(writing_directory(made))
    assert not made.exists()
    assert not list((tmp_path / "deep").iterdir())
    with writing_directory(made) as partial:
        (partial / "a").write_text("whole")
    assert (made / "a").read_text() == "whole"
    with pytest.raises(PlaceError, match="exists; give the name of a new directory"):
        check_directory(made)
    with pytest.raises(PlaceError, match="exists and is a file"):
        check_directory(made / "a")


def test_a_place_far_below_nothing_is_refused_and_not_made(tmp_path):
    with pytest.raises(PlaceError, match=r"none does not exist; create it"):
        check_directory(tmp_path / "none" / "far" / "made")
    check_directory(tmp_path / "none" / "made")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_refusals_of_the_disk_are_words(tmp_path, monkeypatch, number):
    def refuse(*_, **__):
        raise OSError(number, "raw")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    for check in (check_file, check_directory):
        with pytest.raises(PlaceError, match=r"cannot be written: .*(read-only|permission|full)"):
            check(tmp_path / "new")


def test_a_full_disk_under_safetensors_is_words(tmp_path):
    error = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    with pytest.raises(PlaceError, match="the disk is full"), disk_errors(tmp_path):
        raise error


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no /proc")
def test_a_directory_that_is_there_is_not_said_to_be_missing():
    with pytest.raises(PlaceError, match=r"^/proc/x: cannot be written: the file system takes no new files"):
        check_directory(Path("/proc/x"))


def test_partial_files_of_one_path_are_never_the_same(tmp_path):
    """Not even of writers with equal numbers of process and thread, as on two machines."""
    path = tmp_path / "one.json"
    with writing(path) as first, writing(path) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert (path.read_text(), list(tmp_path.iterdir())) == ("first", [path])
