"""Digests that somebody else wrote: refused in words, and no file outside the directory is opened."""

from __future__ import annotations

import json
import re

import pytest

from anyformer.files import sha256
from anyformer.huggingface.digests import DIGESTS, check_digests, write_digests
from anyformer.huggingface.errors import HuggingFaceError

NONE = {"bytes": 0, "sha256": ""}
OUTSIDE = ("../secret", "folder/../../secret", "/etc/hostname", "..", "", ".", "a//b", "nul\0")


def digests(directory, text):
    (directory / DIGESTS).write_text(text if isinstance(text, str) else json.dumps(text))
    return rf"\A{re.escape(str(directory / DIGESTS))}: cannot be read \(.{{4,300}}\); export again, or delete it\Z"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"format": 1, "files": ' + '{"a":' * 100_000,
        '{"format": 1, "files": {"a": {"bytes": Infinity, "sha256": ""}}}',
        '{"format": 1, "files": {"a": {"bytes": 1e400, "sha256": ""}}}',
        {"format": 1, "files": {"a": {"bytes": 1.0, "sha256": ""}}},
        {"format": 1, "files": {"a": {"bytes": True, "sha256": ""}}},
        {"format": 1, "files": {"a": 5}},
        {"format": 1, "files": [5]},
        {"format": 2, "files": {}},
        "5",
    ],
)
def test_damaged_digests_are_refused(text, tmp_path):
    with pytest.raises(HuggingFaceError, match=digests(tmp_path, text)):
        check_digests(tmp_path)


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_file_outside_the_directory_is_not_opened(name, tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_text("secret")
    entry = {"bytes": 6, "sha256": sha256(tmp_path / "secret")}
    with pytest.raises(HuggingFaceError, match=digests(inside, {"format": 1, "files": {name: entry}})):
        check_digests(inside)


def test_a_name_too_long_for_any_file_is_missing(tmp_path):
    digests(tmp_path, {"format": 1, "files": {"x" * 5000: NONE}})
    with pytest.raises(HuggingFaceError, match=r"xxx: missing, and digests\.json names it"):
        check_digests(tmp_path)


def test_what_seal_writes_is_read_again(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_text("a")
    write_digests(tmp_path)
    check_digests(tmp_path)
    (tmp_path / "folder" / "a").write_text("b")
    with pytest.raises(HuggingFaceError, match="its SHA-256 differs"):
        check_digests(tmp_path)
