"""What this project makes of the same directories."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from benchmarks.as_authors.asked import (
    BETA,
    BETAS,
    DOCUMENTS,
    HIDDEN,
    LENGTH,
    PAIRS,
    PROMPTS,
    QUESTIONS,
    RATE,
    RECORDS,
    SETTINGS,
    STEPS,
)  # fmt: skip

from anyformer.data import IGNORED
from anyformer.evaluation import Subject, open_subject
from anyformer.evaluation.choices import answer, read_questions
from anyformer.evaluation.fill import fill
from anyformer.evaluation.measure import measure, task_of
from anyformer.evaluation.subject import described
from anyformer.generation.generation_config import decoding_of
from anyformer.generation.text import generated
from anyformer.objectives import Examples
from anyformer.training.held_out import corpus_of
from anyformer.training.precision import Host
from anyformer.training.run import Run
from anyformer.training.starting import take
from anyformer.training.trainer import Trainer

OBJECTIVES = {
    "messages": "instruction",
    "completions": "instruction",
    "text": "causal",
    "preferences": "dpo",
    "pairs": "seq2seq",
}
CHANGES: dict[str, Any] = {
    "steps": STEPS, "minutes": None, "clip": 1.0, "optimiser.learning_rate": RATE, "optimiser.betas": list(BETAS),
    "optimiser.weight_decay": 0.0, "schedule": {"kind": "constant", "warmup": 0}, "plan.compile": "off",
    "plan.precision": {"kind": "fp32"},
}  # fmt: skip


def texts(subject: Subject) -> dict[str, Any]:
    """What `generate` says to the prompts together, by each of the settings."""
    found = {}
    for name, settings in SETTINGS.items():
        table = {**subject.text.conventions.generation, **settings}
        every = generated(subject.model, subject.text, PROMPTS, decoding=decoding_of(table, "asked"), compile=False)
        found[name] = [{"tokens": list(each.tokens), "text": each.text} for each in every]
    return found


def likelihoods(subject: Subject, place: Path) -> list[float]:
    """The log-likelihood of each document, read alone."""
    path = _lines(place.with_suffix(".documents.jsonl"), [{"text": text} for text in DOCUMENTS])
    task = task_of(subject, (str(path),), {"length": LENGTH}, by_document=True, progress=False)
    text = measure(task).text
    assert text is not None
    return [-nats for _, nats in text.documents.tolist()]


def choices(subject: Subject, place: Path) -> list[list[float]]:
    """The log-likelihood of each choice of each question."""
    questions = read_questions(_lines(place.with_suffix(".questions.jsonl"), QUESTIONS))
    return [list(each.log_likelihoods) for each in answer(subject, questions).answered]


def fine_tuned(subject: Subject, place: Path, kind: str) -> dict[str, Any]:
    """The rows of the first batch, which is all records, and the losses of a few updates on it."""
    records = PAIRS if kind == "pairs" else RECORDS[kind]
    path = _lines(place.with_suffix(f".{kind}.jsonl"), records)
    trainer = _trainer(subject, path, kind, len(records))
    rows = [row for piece in trainer.micro_batches(0).pieces for row in rows_of(piece)]
    # Records share rows, so a batch of as many rows as records has each of them several times.
    rows = [row for at, row in enumerate(rows) if row not in rows[:at]]
    return {"rows": rows, "losses": [updated(trainer, step) for step in range(STEPS)]}


def updated(trainer: Trainer, step: int) -> float:
    """The loss of an update."""
    return trainer.updates.update(trainer.micro_batches(step), trainer.rate(step)).loss


def _trainer(subject: Subject, path: Path, kind: str, count: int) -> Trainer:
    own = {"objective.kind": OBJECTIVES[kind], "length": LENGTH, "batch": count, "data.validation_paths": _held_out(path)}
    more: dict[str, Any] = {"objective.beta": BETA} if kind == "preferences" else {}
    if kind == "text":  # one row that all texts fill
        tokens = sum(len(subject.text.framed(subject.text.encode(each["text"])).tokens) + 1 for each in RECORDS[kind])
        more = {"length": tokens - 1, "batch": 1, "data.isolate": True}
    run = described(subject, (str(path),), {**own, **CHANGES, **more})
    return started(run, subject)


def started(run: Run, subject: Subject) -> Trainer:
    """The trainer of a run from a subject's weights."""
    corpus = corpus_of(run)
    host = Host(torch.device("cpu"), {"fp32": 1e9})
    return Trainer.start(run, corpus, host, lambda model: take(model, str(subject.path), corpus.tokenizer).lines())


def rows_of(examples: Examples) -> list[list[list[int]]]:
    """Tokens and labels of each record as transformers spells them, none (-100) for the first token; records that share a row
    are taken apart."""
    found = []
    for at, target in enumerate(examples.targets):
        if examples.decoder_tokens is not None:
            held = examples.tokens[at] if examples.padding is None else examples.tokens[at][~examples.padding[at]]
            found.append([held.tolist(), target[target != IGNORED].tolist()])
            continue
        documents = torch.zeros_like(target) if examples.documents is None else examples.documents[at]
        for number in documents.unique().tolist():
            tokens, labels = examples.tokens[at][documents == number].tolist(), target[documents == number].tolist()
            while labels and labels[-1] == IGNORED:  # padding, and what is predicted of the next record
                tokens, labels = tokens[:-1], labels[:-1]
            if labels:
                found.append([[*tokens, labels[-1]], [-100, *(-100 if each == IGNORED else each for each in labels)]])
    return found


def filled(subject: Subject) -> list[Any]:
    """The likeliest tokens at each hidden place."""
    return [[[[number, chance] for number, _, chance in place.tokens] for place in fill(subject, text)] for text in HIDDEN]


def hidden(subject: Subject, place: Path) -> dict[str, Any]:
    """The losses of updates on rows with hidden tokens; the rows are written for the other side."""
    path = _lines(place.with_suffix(".hidden.jsonl"), [{"text": text} for text in DOCUMENTS * 4])
    own = {"objective.kind": "masked", "length": 32, "batch": 4, "data.validation_paths": _held_out(path), **CHANGES}
    trainer = started(described(subject, (str(path),), own), subject)
    (piece,) = trainer.micro_batches(0).pieces
    padding = torch.ones_like(piece.tokens) if piece.padding is None else piece.padding.long()
    labels = torch.where(piece.targets == IGNORED, -100, piece.targets)
    rows = {"input_ids": piece.tokens.tolist(), "attention_mask": padding.tolist(), "labels": labels.tolist()}
    place.with_suffix(".rows.json").write_text(json.dumps(rows), encoding="utf-8")
    return {"losses": [updated(trainer, 0) for _ in range(STEPS)]}


def told(shape: str, place: Path) -> dict[str, Any]:
    """Everything that is asked of a family."""
    subject = open_subject(place)
    if shape == "masked":
        return {"fill": filled(subject), "fine_tuning": {"hidden": hidden(subject, place)}}
    found: dict[str, Any] = {"generate": texts(subject), "choices": choices(subject, place)}
    if shape == "causal":
        found["documents"] = likelihoods(subject, place)
    kinds = tuple(RECORDS) if shape == "causal" else ("pairs",)
    return found | {"fine_tuning": {kind: fine_tuned(subject, place, kind) for kind in kinds}}


def _lines(path: Path, records: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records), encoding="utf-8")
    return path


def _held_out(path: Path) -> list[str]:
    """A copy to hold out, since all records are to be trained on."""
    copy = path.with_suffix(".held.jsonl")
    copy.write_bytes(path.read_bytes())
    return [str(copy)]
