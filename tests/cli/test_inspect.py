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
from anyformer.describe import UserError, to_toml
from anyformer.evaluation import open_subject
from anyformer.evaluation.learnt_at import learnt_at, open_dictionary
from anyformer.huggingface.saelens import export_saelens
from anyformer.inspecting import LogitDifference, attribution, find_circuit, score_edges
from anyformer.model import dictionary_alone
from anyformer.model.transformer import build
from anyformer.objectives import TranscoderObjective
from anyformer.parts import Dictionary
from anyformer.tasks import IndirectObject
from anyformer.tasks.symbols import tokenizer_of
from anyformer.training.run import default_run

TEXT, AGAINST = "n1 x0 n3 n1 =", "n1 x0 n3 n3 ="


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A random model over the symbols of a task."""
    folder, task = tmp_path_factory.mktemp("inspected") / "model", IndirectObject(names=6, letters=2)
    made = build(llama(width=16, depth=2, heads=2, kv_heads=1, ffn=24, vocab=len(task.symbols) + 2), seed=3)
    checkpoint.save(made, folder, tokenizer=tokenizer_of(Symbols(), task.symbols))
    return folder


def faithful(model):
    """The share that the circuit of the test below keeps."""
    subject = open_subject(model)
    clean, corrupted = (torch.tensor([subject.text.encode(text)]) for text in (TEXT, AGAINST))
    metric = LogitDifference(*(subject.text.number(name) for name in ("n3", "n1")))
    found = find_circuit(subject.model, clean, corrupted, threshold=1e-6)
    return found.faithfulness(subject.model, clean, corrupted, metric)


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
    assert told["lens"][-1]["difference"] == pytest.approx(told["metric"]["clean"], abs=1e-4)
    assert f"faithfulness {told['circuit']['faithfulness']:.3f}: the share" in " ".join(shown.stdout.split())
    assert "logit less n1" in " ".join(shown.stdout.split())
    assert sum(told["attribution"]["shares"].values()) == pytest.approx(told["attribution"]["logit"], abs=1e-4)
    assert len(told["patching"]["decoder.layer[1].output"]) == 5
    assert len(told["patched_heads"]["decoder.layer[0].attention.heads"]) == 2
    said = " ".join(shown.stdout.split())
    assert "logit of n3 less n1: clean {clean:.4f}, corrupted {corrupted:.4f}".format(**told["metric"]) in said
    gap = abs(told["metric"]["clean"] - told["metric"]["corrupted"])
    assert ("these hardly differ" in said) == (gap < 0.1)
    assert told["circuit"]["faithfulness"] == pytest.approx(faithful(model), abs=1e-4)
    assert (told["circuit"]["threshold"], told["circuit"]["scored"]) == (0.000001, "search")
    assert {key: told["circuit"]["metric"][key] for key in told["metric"]} == told["metric"]
    assert told["circuit"]["considered"] == 3 * 2 + 3 + 3 * 2 * 4 + 6 + 7
    assert {each["into"] for each in told["circuit"]["edges"]} <= {"", "query", "key", "value"}
    assert {each["path"] for each in told["heads"]} == {f"decoder.layer[{layer}].attention" for layer in range(2)}
    assert len(told["patterns"]["decoder.layer[0].attention.weights"]) == 2
    assert {"heads", "lens", "metric", *drawn} == told.keys() - {"model", "tokens", "position", "wanted", "other"}


def test_a_circuit_of_the_largest_scores_is_told_with_what_it_was_asked_of(model, call, tmp_path):
    asked = ["inspect", str(model), "--text", TEXT, "--against", AGAINST, "--wanted", "n3", "--other", "n1"]
    shown = call(*asked, "--edges", "9", "--scores", "gradient", "--out", str(tmp_path / "out"))
    assert shown.returncode == 0, shown.stderr
    assert "9 of 46 edges" in " ".join(shown.stdout.split())
    assert "score (gradient)" in " ".join(shown.stdout.split())
    told = json.loads((tmp_path / "out" / "inspect.json").read_text())["circuit"]
    subject = open_subject(model)
    clean, corrupted = (torch.tensor([subject.text.encode(text)]) for text in (TEXT, AGAINST))
    metric = LogitDifference(*(subject.text.number(name) for name in ("n3", "n1")))
    found = score_edges(subject.model, clean, corrupted, metric, way="gradient").circuit(size=9)
    assert {(each["from"], f"{each['to']} {each['into']}".strip()) for each in told["edges"]} == {
        (edge.sender, edge.to) for edge, _ in found.edges
    }
    assert told["faithfulness"] == pytest.approx(found.faithfulness(subject.model, clean, corrupted, metric), abs=1e-4)
    assert (told["scored"], told["threshold"]) == ("gradient", pytest.approx(found.threshold, rel=1e-4))
    with torch.no_grad():
        values = {name: float(metric(subject.model(tokens))) for name, tokens in (("clean", clean), ("corrupted", corrupted))}
    assert told["metric"] == {
        "about": "logit of n3 less n1",
        **{name: pytest.approx(each, abs=1e-5) for name, each in values.items()},
    }
    assert (tmp_path / "out" / "circuit.png").is_file()


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
    shown = call(*asked, "--patching", "--circuit", "1000", "--whole-heads", "--out", str(tmp_path / "out"))
    assert shown.returncode == 0, shown.stderr
    said = " ".join(shown.stdout.split())
    assert "logit of n3 less n3: clean 0.0000, corrupted 0.0000 these hardly differ" in said
    assert "0 of 26 edges" in said
    assert (tmp_path / "out" / "circuit.png").is_file()
    assert "NaN" not in (tmp_path / "out" / "inspect.json").read_text()


@pytest.fixture(scope="module")
def dictionary(model):
    """A directory of SAELens: features of the stream behind the first layer."""
    made, folder = build(dictionary_alone(Dictionary(features=30), 16, 1.0), seed=4), model.parent / "features"
    export_saelens(made, folder, metadata={"hook_name": "blocks.0.hook_resid_post"})
    return folder


def test_features_of_a_dictionary_are_shown_and_told(model, dictionary, call, tmp_path):
    asked = ["inspect", str(model), "--text", TEXT, "--position", "2", "--features", str(dictionary)]
    subject = open_subject(model)
    found = open_dictionary(dictionary, subject.model)
    reading = found.reading(torch.tensor([subject.text.encode(TEXT)]))
    (number, value), *_ = strongest = reading.strongest(position=2)
    told = json.loads(call(*asked, "--feature", str(number), "--json").stdout)["features"]
    assert told["read"] == told["written"] == ["decoder.layer[0].output"]
    assert [each["feature"] for each in told["active"]] == [feature for feature, _ in strongest]
    assert told["active"][0]["activation"] == pytest.approx(value)
    assert told["active"][0]["tokens"] == [subject.text.token(token) for token, _ in found.tokens([number])[0]]
    assert told["feature"]["activations"] == pytest.approx(reading.of(number).tolist())
    said = " ".join(call(*asked, "--feature", str(number)).stdout.split())
    assert "of 30 features of decoder.layer[0].output are active" in said
    assert f"feature {number} is active at {int((reading.of(number) > 0).sum())} of 5 tokens" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give --text TEXT"),
        (["--text", TEXT, "--feature", "30"], "there is no feature 30: the dictionary has 30"),
    ],
)
def test_features_that_are_not_there_are_refused(model, dictionary, call, options, message):
    shown = call("inspect", str(model), "--features", str(dictionary), *options)
    assert shown.returncode == 2
    assert message in " ".join(shown.stderr.split())


def test_a_directory_that_is_no_dictionary_or_of_another_model_is_refused(model, dictionary, tmp_path):
    subject = open_subject(model)
    with pytest.raises(UserError, match="is no sparse dictionary, but a decoder"):
        open_dictionary(model, subject.model)
    checkpoint.save(build(dictionary_alone(Dictionary(features=9), 16), seed=0), tmp_path / "sae")
    with pytest.raises(UserError, match="does not say where in a model it was learnt"):
        open_dictionary(tmp_path / "sae", subject.model)
    other = build(llama(width=24, depth=2, heads=2, kv_heads=1, ffn=24, vocab=9), seed=3)
    with pytest.raises(UserError, match="reads 16 numbers, and the model has 24 at decoder"):
        open_dictionary(dictionary, other)


def test_a_run_says_where_its_dictionary_was_learnt(tmp_path):
    inside, added = "decoder.layer[0].feedforward.input", "decoder.layer[0].feedforward.output"
    objective = TranscoderObjective(source="there", path=inside, target=added)
    architecture = dictionary_alone(Dictionary(features=9, centred=False, detached=True), 16)
    run = default_run(architecture, ("python-stdlib",), objective)
    (tmp_path / "run.toml").write_text(to_toml(run))
    assert learnt_at(tmp_path) == ((inside,), (added,))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lens"], "give --text TEXT"),
        (["--text", TEXT, "--patching"], "give --against TEXT"),
        (["--text", TEXT, "--whole-heads"], "give --circuit NATS or --edges N"),
        (
            ["--text", TEXT, "--against", AGAINST, "--circuit", "0.1", "--edges", "3"],
            "two ways to one circuit: give one of both",
        ),
        (
            ["--text", TEXT, "--against", AGAINST, "--circuit", "0.1", "--scores", "cut"],
            "--scores cut says how edges are chosen",
        ),
        (["--text", TEXT, "--against", AGAINST, "--edges", "99"], "a circuit of 99 edges: there are 46, so give 0 to 46"),
        (["--text", TEXT, "--against", AGAINST, "--edges", "3", "--scores", "eap"], "there is no way 'eap' of scoring edges"),
        (["--text", TEXT, "--edges", "3"], "give --against TEXT"),
        (["--text", TEXT, "--feature", "3"], "give --features DIRECTORY"),
        (["--text", TEXT, "--patterns"], "give --out DIRECTORY"),
        (["--text", TEXT, "--position", "5"], "the text has 5 tokens"),
        (["--text", TEXT, "--wanted", "n1 n2"], "is 2 tokens"),
        (
            ["--text", TEXT, "--wanted", "n11"],
            "--wanted 'n11': is not in the vocabulary and would be read as [UNK]; did you mean 'n1'",
        ),
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
    assert "reads no tokens, and what is asked is about tokens: of a sparse dictionary open the source model" in " ".join(
        shown.stderr.split()
    )
    assert "Traceback" not in shown.stderr
