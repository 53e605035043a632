"""What BERT-, GPT-, T5- and prefix-shaped models of equal size, text and updates are good at, on held-out text.

    python -m benchmarks.shapes                     # everything, two jobs at a time with a thread each
    python -m benchmarks.shapes --folder runs/shapes  # keeps the runs there, and goes on with those that were stopped
    python -m benchmarks.shapes --tiny              # a rehearsal of a few updates, which writes no result

The four runs of recipes/shapes/ are trained with three seeds on the same windows of text in the same order, with one
tokenizer. Then each is measured as it is, after a few more updates on going on with a text, and after equal fine-tuning on
classes and on pairs. Updates are counted, so that neither the machine's speed nor its load changes a figure. Writes
benchmarks/results/shapes.json, of which `docs/make_shapes.py` makes docs/shapes.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from benchmarks.abilities import by_frequencies, classified, continued, filled, summed_up, texts_of, write_records
from benchmarks.compare import RESULTS, machine
from rich.console import Console

from anyformer.data import Split, prepare
from anyformer.evaluation import open_subject
from anyformer.text import Specials
from anyformer.text.specials import SPEAKING
from anyformer.training import Run, load_run, resume, train
from anyformer.training.held_out import corpus_of
from anyformer.training.journal import SUMMARY, read_metrics

RECIPES = Path(__file__).parents[1] / "recipes" / "shapes"
RESULT = RESULTS / "shapes.json"
SHAPES = ("bert", "gpt", "t5", "prefix")
SEEDS = (0, 1, 2)
SPECIALS = Specials(roles=("cls", "sep", "mask", *SPEAKING), sentinels=6)
"""The special tokens that any of the objectives needs, so that one tokenizer serves them all."""
CLASSES, PAIRS = "python-modules", "python-summaries"
GOING_ON: Mapping[str, Mapping[str, Any]] = {
    "bert": {"objective": {"kind": "masked", "rate": 0.5, "masked": 1.0, "random": 0.0}},
    "gpt": {"objective": {"kind": "causal"}},
    "t5": {"objective": {"kind": "ul2", "denoisers": [{"rate": 0.5}]}, "length": 66},
    "prefix": {"objective": {"kind": "prefix", "shortest": 0.5, "longest": 0.5}},
}
"""The objective nearest to going on with the second half of a text that each shape has."""
TELLING: Mapping[str, Mapping[str, Any]] = {
    "bert": {"objective": {"kind": "classification"}, "architecture.head": {"outputs": 20, "pool": "first"}},
    "gpt": {"objective": {"kind": "classification"}, "architecture.head": {"outputs": 20}},
    "t5": {"objective": {"kind": "seq2seq"}},
    "prefix": {"objective": {"kind": "classification"}, "architecture.head": {"outputs": 20}},
}
"""BERT reads the class at [CLS], decoders at the last token, and T5 writes its name."""
SUMMING: Mapping[str, Mapping[str, Any]] = {
    "gpt": {"objective": {"kind": "instruction", "pack": False}},
    "t5": {"objective": {"kind": "seq2seq"}},
    "prefix": {"objective": {"kind": "instruction", "pack": False}},
}
"""Decoders read the source as a question, and the target as its answer. BERT writes nothing."""


@dataclass(frozen=True)
class Sizes:
    """Updates of pre-training (None: the recipe's), of going on, and of fine-tuning; held-out texts; records."""

    updates: int | None = None
    more: int = 100
    tuning: int = 150
    texts: int = 100
    records: int = 4000
    held_out: int = 300
    compile: str = "on"


TINY = Sizes(updates=3, more=2, tuning=2, texts=4, records=80, held_out=6, compile="off")


@dataclass(frozen=True)
class Job:
    """One shape with one seed, in `folder`, which has the tokenizer and the records."""

    shape: str
    seed: int
    folder: str
    sizes: Sizes

    def run(self, changes: Mapping[str, Any]) -> Run:
        """The recipe with the shared tokenizer, and changes by path."""
        tokenizer = {"kind": "file", "path": f"{self.folder}/tokenizer"}
        data = {**changes["data"], "tokenizer": tokenizer} if "data" in changes else None
        common = {"seed": self.seed, "plan.precision": "bf16", "plan.compile": self.sizes.compile, "evaluation.baseline": False}
        given = {"data": data} if data else {"data.tokenizer": tokenizer}
        return load_run(RECIPES / f"{self.shape}.toml", {**common, **changes, **given})

    def trained(self, what: str, changes: Mapping[str, Any]) -> tuple[Run, Path]:
        """A run in a directory of its own, unless it is there; one that was stopped goes on."""
        directory, run, quiet = Path(self.folder) / f"{self.shape}-{self.seed}{what}", self.run(changes), Console(quiet=True)
        if not (directory / SUMMARY).exists():
            begun = (directory / "run.toml").exists()
            done = resume(directory, console=quiet) if begun else train(run, directory, console=quiet)
            if not done.finished:
                raise SystemExit(done.exit_code)
        return run, directory

    def tuned(self, what: str, changes: Mapping[str, Any], updates: int) -> tuple[Run, Path]:
        """A run from the pre-trained weights, the same for all shapes but for what is said in `changes`."""
        common = {
            "start_from": f"{self.folder}/{self.shape}-{self.seed}", "steps": updates, "optimiser.learning_rate": 1e-3,
            "schedule.warmup": min(20, updates - 1), "evaluation.every": updates, "evaluation.final_tokens": 2048,
            "evaluation.batches": 1,
        }  # fmt: skip
        return self.trained(f"-{what}", common | dict(changes))

    def records(self, word: str, kind: str, **fields: str) -> dict[str, Any]:
        paths = [f"{self.folder}/{word}-{name}.jsonl" for name in ("train", "held")]
        return {"data": {"kind": kind, "paths": paths[:1], "validation_paths": paths[1:], **fields}, "length": 160}


def attempt(job: Job) -> dict[str, Any]:
    """All that one shape reaches with one seed, kept in its folder."""
    torch.set_num_threads(1)
    shape, sizes = job.shape, job.sizes
    kept = Path(job.folder) / f"{shape}-{job.seed}.json"
    if kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text())
        return found
    run, directory = job.trained("", {} if sizes.updates is None else {"steps": sizes.updates, "schedule.warmup": 1})
    subject, corpus = open_subject(directory), corpus_of(run)
    assert isinstance(corpus.validation, Split), "text is prepared as running tokens"
    assert isinstance(corpus.train, Split), "text is prepared as running tokens"
    texts = texts_of(corpus.validation, corpus.tokenizer, sizes.texts)
    last = next(row for row in reversed(read_metrics(directory)) if row["kind"] == "validation")
    result: dict[str, Any] = {
        "shape": shape,
        "seed": job.seed,
        "parameters": sum(parameter.numel() for parameter in subject.model.parameters()),
        "updates": run.steps,
        "objective": run.objective.kind,
        "own": {"loss": round(last["loss"], 4), "accuracy": round(last["metrics"]["accuracy"], 4), "targets": last["targets"]},
        "frequencies": by_frequencies(corpus.train.tokens[:2_000_000], texts, corpus.tokenizer.vocab_size),
        "continued": continued(shape, subject.model, corpus.tokenizer, texts),
        "filled": filled(shape, subject.model, corpus.tokenizer, texts),
    }
    _, after = job.tuned("more", GOING_ON[shape], sizes.more)
    result["continued_after"] = continued(shape, open_subject(after).model, corpus.tokenizer, texts)
    labelled = job.records(CLASSES, "labelled")
    if shape == "t5":
        labelled = job.records(CLASSES, "pairs", source="text", target="label")
    classes, after = job.tuned("classes", {**labelled, **TELLING[shape]}, sizes.tuning)
    result["classified"] = classified(classes, open_subject(after))
    labels = [json.loads(line)["label"] for line in (Path(job.folder) / f"{CLASSES}-held.jsonl").read_text().splitlines()]
    result["frequencies"]["classified"] = max(Counter(labels).values()) / len(labels)
    if shape in SUMMING:
        asked = job.records(PAIRS, "prompts", prompt="source", answer="target")
        given = job.records(PAIRS, "pairs") if shape == "t5" else asked
        pairs, after = job.tuned("pairs", {**given, **SUMMING[shape]}, sizes.tuning)
        result["summed_up"] = summed_up(pairs, open_subject(after))
    kept.write_text(json.dumps(result))
    print(f"{shape}, seed {job.seed}: own loss {result['own']['loss']}", flush=True)
    return result


