from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from data.texts import prose

PREPARE = """
import resource, sys
from pathlib import Path
from anyformer.data import *

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

before = peak()
tokenizer = Bytes() if sys.argv[3] == "bytes" else BytePairs(vocab=512, sample_bytes=1_000_000)
corpus = prepare(Text(paths=(sys.argv[1],), tokenizer=tokenizer), Path(sys.argv[2]), 2, False)
assert corpus.train.bytes > 50e6
print(peak() - before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""


@pytest.mark.parametrize(
    ("tokenizer", "suffix"),
    [("bytes", "txt"), ("bytes", "jsonl"), pytest.param("byte_pairs", "txt", marks=pytest.mark.slow)],
)
def test_memory_does_not_grow_with_the_file(tmp_path: Path, tokenizer: str, suffix: str) -> None:
    """60 MB of text in less than 60 MB beyond what importing takes, and with processes for BPE, 200 MB in each."""
    file = tmp_path / f"big.{suffix}"
    line = prose(1, 4000).replace("\n", " ")
    line = f'{{"text": "{line}"}}\n' if suffix == "jsonl" else line + "\n"
    with file.open("w") as out:
        for number in range(66_000_000 // len(line.encode())):
            out.write(line.replace("fox", f"fox{number}"))
    command = [sys.executable, "-c", PREPARE, str(file), str(tmp_path / "cache"), tokenizer]
    own, children = map(float, subprocess.run(command, check=True, capture_output=True).stdout.split())
    assert own < 60
    assert children < 200
