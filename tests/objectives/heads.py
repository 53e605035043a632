"""Small data for objectives with heads, and a model that says what it is told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyformer.catalogue import architecture
from anyformer.data import Corpus, Data, prepare
from anyformer.model import Architecture
from anyformer.objectives import Examples, Objective, Setting, added
from anyformer.parts import Head
from anyformer.parts.call.reports import Auxiliary


class Prepared(NamedTuple):
    """The examples of an objective on some rows: those of a training batch, and all of them once, held out."""

    data: Data
    corpus: Corpus
    setting: Setting
    training: Examples
    held_out: list[Examples]


def bert(head: Head) -> Architecture:
    return architecture("bert-base-uncased", tiny=True).but(head=head)


def made(
    objective: Objective,
    data: Mapping[str, Any],
    rows: Iterable[Mapping[str, Any]],
    folder: Path,
    length: int,
    batch: int = 4,
    model: Architecture | None = None,
) -> Prepared:
    """Rows written to a file, prepared, and made into examples; every row is trained on and held out."""
    path, copy = folder / "rows.jsonl", folder / "held-out.jsonl"
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(lines)
    copy.write_text(lines)
    plain = {"tokenizer": {"kind": "bytes"}, **data, "paths": [str(path)], "validation_paths": [str(copy)]}
    value = Data.kinds[plain.pop("kind")].parse(plain)
    corpus = prepare(value, folder / "cache", 1, progress=False, special=objective.special(length))
    setting = Setting(corpus.tokenizer, length, 0, corpus.names, model)
    feed, held_out = (objective.feed(value, corpus, setting, batch, held_out=each) for each in (False, True))
    return Prepared(value, corpus, setting, feed.at(0), list(held_out.once()))


class Says:
    """A model whose outputs are given, one tensor for each call."""

    def __init__(self, *outputs: Tensor, model: Architecture | None = None) -> None:
        self.outputs, self.calls = list(outputs), []
        self.architecture = model or bert(Head(outputs=2))

    def __call__(self, tokens: Tensor, **options: Any) -> Tensor:
        self.calls.append(options)
        return self.outputs.pop(0)


def measured(objective: Objective, outputs: Sequence[Tensor], batches: Sequence[Examples], names=None) -> dict[str, float]:
    """The metrics of given outputs, and the mean loss as `loss`."""
    model: Any = Says(*outputs)
    totals = added((objective.statistics(model, examples, Auxiliary(), {}) for examples in batches), objective.traits.each_row)
    count = sum(examples.count for examples in batches)
    return {**objective.metrics(totals, names or {}), "loss": float(totals["loss"]) / count}


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
