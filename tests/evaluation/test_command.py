"""`anyformer eval`: what it prints, and what it refuses before any work."""

from __future__ import annotations

import json

import pytest

from anyformer.evaluation import measure, open_subject, task_of


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text(
        "".join(json.dumps({"question": f"f{n}", "choices": ["(x)", "zz"], "answer": n % 2}) + "\n" for n in range(6))
    )
    return path


def test_figures_of_data_beside_another_model(first, second, texts, tmp_path, call):
    picture = tmp_path / "figures.svg"
    asked = ["eval", str(first), "--data", str(texts), "--against", str(second), "--device", "cpu"]
    shown = call(*asked, "--draw", str(picture))
    assert shown.returncode == 0, shown.stderr
    found = measure(task_of(open_subject(first), (str(texts),), progress=False))
    lines = shown.stdout.splitlines()
    assert lines[0] == f"causal over {found.evaluated.count:,} tokens, {found.evaluated.count:,} targets, length 32"
    words = {line.rpartition("  ")[0].strip(): line.rpartition("  ")[2] for line in lines[1:7]}
    assert words == {
        "loss": f"{found.evaluated.loss:.4f}",
        "perplexity": f"{found.evaluated.perplexity:.2f}",
        "bits per byte": f"{found.text.bits_per_byte:.4f}",
        "accuracy": f"{found.text.whole.accuracy:.4f}",
        "top 5 accuracy": f"{found.text.whole.top_5_accuracy:.4f}",
        "calibration error": f"{found.text.calibration_error:.4f}",
    }
    assert "tokens read before" in shown.stdout
    assert "tokens of the document" in shown.stdout
    assert f"against {second}: the loss differs by" in shown.stdout
    assert "over 40 documents" in shown.stdout
    assert picture.is_file()
    table = json.loads(call(*asked, "--json").stdout)
    assert table["data"]["loss"] == pytest.approx(found.evaluated.loss, rel=1e-6)
    assert sum(each["count"] for each in table["data"]["by_position"]) == table["data"]["targets"]
    assert table["against"]["verdict"] in ("better", "worse", "cannot tell")
    assert table["against"]["low"] <= table["against"]["value"] <= table["against"]["high"]


def test_questions_hidden_words_and_counterparts(first, second, masked, questions, tmp_path, call):
    shown = call("eval", str(first), "--choices", str(questions), "--against", str(second))
    assert shown.returncode == 0, shown.stderr
    assert "choices: 6 questions, 50.0% by chance" in shown.stdout
    assert "causal over" not in shown.stdout, "no data was asked for"
    table = json.loads(call("eval", str(first), "--choices", str(questions), "--json").stdout)
    right = [each["chosen"] == each["right"] for each in table["choices"]["answers"]]
    assert table["choices"]["accuracy"]["value"] == sum(right) / 6
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("".join(json.dumps({"text": f"a{n}", "positive": f"b{n}"}) + "\n" for n in range(7)))
    shown = call(
        "eval", str(masked), "--fill", "def [MASK](x)", "--fill", "[MASK]", "--retrieval", str(pairs), "--pool", "last"
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("def [MASK](x)\n")
    assert sum("%  '" in line for line in shown.stdout.splitlines()) == 10
    assert "retrieval: 7 texts among 7 candidates" in shown.stdout
    assert "recall@5" in shown.stdout


def test_without_data_it_is_what_the_run_held_out(masked, call):
    shown = call("eval", str(masked))
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("masked over ")
    assert "perplexity" not in shown.stdout
    assert call("eval", str(masked), "--draw", "x.png").stderr.startswith("anyformer: --draw: there is a picture of next-token")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--limit", "3"], "--limit cuts the questions of tasks"),
        (["--fill", "[MASK]", "--set", "length=9"], "--set is of an evaluation on data"),
        (["--fill", "[MASK]", "--draw", "x.png"], "--draw is of an evaluation on data"),
        (["--fill", "[MASK]", "--against", "elsewhere"], "--against compares losses"),
        (["--against", "MODEL"], "is the same model"),
        (["--draw", "x.gif"], "a picture ends in"),
        (["--device", "nowhere"], "--device nowhere: this machine has cpu"),
        (["--device", "gpu"], "a GPU is called cuda\n"),
        (["--choices", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--data", "nowhere.txt"], "nowhere.txt"),
        (["--set", "lenght=9"], "did you mean 'length'"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(first, words, message, call):
    shown = call("eval", str(first), *(str(first) if word == "MODEL" else word for word in words))
    assert shown.returncode == 2
    assert message in shown.stderr
    assert not shown.stdout
