from __future__ import annotations

import subprocess
import sys

import pytest

from anyformer.data import BytePairs, Bytes, Characters, Text, TokenizerFile
from anyformer.describe import DescriptionError, change, from_toml, to_toml


@pytest.mark.parametrize(
    "data",
    [
        Text(paths=("a.txt",)),
        Text(paths=("python-stdlib", "b"), glob=("*.py",), tokenizer=BytePairs(vocab=1000, digits=1), split="tail"),
        Text(paths=("a.jsonl",), field="content", tokenizer=Characters(unknown="replace"), validation_paths=("v.jsonl",)),
        Text(paths=("a",), tokenizer=Bytes(), isolate=True, sampling="random", validation=0.0),
        Text(paths=("a",), tokenizer=TokenizerFile(path="tokenizer.json")),
    ],
)
def test_round_trip_through_toml(data: Text) -> None:
    assert from_toml(Text, to_toml(data)) == data


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"paths": ()}, "paths"),
        ({"paths": ("a",), "validation": 1.0}, "validation"),
        ({"paths": ("a",), "tokenizer": {"kind": "byte_pairs", "vocab": 256}}, "257"),
        ({"paths": ("a",), "tokenizer": {"kind": "byte_pair"}}, "did you mean 'byte_pairs'"),
        ({"paths": ("a",), "validation_paths": ("b",), "split": "tail"}, "leave out one"),
        ({"paths": ("a",), "validaton": 0.1}, "did you mean 'validation'"),
    ],
)
def test_wrong_descriptions_are_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(DescriptionError, match=said):
        Text.parse(fields)


def test_content_leaves_out_how_windows_are_cut() -> None:
    data = Text(paths=("a",))
    assert change(data, "isolate", True).content() == data.content()
    assert change(data, "validation", 0.1).content() != data.content()


def test_the_room_imports_no_torch() -> None:
    code = "import sys, anyformer.data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
