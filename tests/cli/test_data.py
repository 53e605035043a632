"""`anyformer data`: what is shown is what the model is trained on."""

from __future__ import annotations

import re

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from anyformer.cli import app
from anyformer.cli.inspecting import print_seen
from anyformer.data import IGNORED
from anyformer.describe import change, change_all
from anyformer.objectives import Setting
from anyformer.parts import Causal, Prefix
from anyformer.resolving import architecture
from anyformer.training import default_run
from anyformer.training.held_out import corpus_of
from anyformer.training.inspection import inspected


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.txt").write_text(f"text number {number} is of {number * number} words. ")
    made = default_run(architecture("bert-base-uncased", tiny=True), (str(folder),))
    return change_all(made, {"length": 48, "data.isolate": True, "data.validation": 0.2})


def test_the_examples_of_training_are_shown_place_by_place(run):
    corpus = corpus_of(run)
    setting = Setting(corpus.tokenizer, run.length, run.seed, corpus.names)
    examples = run.objective.feed(run.data, corpus, setting, run.batch).at(3)
    for row, seen in enumerate(inspected(run, corpus, 3, 2)):
        (sequence,) = seen.sequences
        assert seen.sample == int(examples.rows[row])
        assert [place.number for place in sequence.places] == examples.tokens[row].tolist()
        assert [place.target is None for place in sequence.places] == (examples.targets[row] == IGNORED).tolist()
        assert (sequence.places[0].text, sequence.places[-1].text) == ("[CLS]", "[SEP]")
        (mask,) = sequence.masks.values()
        documents = examples.documents[row]
        assert torch.equal(mask, documents[:, None] == documents[None, :])
        assert len(documents.unique()) > 1
        console = Console(record=True, width=120, file=open("/dev/null", "w"))  # noqa: SIM115
        print_seen(console, seen)
        text = console.export_text()
        assert f"{int((examples.targets[row] != IGNORED).sum())} targets" in text
        assert f"{len(documents.unique())} documents" in text


def test_the_prefix_that_is_read_both_ways_is_shown(run):
    model = change(architecture("llama-2-7b", tiny=True), "decoder.layer.attention.mask", Causal() | Prefix())
    made = change_all(default_run(model, run.data.paths), {"length": 48, "data.validation": 0.2})
    corpus = corpus_of(made)
    setting = Setting(corpus.tokenizer, made.length, made.seed, corpus.names)
    prefixes = made.objective.feed(made.data, corpus, setting, made.batch).at(0).prefix.tolist()
    for seen, prefix in zip(inspected(made, corpus, 0, 2), prefixes, strict=False):
        (sequence,) = seen.sequences
        assert [place.prefix for place in sequence.places] == [number < prefix for number in range(48)]
        (mask,) = sequence.masks.values()
        assert mask[0].tolist() == [number < prefix for number in range(48)]


def test_the_command_shows_samples_and_prepares(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(f'{{"source": "word {n}", "target": "answer {n}"}}\n' for n in range(50)))
    asked = ["t5-small", "--tiny", "--data", str(path), "--set", "length=24", "--objective", "seq2seq"]
    asked += ["--set", "data.validation=0.2"]
    shown = CliRunner().invoke(app, ["data", "inspect", *asked, "--rows", "1"], catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    number = re.search(r"word (\d+)", shown.output)
    assert number
    assert f"<|endoftext|>answer {number[1]}" in shown.output
    assert "attention of decoder" in shown.output
    made = CliRunner().invoke(app, ["data", "prepare", *asked], catch_exceptions=False)
    assert made.exit_code == 0
    assert "records" in made.output
    assert str(tmp_path / "cache") in made.output
    monkeypatch.setattr("anyformer.training.held_out.corpus_together", None)  # nothing is made
    refused = CliRunner().invoke(
        app, ["data", "prepare", "gpt2", "--tiny", "--data", "copying", "--to", str(tmp_path / "copy")]
    )
    assert "there are no tokens to copy" in f"{refused.output}{refused.exception}"
    assert not (tmp_path / "copy").exists()
