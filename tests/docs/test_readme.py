"""The README tells the truth: its snippets run, its commands exist, its picture and tree are there."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.S | re.M)
SNIPPETS = [text for language, text in BLOCKS if language == "python"]
COMMANDS = [line for language, text in BLOCKS if not language for line in text.splitlines() if line.startswith("anyformer ")]
RUN = "runs/2026-01-01-120000"
EXPORTED = "exported"


def test_the_snippets_run_one_after_the_other(capsys):
    exec("\n".join(SNIPPETS), {"__name__": "readme"})
    assert "decode state" in capsys.readouterr().out


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory in which the README's commands make sense, with every training cut to a few tiny steps."""
    place = tmp_path_factory.mktemp("readme")
    texts = place / "my_texts"
    texts.mkdir()
    (texts / "a.py").write_text("\n".join(f"def f{i}(x):\n    return x + {i}\n" for i in range(2000)))
    (place / "recipes").symlink_to(ROOT / "recipes")
    return place


SMALL = [
    "steps=3", "batch=2", "length=32", "architecture.width=24", "decoder.order=layer", "decoder.layer.attention.heads=2",
    "decoder.layer.attention.kv_heads=2", "decoder.layer.feedforward.width=32", "embedding.vocab=400",
    "data.tokenizer.vocab=400",
    "plan.compile=off", "evaluation.every=2", "evaluation.baseline=false", 'data.paths=["my_texts"]',
]  # fmt: skip
NEEDED = {
    RUN: ["train", "recipes/stdlib.toml", "--out", RUN, *(f"--set={text}" for text in SMALL)],
    EXPORTED: ["export", RUN, EXPORTED],
}
"""What other commands of the README speak of, and how it comes about."""


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_runs(line, place, call):
    words = shlex.split(line)[1:]
    makes = EXPORTED if words[0] == "export" else None
    for needed, words_before in NEEDED.items():
        if {RUN, EXPORTED} & set(words) and needed != makes and not (place / needed).exists():
            made = call(*words_before, cwd=place)
            assert made.returncode == 0, made.stderr
    if makes:
        shutil.rmtree(place / makes, ignore_errors=True)
    if words[0] == "train" and RUN not in words:
        words += [f"--set={text}" for text in SMALL]
    if "--measure" in words:
        words += ["--batch", "1", "--length", "16"]
    result = call(*words, cwd=place)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


def test_there_are_commands_and_snippets_to_run():
    assert len(COMMANDS) >= 6
    assert len(SNIPPETS) >= 3


def test_pictures_and_pages_exist():
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README):
        assert (ROOT / target).exists(), target


def test_the_tree_names_every_room():
    named = set(re.findall(r"^  (\w+)(?:/|\.py) ", README, re.M))
    rooms = {
        path.name.removesuffix(".py") for path in (ROOT / "src" / "anyformer").iterdir() if not path.name.startswith(("_", "."))
    }
    assert rooms - {"py.typed"} == named


def test_measured_figures_are_those_of_the_committed_results():
    from benchmarks.report import report

    assert report().strip() in README
