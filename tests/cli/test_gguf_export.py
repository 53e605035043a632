"""`anyformer export OUT.gguf`: a file with its tokenizer, which every command takes in place of the checkpoint."""

from __future__ import annotations

import json

import gguf
import pytest
import torch

import anyformer as af
from anyformer import checkpoint
from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer

LENGTH = 96


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A checkpoint of a tiny Llama over bytes with its tokenizer."""
    place = tmp_path_factory.mktemp("gguf")
    tokenizer = make_tokenizer(Bytes(), lambda: iter(()), lambda: iter(()))
    changes = {"decoder.layer.attention.head_width": 4, "embedding.vocab": tokenizer.vocab_size}
    model = af.build(af.architecture("llama-3-8b", tiny=True, changes=changes), seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    checkpoint.save(model, place / "checkpoint", tokenizer=tokenizer, facts={"length": LENGTH})
    return place


def test_a_file_generates_what_the_checkpoint_does(call, place):
    result = call("export", "checkpoint", "model.gguf", "--json", cwd=place)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {
        "file": "model.gguf", "model_type": "llama", "architecture": "llama", "bytes": (place / "model.gguf").stat().st_size,
    }  # fmt: skip
    keys = gguf.GGUFReader(place / "model.gguf").fields
    assert keys["llama.context_length"].contents() == LENGTH
    assert keys["general.name"].contents() == "model"
    assert keys["general.file_type"].contents() == gguf.LlamaFileType.ALL_F32
    texts = {
        name: call("generate", name, "ab", "--max-tokens", "8", "--temperature", "0", cwd=place)
        for name in ("checkpoint", "model.gguf")
    }
    assert all(result.returncode == 0 for result in texts.values()), texts
    assert texts["checkpoint"].stdout == texts["model.gguf"].stdout != ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("out", "--quantise", "q8_0"),
            "--quantise: of GGUF files, and --format is transformers: give OUT a name",
        ),
        (("out.gguf", "--adapter"), "--adapter and --towers are of directories for transformers, and --format is gguf"),
        (("out.gguf", "--quantise", "q8"), "quantise = 'q8' is not known"),
        (("out.gguf", "--family", "bart"), "bart is no type that GGUF files are written of: give one of"),
        (("no/such/place/out.gguf",), "the directory does not exist"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(call, place, words, message):
    result = call("export", "checkpoint", *words, cwd=place)
    assert result.returncode == 2
    assert message in " ".join(result.stderr.split())
    assert not (place / words[0]).exists()
