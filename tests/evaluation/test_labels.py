"""A classifier's figures with the classes of its own configuration; and its names through training and export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertForTokenClassification

from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.evaluation import measure, open_subject, task_of
from anyformer.loading import labels_of
from anyformer.objectives import ClassificationObjective
from anyformer.text import DataError

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}


def always_first(place: Path, model: Any, names: tuple[str, ...]) -> Path:
    """A model that finds its first class everywhere."""
    tokenizer = make_tokenizer(Bytes(), tuple, tuple, ClassificationObjective().special(8))
    config = BertConfig(vocab_size=tokenizer.vocab_size, id2label=dict(enumerate(names)), **SIZES)
    made = model(config)
    with torch.no_grad():
        made.classifier.weight.zero_()
        made.classifier.bias.copy_(torch.tensor([5.0] + [0.0] * (len(names) - 1)))
    made.save_pretrained(place)
    tokenizer.save(place)
    return place


def accuracy(model: Path, rows: list[dict[str, Any]], changes: dict[str, Any] | None = None) -> float:
    path = model / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return measure(task_of(open_subject(model), (str(path),), changes, progress=False)).evaluated.metrics["accuracy"]


def test_the_classes_of_texts_are_those_of_the_model(tmp_path):
    """75 % of the data is `pos`, which the model says always; by the order of the names it would say `neg`."""
    place = always_first(tmp_path, BertForSequenceClassification, ("pos", "neg"))
    rows = [{"text": f"text {number}", "label": "neg" if number % 4 == 0 else "pos"} for number in range(8)]
    assert accuracy(place, rows) == 0.75
    assert accuracy(place, [{**row, "label": ("pos", "neg").index(row["label"])} for row in rows]) == 0.75
    assert accuracy(place, [{**row, "label": row["label"].upper()} for row in rows]) == 0.75
    assert accuracy(place, rows, {"data.labels": ["neg", "pos"]}) == 0.25
    assert accuracy(place, [row for row in rows if row["label"] == "pos"]) == 1.0
    with pytest.raises(DataError, match="the data has the class 'other', and the model's classes are pos, neg"):
        accuracy(place, [*rows, {"text": "a", "label": "other"}])
    with pytest.warns(UserWarning, match="left aside"), pytest.raises(DataError, match="class 'spam'"):
        accuracy(place, [{"text": "a", "label": "spam"}, {"text": "b", "label": "spam"}])


def test_rows_are_no_longer_than_the_longest_record(tmp_path):
    """The model reads 512 positions, and one that reads 131,072 took half a terabyte for its masks."""
    place = always_first(tmp_path, BertForSequenceClassification, ("pos", "neg"))
    (place / "rows.jsonl").write_text(
        json.dumps({"text": "abcdef", "label": "pos"}) + "\n" + json.dumps({"text": "a", "label": "neg"})
    )
    rows = str(place / "rows.jsonl")
    tasks = [
        task_of(open_subject(place), (rows,), changes, progress=False) for changes in (None, {"length": 20}, {"length": 4})
    ]
    whole, longer, shorter = (measure(task).evaluated for task in tasks)
    assert [task.run.length for task in tasks] == [8, 20, 4]
    assert (whole.count, longer.count, shorter.count) == (2, 2, 1)
    assert whole.loss == pytest.approx(longer.loss, rel=1e-5)


def test_the_classes_of_words_are_those_of_the_model(tmp_path):
    place = always_first(tmp_path, BertForTokenClassification, ("O", "B-PER", "B-LOC"))
    labels = ["O", "B-PER", "O", "O", "B-LOC", "O", "B-PER", "O"]
    rows = [{"words": [f"w{number}" for number in range(8)], "labels": labels}]
    assert accuracy(place, rows, {"objective.kind": "token_labels"}) == 0.625


def test_checkpoints_and_exports_keep_the_names_of_a_training(tmp_path, call):
    place = always_first(tmp_path / "model", BertForSequenceClassification, ("pos", "neg"))
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": f"t {n}", "label": ("good", "bad")[n % 2]}) + "\n" for n in range(40)))
    arguments = ("--data", path, "--objective", "classification", "--set", "steps=1", "--set", "batch=4", "--set", "length=16")
    result = call("train", "--start-from", str(place), *map(str, arguments), "--out", str(tmp_path / "run"))
    assert result.returncode == 0, result.stderr
    said = " ".join(result.stderr.split())
    assert (
        "label: none of the data's classes (bad, good) is one of the model's (pos, neg), which are therefore left aside" in said
    )
    assert labels_of(tmp_path / "run") == ("bad", "good")
    assert call("export", str(tmp_path / "run"), str(tmp_path / "out")).returncode == 0
    assert json.loads((tmp_path / "out" / "config.json").read_text())["id2label"] == {"0": "bad", "1": "good"}
    assert labels_of(tmp_path / "out") == ("bad", "good")
