"""`anyformer quantise`: a checkpoint in few bits that everything else reads."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import anyformer as af
from anyformer import checkpoint
from anyformer.checkpoint.few_bits import FewBitWeights, in_few_bits, planes
from anyformer.checkpoint.stored import StoredTensors
from anyformer.costs.inference import weight_bytes
from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.quantising import FORMATS
from anyformer.quantising.model import dense, quantised
from anyformer.quantising.tensor import Quantised, stored_bytes


@pytest.fixture(scope="module")
def place(tmp_path_factory, call):
    """A checkpoint of a tiny Llama over bytes with its tokenizer, a text, and the checkpoint in int4, calibrated."""
    place = tmp_path_factory.mktemp("quantise")
    tokenizer = make_tokenizer(Bytes(), lambda: iter(()), lambda: iter(()))
    model = af.build(af.architecture("llama-3-8b", tiny=True), seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    checkpoint.save(model, place / "whole", tokenizer=tokenizer, facts={"length": 96})
    (place / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 60)
    made = call(
        "quantise", "whole", "--format", "int4-32", "--calibrate", "text.txt", "--data", "text.txt", "--out", "small", cwd=place
    )
    assert made.returncode == 0, made.stderr
    (place / "said").write_text(made.stdout)
    return place


def test_the_page_says_what_is_saved_and_what_it_costs(place):
    words = " ".join((place / "said").read_text().split())
    report = checkpoint.read_manifest(place / "small").facts["quantised"]
    assert "small: int4-32 weights: " in words
    assert f"{len(report['errors'])} calibrated on text.txt loss on" in words
    assert report["loss"]["before"] != report["loss"]["after"]
    architecture = af.architecture(place / "whole")
    assert (report["before"], report["after"]) == tuple(
        weight_bytes(architecture, FORMATS[name]) for name in ("fp32", "int4-32")
    )


def test_the_file_holds_the_bytes_of_the_price(place):
    model, _ = af.load(place / "small")
    stored = sum(tensor.nbytes for tensor in load_file(place / "small" / "model.safetensors").values())
    assert stored == sum(map(stored_bytes, model.parameters())) == weight_bytes(model.architecture, FORMATS["int4-32"])


def test_it_generates_evaluates_and_exports(place, call):
    for words in (
        ["generate", "small", "the quick", "--max-tokens", "4"],
        ["generate", "whole", "the quick", "--max-tokens", "4", "--weights", "int8"],
        ["eval", "small", "--data", "text.txt", "--precision", "fp32"],
        ["export", "small", "exported"],
    ):
        made = call(*words, cwd=place)
        assert made.returncode == 0, made.stderr
    tokens = torch.tensor([[1, 2, 3, 4]])
    small, exported = af.load(place / "small")[0], af.load(place / "exported")[0]
    with torch.no_grad():
        torch.testing.assert_close(dense(small)(tokens), exported(tokens))


def test_a_type_is_that_of_the_numbers_restored(place):
    model, _ = af.load(place / "small", dtype=torch.float32)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert any(isinstance(parameter, Quantised) for parameter in model.parameters())


def test_words_that_are_wrong_are_refused(place, call):
    for words, said in (
        (
            ["quantise", "whole", "--format", "int5", "--out", "other"],
            "'int5' is no format of weights; there are fp32",
        ),
        (["quantise", "small", "--format", "int8", "--out", "other"], "in few bits already"),
        (["quantise", "whole", "--format", "nf4", "--calibrate", "text.txt", "--out", "other"], "nf4 has no calibrated form"),
        (["generate", "whole", "a", "--weights", "int5"], "'int5' is no format"),
        (["generate", "whole", "a", "--weights", "int4/nf4"], "no kernel multiplies by a table in nf4"),
    ):
        made = call(*words, cwd=place)
        assert made.returncode == 2
        assert said in made.stderr
        assert not (place / "other").exists()


def test_planes_that_are_missing_or_wrong_are_named(place):
    made = quantised(af.build(af.architecture("llama-3-8b", tiny=True)), FORMATS["int8"])[0]
    weights = checkpoint.weights(made)
    said, stored = in_few_bits(weights), planes(weights)
    first = said.matrices[0]

    def read(tensors):
        file = place / "planes.safetensors"
        save_file(tensors, file)
        return FewBitWeights.of(StoredTensors.open(file), said, made.architecture)

    assert all(torch.equal(planes(read(stored))[name], x) for name, x in stored.items())
    with pytest.raises(checkpoint.CheckpointError, match=f"{first}.scales is not there; int8 stores"):
        read({name: x for name, x in stored.items() if name != f"{first}.scales"})
    with pytest.raises(checkpoint.CheckpointError, match=f"{first}.codes has shape"):
        read({**stored, f"{first}.codes": torch.zeros(3)})
    codes = stored[f"{first}.codes"]
    with pytest.raises(checkpoint.CheckpointError, match=f"{first}.codes has type torch.float32; int8 stores"):
        read({**stored, f"{first}.codes": codes.float()})[first]


def test_json(place, call):
    found = json.loads(call("quantise", "whole", "--out", "printed", "--json", cwd=place).stdout)
    assert found["format"] == "int8"
    assert found["after"] < found["before"]


def chats(place, **forms):
    """A file of the same chats for each form: the field, and the names of who speaks and of what is said."""
    for name, (field, speaker, said, people) in forms.items():
        rows = [{field: [{speaker: who, said: f"word {row}"} for who in people]} for row in range(20)]
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_chats_are_read_by_the_commands_that_read_text(tmp_path, call, monkeypatch):
    """Of a run as it reads them, in each published form; of a checkpoint that is from none as they look."""
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    chats(
        tmp_path,
        own=("messages", "role", "content", ("user", "assistant")),
        other=("conversations", "from", "value", ("human", "gpt")),
    )
    trained = ["llama-3-8b", "--tiny", "--data", "own.jsonl", "--set", "steps=1", "--set", "plan.compile=off", "--out", "run"]
    assert call("train", *trained, cwd=tmp_path).returncode == 0
    shutil.copytree(checkpoint.directory_of(tmp_path / "run", 1), tmp_path / "whole")
    losses = {}
    for number, (model, data) in enumerate((("run", "own"), ("run", "other"), ("whole", "other"))):
        made = call("quantise", model, "--data", f"{data}.jsonl", "--out", str(number), cwd=tmp_path)
        assert made.returncode == 0, made.stderr
        losses[model, data] = checkpoint.read_manifest(tmp_path / str(number)).facts["quantised"]["loss"]["before"]
        read = call("eval", model, "--data", f"{data}.jsonl", cwd=tmp_path)
        assert read.returncode == 0, read.stderr
    assert len(set(losses.values())) == 1
    shown = call("data", "inspect", "run", "--rows", "1", cwd=tmp_path)
    assert "<|assistant|>" in shown.stdout, shown.stderr
