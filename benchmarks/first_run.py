"""The first impression: what `make train` reaches in four minutes on two slow cores with other work beside it.

    python -m benchmarks.first_run --folder build/first-run

Trains recipes/stdlib.toml for 4 minutes with three seeds, one after the other, the AVX-512 and 16-bit instructions of the
processor hidden from torch's libraries, and a process of its own that is busy beside. Each run prepares its text anew, as the
first one of a machine does. Of each: how far the held-out loss ends below the line of the bigram model; of 200 tokens sampled
as `train` samples them, the share of words that occur in the text that it trained on, and whether some line is indented. The
bound of the share is asked of ten such samples together, since one has some 70 words: the first one alone, and how many of the
ten reach the bound, are written beside it. A run in the folder already is not repeated. Writes
benchmarks/results/first_run.json; exits with 1 where a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from benchmarks.sitting import RESULTS, machine

import anyformer as af
from anyformer.cli.ending import draws
from anyformer.data import prepare
from anyformer.generation import generate
from anyformer.training import read_run
from anyformer.training.journal import read_metrics

RECIPE = Path(__file__).parents[1] / "recipes" / "stdlib.toml"
MINUTES, SEEDS, TOKENS, SAMPLES = 4.0, (0, 1, 2), 200, 10
MARGIN, SHARE = 0.3, 0.8
"""Nats below the line of the bigram model, and share of words that occur in the text: the bounds."""
SLOW = {
    "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}  # fmt: skip
"""What hides the instructions."""
WORD = re.compile(r"[^\W\d]\w*")
INDENTED = re.compile(r"\n[ \t]+\S")


@contextmanager
def busy() -> Iterator[None]:
    """Another process that never waits."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        yield
    finally:
        other.kill()
        other.wait()


def train(out: Path, seed: int, minutes: float) -> None:
    """A run, as a new machine makes it."""
    sets = ("--set", f"minutes={minutes}", "--set", f"seed={seed}", "--out", str(out))
    environment = {**os.environ, **SLOW, "ANYFORMER_CACHE": str(out.with_suffix(".cache"))}
    load, began, before = os.getloadavg()[0], time.monotonic(), processor()
    done = subprocess.run(
        [sys.executable, "-m", "anyformer", "train", str(RECIPE), *sets], env=environment, check=True, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    facts = {
        "minutes": minutes,
        "seconds": round(time.monotonic() - began, 1),
        "processor_seconds": round(processor() - before, 1),
        "load": [load, os.getloadavg()[0]],
        "said": done.stdout,
    }
    out.with_suffix(".json").write_text(json.dumps(facts), encoding="utf-8")


def processor() -> float:
    """Seconds of processor time of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def judged(out: Path, seed: int) -> dict[str, Any]:
    """What a run reached."""
    facts = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
    run, (model, tokenizer) = read_run(out), af.load(out)
    corpus = prepare(run.data, out.with_suffix(".cache"))
    known = set(WORD.findall(tokenizer.decode(np.asarray(corpus.train.tokens[:]).tolist())))
    assert run.sample is not None
    texts = generate(model, tokenizer, [run.sample] * SAMPLES, max_tokens=TOKENS, sampling=draws().but(seed=seed))
    found = [WORD.findall(text)[:-1] for text in texts]  # the last one may be cut
    text, words, every = texts[0], found[0], [word for words in found for word in words]
    rows = [row for row in read_metrics(out) if row["kind"] == "train"]
    loss, line = (
        float(re.search(pattern, facts["said"])[1]) for pattern in (r"validation loss ([\d.]+)", r": a loss of ([\d.]+)")
    )
    return {
        "seed": seed,
        **{name: facts[name] for name in ("minutes", "seconds", "processor_seconds", "load")},
        "chosen": next((text for text in facts["said"].splitlines() if "this machine trains" in text), None),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "tokens": rows[-1]["tokens"],
        "tokens_per_second": round(run.tokens / median(row["seconds"] for row in rows)),
        "loss": loss,
        "bigram": line,
        "margin": round(line - loss, 4),
        "words": len(words),
        "share": round(_share(words, known), 4),
        "words_of_ten": len(every),
        "share_of_ten": round(_share(every, known), 4),
        "reached": sum(_share(words, known) >= SHARE for words in found),
        "indented": bool(INDENTED.search(text)),
        "text": text,
    }


def _share(words: list[str], known: set[str]) -> float:
    return sum(word in known for word in words) / max(1, len(words))


def main() -> None:
    """Train, judge, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the runs are")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of each run; more on a machine that shares its cores")
    parser.add_argument("--seeds", type=int, nargs="+", help="train these alone, and judge nothing yet")
    parser.add_argument("--no-busy", action="store_true", help="on a machine that is busy already")
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seeds or SEEDS:
        out = folder / f"seed-{seed}"
        if not out.with_suffix(".json").exists():
            with nullcontext() if arguments.no_busy else busy():
                train(out, seed, arguments.minutes)
    if arguments.seeds:
        return
    runs = [judged(folder / f"seed-{seed}", seed) for seed in SEEDS]
    record = {
        "date": date.today().isoformat(), "machine": machine(), "hidden": SLOW,
        "busy_process": not arguments.no_busy, "bounds": {"margin": MARGIN, "share": SHARE}, "runs": runs,
    }  # fmt: skip
    (RESULTS / "first_run.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for each in runs:
        print(
            f"seed {each['seed']}: {each['parameters'] / 1e6:.2f} M parameters, {each['tokens']:,} tokens, loss "
            f"{each['loss']:.3f}, {each['margin']:.3f} nats below the bigram's {each['bigram']:.3f}; "
            f"{each['share']:.0%} of {each['words']} words occur{', indented' * each['indented']}; "
            f"of ten samples {each['share_of_ten']:.0%} of {each['words_of_ten']}"
        )
    held = all(each["margin"] >= MARGIN and each["share_of_ten"] >= SHARE and each["indented"] for each in runs)
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
