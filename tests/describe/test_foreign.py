"""Text that somebody else wrote is read within bounds, and refused in words."""

from __future__ import annotations

import os

import pytest

from anyformer.describe import foreign, json_data, read_foreign, toml_data

DEEP = foreign.DEEPEST + 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("[" * DEEP + "1" + "]" * DEEP, "nested too deeply"),
        ('{"a":' * DEEP + "1" + "}" * DEEP, "nested too deeply"),
        ("[Infinity]", "Infinity is no finite number"),
        ("[-Infinity]", "-Infinity is no finite number"),
        ("NaN", "NaN is no finite number"),
        ("1e400", "1e400 is no finite number"),
        ("9" * 5000, "limit"),
        (b"\xff\xfe{}", r"not UTF-8 \(0xff at byte 0\)"),
        ("[" + "[]," * foreign.MOST, "more than 3,000,000 values"),
        (b'"' + b"a" * foreign.LARGEST, "characters, and at most 64,000,000 are read"),
        ("{", "Expecting"),
    ],
)
def test_json_is_bounded(text, reason):
    with pytest.raises(ValueError, match=reason):
        json_data(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("a" + ".a" * DEEP + " = 1", "a name of more than 100 parts"),
        ("x = {a" + ".a" * 30_000 + " = 1}", "a name of more than 100 parts"),
        ("""[a.'b' . "c\\"" """ + '."d.e"' * DEEP + "]", "a name of more than 100 parts"),
        ("a" + ".a" * 90 + " = " + "[" * 20 + "]" * 20, "nested too deeply"),
        ("#" * foreign.LARGEST_TOML + "\n", "characters, and at most 2,000,000 are read"),
        (b"a = '\xff'", "not UTF-8"),
        ("a", "Expected '='"),
    ],
)
def test_toml_is_bounded(text, reason):
    with pytest.raises(ValueError, match=reason):
        toml_data(text)


def test_long_words_are_no_long_names():
    assert toml_data("a = '" + "b" * 10**6 + "'") == {"a": "b" * 10**6}
    assert len(toml_data("a = [" + "1.5, " * 1000 + "]")["a"]) == 1000


def test_what_is_within_the_bounds_is_read():
    deepest = "[" * foreign.DEEPEST + "1" + "]" * foreign.DEEPEST
    assert str(json_data(deepest)) == deepest
    assert json_data("\ufeff{}") == json_data(b"\xef\xbb\xbf{}") == toml_data("\ufeff") == {}
    assert json_data("[Infinity, 1e400]", finite=False) == [float("inf")] * 2


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, reason in ((tmp_path / "pipe", "is no regular file"), (tmp_path, "is a directory")):
        with pytest.raises(ValueError, match=reason):
            read_foreign(path)
