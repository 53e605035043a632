"""A malicious pickle executes nothing, whatever file it takes the place of, also where the digests were made to fit."""

from __future__ import annotations

import ast
import io
import os
import pickle
from pathlib import Path

import pytest
import torch
from benchmarks.kills import run_of
from rich.console import Console

import anyformer
from anyformer import checkpoint, huggingface
from anyformer.checkpoint import manifest
from anyformer.data import prepare
from anyformer.data.corpus import Corpus
from anyformer.describe import UserError
from anyformer.loading import load
from anyformer.training import load_run, resume, train
from anyformer.training.held_out import corpus_of

QUIET = Console(quiet=True)
MARKER = "executed"


class Malicious:
    def __reduce__(self):
        return os.mkdir, (MARKER,)


def _saved(**how) -> bytes:
    buffer = io.BytesIO()
    torch.save({"weight": Malicious()}, buffer, **how)
    return buffer.getvalue()


PICKLES = {
    "text": pickle.dumps(Malicious(), protocol=0),
    "binary": pickle.dumps(Malicious(), protocol=4),
    "torch": _saved(),
    "old torch": _saved(_use_new_zipfile_serialization=False),
}
NAMES = ("pytorch_model.bin", "training_args.bin", "adapter_model.bin", "consolidated.pth", "optimizer.pt", "data.pkl")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("pickles")
    run = run_of("dense", place, steps=2, every=1)
    trained = train(run, place / "run", console=QUIET)
    huggingface.export(trained.model, place / "export", tokenizer=trained.tokenizer)
    return place, run


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """In a directory in which every pickle would leave its mark."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not Path(MARKER).exists()


def attempt(act) -> None:
    try:
        act()
    except UserError:
        return


@pytest.mark.parametrize("kind", PICKLES)
def test_the_pickles_are_malicious(kind):
    content = PICKLES[kind]
    if "torch" in kind:
        torch.load(io.BytesIO(content), weights_only=False)
    else:
        pickle.loads(content)
    Path(MARKER).rmdir()


def reseal(directory: Path) -> None:
    """Make a checkpoint's manifest fit its files, as somebody who means harm would."""
    old = checkpoint.read_manifest(directory)
    entries = {name: manifest.measured(directory / name) for name in old.files}
    manifest._write_manifest(directory / checkpoint.MANIFEST, old.facts, entries)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["by turns", "every file"])
@pytest.mark.parametrize("kind", PICKLES)
def test_in_place_of_any_file(made, kind, every):
    """In each run a file is replaced by one kind, the kinds by turns."""
    (place, run), turn = made, [*PICKLES].index(kind)
    newest = checkpoint.latest(place / "run")[0]
    data = corpus_of(run).directory
    uses = {
        newest: [lambda: load(newest), lambda: checkpoint.latest(place / "run", also=("optimiser.safetensors",))],
        place / "run": [lambda: resume(place / "run", {"steps": 3}, console=QUIET), lambda: load(place / "run")],
        place / "export": [lambda: load(place / "export"), lambda: anyformer.architecture(place / "export")],
        data: [lambda: Corpus.open(data), lambda: Corpus.open(data, verify=True)],
    }
    for folder, acts in uses.items():
        files = [each for each in sorted(folder.iterdir()) if each.is_file()]
        for path in files if every else files[turn :: len(PICKLES)]:
            good = path.read_bytes()
            path.write_bytes(PICKLES[kind])
            sealed = (newest / checkpoint.MANIFEST).read_bytes()
            if folder == newest and path.name != checkpoint.MANIFEST:
                reseal(newest)
            for act in acts:
                attempt(act)
            (newest / checkpoint.MANIFEST).write_bytes(sealed)
            path.write_bytes(good)


@pytest.mark.parametrize("kind", PICKLES)
def test_under_the_names_of_pickles_and_as_data(made, kind, tmp_path):
    place, run = made
    config = (place / "export" / "config.json").read_bytes()
    for name in NAMES:
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        (folder / "config.json").write_bytes(config)
        (folder / name).write_bytes(PICKLES[kind])
        attempt(lambda folder=folder: load(folder))
    for name in ("a.pkl", "a.npy", "a.npz", "a.pt", "a.txt", "a.jsonl", "a.parquet", "run.toml", "run.json", "tokenizer.json"):
        path = tmp_path / name
        path.write_bytes(PICKLES[kind])
        attempt(lambda path=path: prepare(run.data.but(paths=(str(path),)), tmp_path / "cache"))
        attempt(lambda path=path: load_run(path))
        attempt(lambda path=path: anyformer.architecture(path))


def test_no_code_of_the_package_unpickles():
    """But for the part that tests import, which pickles and reads its own pickles."""
    forbidden = {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    for path in Path(anyformer.__file__).parent.rglob("*.py"):
        if path.parts[-2:] == ("testing", "built.py"):
            continue
        text = path.read_text(encoding="utf-8")
        if not any(word in text for word in (*forbidden, "load(")):
            continue
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not forbidden & {name.split(".")[0] for name in names}, path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load":
                owner, given = ast.unparse(node.func.value), {ast.unparse(each) for each in node.keywords}
                safe = owner in ("np", "numpy") and "allow_pickle=False" in given
                assert safe or owner not in ("torch", "np", "numpy"), f"{path}:{node.lineno}"
