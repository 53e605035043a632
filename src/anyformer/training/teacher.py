"""Asking a teacher about every training row before the first update: its answers are computed now, or found in the cache.

What a row is asked depends on the seed and the row's number alone, neither on the batch nor on the number of updates. So an
interrupted asking goes on where it was, and a longer run asks about the rows that a shorter one did not have.
"""

from __future__ import annotations

import gc
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os.path import isdir
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from anyformer import checkpoint
from anyformer.costs import scaled
from anyformer.costs.available import free_memory
from anyformer.costs.memory_check import NotEnoughMemoryError
from anyformer.costs.step import STILL
from anyformer.data import IGNORED, Corpus
from anyformer.data.progress import meter
from anyformer.describe import UserError, read_json
from anyformer.files import PlaceError, check_file, default_cache, disk_errors, locked, sha256, write_text
from anyformer.model.transformer import Transformer
from anyformer.objectives import Examples, Feed, asked_of
from anyformer.objectives.teacher_answers import AskedTeacher
from anyformer.operations import Shape
from anyformer.resolving import architecture as resolved
from anyformer.training.allocator import give_back
from anyformer.training.answers import INDEX, AnswerFile, Answers, gaps, token_type, whole_parts, write_index, write_part
from anyformer.training.partners import at_path
from anyformer.training.precision import autocast, deterministic, units
from anyformer.training.run import Run

FORMAT = 1
PART_BYTES = 2**27
"""Bytes of answers in a file, if every position has a target: as much as an interruption may lose."""
COUNTED = 1024
"""Rows whose targets are counted to foretell the bytes."""
MARGIN = 1.05
"""Bytes that must be free, for each foretold one: rows differ in their targets, and files have headers."""
LOGITS = 3 * 4
"""Bytes per logit of a batch: itself, its log-probability and a copy of those of targets, in fp32."""
RECORD = "teacher.json"
"""The file of a run's directory with the digest of the teacher that was asked."""


@dataclass(frozen=True)
class _Asking:
    """A run whose objective asks a teacher, with its training examples."""

    run: Run
    name: str
    asked: AskedTeacher
    corpus: Corpus
    feed: Feed
    device: torch.device
    say: Callable[[str], None]

    @property
    def rows(self) -> int:
        """Rows that the run may read."""
        return self.run.batches * self.run.batch

    @property
    def answer_bytes(self) -> int:
        """Bytes of the answer about a target."""
        return self.asked.kept * (4 + token_type(self.run.architecture.outputs).itemsize)

    def facts(self, teacher: str) -> dict[str, object]:
        """Everything that the answers depend on; devices and kernels round otherwise, and give answers as good."""
        run, asked = self.run, self.asked
        cut = {name: {key: part.plain().get(key) for key in part.unused} for name, part in run.data.components.items()}
        return {
            "format": FORMAT, "teacher": teacher, "data": self.corpus.digest, "cut": cut, "seed": run.seed,
            "length": run.length, "examples": dict(asked.facts), "outputs": run.architecture.outputs, "kept": asked.kept,
            "temperature": asked.temperature, "precision": run.plan.precision.plain(),
        }  # fmt: skip

    def drawn(self, first: int, stop: int) -> Examples:
        rows = np.arange(first, stop, dtype=np.int64)
        return self.feed.drawn(rows, rows)

    def check_room(self, folder: Path, missing: Sequence[tuple[int, int]]) -> None:
        """Say how much disk the answers take. Raises `PlaceError` if it is not free, and an error if memory is too small."""
        rows = np.concatenate([np.arange(*run, dtype=np.int64) for run in missing])
        some = rows[np.linspace(0, len(rows) - 1, min(COUNTED, len(rows))).astype(np.int64)]
        targets = round(int((self.feed.drawn(some, some).targets != IGNORED).sum()) / len(some) * len(rows))
        size, free = targets * self.answer_bytes, shutil.disk_usage(folder).free
        about = "" if len(some) == len(rows) else "about "
        what = f"{about}{targets:,} targets of {len(rows):,} rows x {self.answer_bytes:,} bytes"
        if MARGIN * size > free:
            raise PlaceError(
                f"{folder}: {scaled(free)}B are free, and the teacher's answers need {scaled(size)}B ({what}): set a smaller "
                "objective.kept or steps, or another place with the variable ANYFORMER_CACHE"
            )
        self.say(f"asking {self.asked.path} before the first update: {what} = {scaled(size)}B in {folder}")
        self._check_memory()

    def _check_memory(self) -> None:
        piece, outputs = self.run.piece, self.run.architecture.outputs
        weights = STILL * resolved(self.asked.path).trained_cost(Shape(source=1)).parameters
        need, free = weights + LOGITS * piece.batch * piece.length * outputs, free_memory(self.device)
        if need > free:
            raise NotEnoughMemoryError(
                f"asking {self.asked.path} needs {scaled(need)}B, {scaled(weights)}B of them for its weights, and "
                f"{scaled(free)}B are free: take a smaller teacher, or a greater accumulation"
            )

    def parts(self, folder: Path, missing: Sequence[tuple[int, int]]) -> Iterator[AnswerFile]:
        """Write the answers about runs of rows, each into a file."""
        teacher = at_path(self.name, self.run.objective.partners[self.name], self.run, self.device, self.corpus.tokenizer)
        size, rows = self.run.batch // self.run.accumulation, sum(stop - first for first, stop in missing)
        with meter("asking the teacher", rows, True, "rows") as advance:
            for first, stop in missing:
                counts: list[int] = []
                values: list[Tensor] = []
                tokens: list[Tensor] = []
                for at in range(first, stop, size):
                    examples = self.drawn(at, min(at + size, stop))
                    counts += (examples.targets != IGNORED).reshape(len(examples.rows), -1).sum(1).tolist()
                    for kept, found in zip((values, tokens), self._answer(teacher, examples), strict=True):
                        kept.append(found.cpu())
                    advance(len(examples.rows))
                yield write_part(folder, first, counts, values, tokens, self.run.architecture.outputs)

    def _answer(self, teacher: Transformer, examples: Examples) -> tuple[Tensor, Tensor]:
        with deterministic(), units(self.run.plan), autocast(self.run.plan, self.device):
            return self.asked.answer(teacher, examples.to(self.device))


