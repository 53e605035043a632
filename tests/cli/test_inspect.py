"""`anyformer inspect`: its views as tables, data and pictures, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from anyformer import checkpoint
from anyformer.catalogue.llama import llama
from anyformer.cli.inspected_text import repeated
from anyformer.data import Symbols
from anyformer.evaluation import open_subject
from anyformer.inspecting import attribution
from anyformer.model import dictionary_alone
from anyformer.model.transformer import build
from anyformer.parts import Dictionary
from anyformer.tasks import IndirectObject
from anyformer.tasks.symbols import tokenizer_of

TEXT, AGAINST = "n1 x0 n3 n1 =", "n1 x0 n3 n3 ="


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A random model over the symbols of a task."""
    folder, task = tmp_path_factory.mktemp("inspected") / "model", IndirectObject(names=6, letters=2)
    made = build(llama(width=16, depth=2, heads=2, kv_heads=1, ffn=24, vocab=len(task.symbols) + 2), seed=3)
    checkpoint.save(made, folder, tokenizer=tokenizer_of(Symbols(), task.symbols))
    return folder


def test_every_view_is_shown_told_and_drawn(model, call, tmp_path):
    out = tmp_path / "out"
    asked = ["inspect", str(model), "--text", TEXT, "--against", AGAINST, "--wanted", "n3", "--other", "n1"]
    views = ["--heads", "--lens", "--attribution", "--patterns", "--patching", "--circuit", "0.000001", "--out", str(out)]
    shown = call(*asked, *views)
    assert shown.returncode == 0, shown.stderr
    for said in (
        "mean attention weight of heads in the text of 5 tokens",
        "logit lens",
        "logit of n3 less that of n1",
        "replaced values",
        "edges: KL",
    ):
        assert said in " ".join(shown.stdout.split()), said
    drawn = {"lens", "attribution", "patterns", "patching", "patched_heads", "circuit"}
    assert {path.name for path in out.iterdir()} == {f"{name}.png" for name in drawn} | {"inspect.json"}
    told = json.loads((out / "inspect.json").read_text())
    assert told["tokens"] == TEXT.split()
    assert (told["wanted"], told["other"]) == ("n3", "n1")
    assert told["lens"][-1]["path"] == "head.logits"
    assert sum(told["attribution"]["shares"].values()) == pytest.approx(told["attribution"]["logit"], abs=1e-4)
    assert len(told["patching"]["decoder.layer[1].output"]) == 5
    assert len(told["patched_heads"]["decoder.layer[0].attention.heads"]) == 2
    said = " ".join(shown.stdout.split())
    assert "logit of n3 less n1: clean {clean:.4f}, corrupted {corrupted:.4f}".format(**told["metric"]) in said
    gap = abs(told["metric"]["clean"] - told["metric"]["corrupted"])
    assert ("these hardly differ" in said) == (gap < 0.1)
    assert told["circuit"]["considered"] == 2 + 3 + 2 * 4 + 6 + 7
    assert {each["path"] for each in told["heads"]} == {f"decoder.layer[{layer}].attention" for layer in range(2)}
    assert len(told["patterns"]["decoder.layer[0].attention.weights"]) == 2
    assert {"heads", "lens", "metric", *drawn} == told.keys() - {"model", "tokens", "position", "wanted", "other"}


def test_a_text_alone_has_lens_and_attribution_of_the_likeliest_token(model, call):
    told = json.loads(call("inspect", str(model), "--text", TEXT, "--position", "1", "--json").stdout)
    assert {"lens", "attribution"} == told.keys() - {"model", "tokens", "position", "wanted", "other"}
    subject = open_subject(model)
    tokens = torch.tensor([subject.text.encode(TEXT)])
    found = attribution(subject.model, tokens)
    assert told["wanted"] == subject.text.token(int(found.wanted_BT[0, 1]))
    assert told["attribution"]["logit"] == pytest.approx(float(found.logit_BT[0, 1]), abs=1e-5)
    assert told["lens"][-1]["rank"] == 0


@pytest.mark.filterwarnings("error")
def test_texts_that_hardly_differ_are_told_and_a_circuit_may_be_empty(model, call, tmp_path):
    asked = ["inspect", str(model), "--text", TEXT, "--against", AGAINST, "--wanted", "n3", "--other", "n3"]
    shown = call(*asked, "--patching", "--circuit", "1000", "--out", str(tmp_path / "out"))
    assert shown.returncode == 0, shown.stderr
    said = " ".join(shown.stdout.split())
    assert "logit of n3 less n3: clean 0.0000, corrupted 0.0000 these hardly differ" in said
    assert "0 of 26 edges" in said
    assert (tmp_path / "out" / "circuit.png").is_file()
    assert "NaN" not in (tmp_path / "out" / "inspect.json").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lens"], "give --text TEXT"),
        (["--text", TEXT, "--patching"], "give --against TEXT"),
        (["--text", TEXT, "--patterns"], "give --out DIRECTORY"),
        (["--text", TEXT, "--position", "5"], "the text has 5 tokens"),
        (["--text", TEXT, "--wanted", "n1 n2"], "is 2 tokens"),
        (
            ["--text", TEXT, "--against", "n1 n3 n3 =", "--patching"],
            "--text has 5 tokens (n1 x0 n3 n1 =) and --against 4 tokens (n1 n3 n3 =)",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(model, call, options, message):
    shown = call("inspect", str(model), *options)
    assert shown.returncode == 2
    assert message in " ".join(shown.stderr.split())


def test_heads_are_scored_on_tokens_that_the_model_knows(model, call):
    shown = call("inspect", str(model))
    assert shown.returncode == 0, shown.stderr
    assert "heads in 16 rows of 50 tokens: 25 random ones twice" in " ".join(shown.stdout.split())
    subject = open_subject(model)
    names = {subject.text.token(number) for number in repeated(subject).flatten().tolist()}
    assert names == set(IndirectObject(names=6, letters=2).symbols)
    assert repeated(replace(subject, length=9)).shape == (16, 8)


@pytest.mark.parametrize("options", [[], ["--text", TEXT]])
def test_a_model_without_tokens_is_refused_in_one_line(call, tmp_path, options):
    checkpoint.save(build(dictionary_alone(Dictionary(features=9), 4), seed=0), tmp_path / "sae")
    shown = call("inspect", str(tmp_path / "sae"), *options)
    assert shown.returncode == 2
    assert "reads activations of another model and no tokens: open its source model" in " ".join(shown.stderr.split())
    assert "Traceback" not in shown.stderr