def ready(folder: Path, sizes: Sizes) -> None:
    """Put the tokenizer and the records of fine-tuning into the folder, unless they are there."""
    if not (folder / "tokenizer").exists():
        run = load_run(RECIPES / "gpt.toml")
        prepare(run.data, special=SPECIALS, progress=False).tokenizer.save(folder / "tokenizer")
    tokenizer = prepare(Job("gpt", 0, str(folder), sizes).run({}).data, progress=False).tokenizer
    for word, fields in ((CLASSES, ("text", "label")), (PAIRS, ("source", "target"))):
        if not (folder / f"{word}-held.jsonl").exists():
            write_records(word, fields, tokenizer, folder, sizes.records, sizes.held_out)


def measured(folder: Path, sizes: Sizes, seeds: tuple[int, ...], workers: int) -> Iterator[list[dict[str, Any]]]:
    """What all shapes reach with the first seed, with the first two, and so on."""
    ready(folder, sizes)
    jobs = [Job(shape, seed, str(folder), sizes) for seed in seeds for shape in SHAPES]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        found: list[dict[str, Any]] = []
        for each in pool.map(attempt, jobs):
            found.append(each)
            if len(found) % len(SHAPES) == 0:
                yield found


def main() -> None:
    """Train and measure all shapes, and write what they reach."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the runs are kept; by default they are deleted at the end")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="seeds 0, 1 ... (default 3)")
    parser.add_argument("--jobs", type=int, default=2, help="jobs at a time, with a thread each (default 2)")
    parser.add_argument("--tiny", action="store_true", help="a few updates and texts, and no result: a rehearsal")
    arguments = parser.parse_args()
    sizes, seeds = (TINY, (0,)) if arguments.tiny else (Sizes(), tuple(range(arguments.seeds)))
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for results in measured(folder.absolute(), sizes, seeds, arguments.jobs):
            if arguments.tiny:
                print({each["shape"]: list(each) for each in results})
            else:
                write(results, sizes)


def write(results: list[dict[str, Any]], sizes: Sizes) -> None:
    """Put the results so far into the committed file."""
    versions = {name: version(name) for name in ("anyformer", "torch", "tokenizers")}
    record = {"date": date.today().isoformat(), "machine": machine(), "versions": versions, "sizes": asdict(sizes)}
    RESULT.write_text(json.dumps(record | {"results": results}) + "\n")


if __name__ == "__main__":
    main()
