"""The server that is measured: a Llama with random weights, on a core of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.waiting import LETTERS

PLACES, LENGTH, CHUNK = 8, 512, 64
WIDTH, DEPTH, HEADS, FFN, VOCAB = 256, 6, 4, 704, 2048
TOKEN = 300
"""The first of the tokens that prompts are made of."""


def write_model(folder: Path) -> int:
    """The model in Hugging Face's layout; its parameters."""
    import anyformer as af
    from anyformer.catalogue.llama import llama
    from anyformer.text import Tokenizer

    made = llama(width=WIDTH, depth=DEPTH, heads=HEADS, kv_heads=HEADS, ffn=FFN, vocab=VOCAB)
    model = af.build(made, seed=0)
    af.export(model, folder, tokenizer=Tokenizer.parse(letters(VOCAB).to_str()))
    return sum(each.numel() for each in model.parameters())


def letters(vocab: int) -> Any:
    """A tokenizer of so many tokens, all of them whole letters: whichever a model makes, the server sends a piece for it."""
    from tokenizers import Tokenizer, decoders, models

    twos = [(a, b) for a in LETTERS for b in LETTERS]
    fours = ((f"{a}{b}", f"{c}{d}") for a, b in twos for c, d in twos)
    merges = [*twos, *(pair for _, pair in zip(range(vocab), fours, strict=False))][: vocab - len(LETTERS)]
    names = [*LETTERS, *(first + second for first, second in merges)]
    made = Tokenizer(models.BPE({name: number for number, name in enumerate(names)}, merges))
    made.decoder = decoders.ByteLevel()
    return made


@contextmanager
def served(folder: Path, core: int, log: Path) -> Iterator[int]:
    """A server of a directory on one core, which writes its steps to a log; its port."""
    command = [
        sys.executable, "-m", "benchmarks.queues.timed_server", str(log), "serve", str(folder), "--port", "0",
        "--places", str(PLACES), "--length", str(LENGTH), "--chunk", str(CHUNK), "--prefix-memory", "0",
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, env=environment,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if (match := re.search(r"http://127\.0\.0\.1:(\d+)/v1", line)) is not None:
                yield int(match[1])
                return
        raise SystemExit(f"{' '.join(command)} did not begin: {said}")
    finally:
        process.terminate()
        process.wait(60)