def answered(
    run: Run, corpus: Corpus, feed: Feed, device: torch.device, say: Callable[[str], None], begun: Path | None = None
) -> Answers | None:
    """The answers about every row that a run may read; None where its objective asks nobody. `say` is told what is done.

    `begun`: the directory of a run that goes on, with the teacher that it began with, whose files may be gone.
    """
    found = asked_of(run.objective)
    if found is None:
        return None
    asking = _Asking(run, *found, corpus, feed, device, say)
    before = None if begun is None else _recorded(begun)
    teacher = before or fingerprint(asking.asked.path)
    facts = asking.facts(teacher)
    folder = default_cache() / f"answers-{hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]}"
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    check_file(folder / INDEX)
    with locked(folder / ".lock"):
        parts, damaged = whole_parts(folder)
        for line in damaged:
            say(f"{line}: the teacher is asked again")
        most = max(1, PART_BYTES // (run.length * asking.answer_bytes))
        missing = list(gaps(parts, asking.rows, most))
        known = asking.rows - sum(stop - first for first, stop in missing)
        if known:
            say(f"the teacher's answers about {known:,} of {asking.rows:,} rows are reused: {folder}")
        if missing:
            _check_same(asking.asked, before)
            asking.check_room(folder, missing)
            for part in asking.parts(folder, missing):
                parts = sorted([*parts, part], key=lambda part: part.first)
                write_index(folder, facts, parts)
            _forget_teacher(device)
    answers = Answers(folder, tuple(parts), teacher, asking.asked.kept)
    say(f"the teacher's {answers.words}")
    return answers


def fingerprint(path: str) -> str:
    """SHA-256 of a model's files: those of a run's latest whole checkpoint, a checkpoint or a Hugging Face directory."""
    place = checkpoint.at_hand(path)
    if not isdir(place):
        raise UserError(f"{path}: no such directory; give that of a run, a checkpoint or a Hugging Face model")
    place = checkpoint.newest(place)
    if (place / checkpoint.MANIFEST).is_file():
        files = {name: entry.sha256 for name, entry in checkpoint.read_manifest(place).files.items()}
    else:
        files = {file.name: sha256(file) for file in place.iterdir() if file.suffix in (".json", ".safetensors")}
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def keep_teacher(answers: Answers | None, directory: Path) -> None:
    """Write into a run's directory which teacher answered, so that the run can go on without its files."""
    if answers is not None:
        write_text(directory / RECORD, json.dumps({"sha256": answers.teacher}) + "\n")


def _recorded(directory: Path) -> str | None:
    """The digest that `keep_teacher` wrote."""
    try:
        found = read_json(directory / RECORD)["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def _check_same(asked: AskedTeacher, before: str | None) -> None:
    """Refuse to ask another teacher than the one that a run began with."""
    if before is not None and fingerprint(asked.path) != before:
        raise UserError(
            f"{asked.path}: is another teacher than the one that this run began with, whose answers are not all in the cache; "
            "put its files back, or start a new run"
        )


def _forget_teacher(device: torch.device) -> None:
    """Give its memory back before the student is built."""
    gc.collect()
    give_back()
    if device.type == "cuda":
        torch.cuda.empty_cache()
