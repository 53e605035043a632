"""What stands beside the weights of a published model is what stands beside those of its export."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from huggingface_hub import ModelCard
from safetensors.torch import load_file

import anyformer as af
from anyformer import checkpoint, huggingface, loading
from anyformer.describe import Notice, change
from anyformer.huggingface.card import card
from anyformer.text.beside import Beside
from huggingface.layouts import LAYOUTS, write

OURS = {"digests.json"}


@pytest.fixture(scope="module", params=LAYOUTS)
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("published") / "model"
    write(LAYOUTS[request.param], directory)
    return directory


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("chat") / "model"
    write(LAYOUTS["chat with several ends"], directory)
    return directory


def files(directory: Path) -> dict[str, bytes]:
    found = {path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    return {name: content for name, content in found.items() if "safetensors" not in name and name not in OURS}


def tensors(directory: Path) -> dict[str, torch.Tensor]:
    return {name: x for path in directory.glob("*.safetensors") for name, x in load_file(path).items()}


def test_an_import_and_an_export_change_no_byte(published: Path, tmp_path: Path, call) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        assert call("import", str(published), str(tmp_path / "imported")).returncode == 0
        done = call("export", str(tmp_path / "imported"), str(tmp_path / "exported"))
    assert done.returncode == 0, done.stderr
    assert "anew" not in done.stderr
    assert files(tmp_path / "exported") == files(published)
    ours, theirs = tensors(tmp_path / "exported"), tensors(published)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) and ours[name].dtype == theirs[name].dtype for name in theirs)
    transformers.AutoModel.from_pretrained(tmp_path / "exported")


def test_a_directory_is_exported_as_a_checkpoint_of_it(published: Path, tmp_path: Path) -> None:
    model, tokenizer = af.load(published)
    huggingface.export(model, tmp_path / "exported", tokenizer=tokenizer, beside=loading.beside(published))
    assert files(tmp_path / "exported") == files(published)


def test_what_changed_is_said_with_the_reason(chat: Path, tmp_path: Path) -> None:
    model, tokenizer = af.load(chat)
    with pytest.warns(Notice, match="dtype = bfloat16, as the weights are, and was float32"):
        af.export(model.to(torch.bfloat16), tmp_path / "half", tokenizer=tokenizer)
    config = json.loads((tmp_path / "half" / "config.json").read_text())
    assert config == {**json.loads((chat / "config.json").read_text()), "dtype": "bfloat16"}
    other = af.build(change(model.architecture, "decoder.layer.attention.kv_heads", 2))
    with pytest.warns(Notice, match=r"written anew, since the architecture is another .*kv_heads: 4 -> 2"):
        af.export(other, tmp_path / "other", tokenizer=tokenizer)
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    assert (config["num_key_value_heads"], config["eos_token_id"], config["bos_token_id"]) == (2, [2, 6], 1)
    changed = {"config.json"}
    for name in ("half", "other"):
        ours = files(tmp_path / name)
        assert {key for key, content in files(chat).items() if ours[key] != content} == changed


def test_classes_of_a_training_are_named(tmp_path: Path) -> None:
    write(LAYOUTS["a classifier of named classes"], tmp_path / "model")
    model, tokenizer = af.load(tmp_path / "model")
    with pytest.warns(Notice, match="id2label names the classes of the training: a, b, c"):
        af.export(model, tmp_path / "out", tokenizer=tokenizer, labels=("a", "b", "c"))
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["id2label"] == {"0": "a", "1": "b", "2": "c"}
    assert transformers.AutoConfig.from_pretrained(tmp_path / "out").label2id == {"a": 0, "b": 1, "c": 2}


def test_a_chat_model_ends_after_its_export_as_before(chat: Path, tmp_path: Path) -> None:
    """Its ends, first token, sampling and context are those of its authors, also after a training at another length."""
    model, tokenizer = af.load(chat)
    assert tokenizer is not None
    checkpoint.save(model, tmp_path / "checkpoint", tokenizer=tokenizer, facts={"length": 32})
    again = checkpoint.load(tmp_path / "checkpoint")[1]
    assert again is not None
    assert again.conventions == tokenizer.conventions
    assert (again.conventions.begin, again.ends, again.conventions.pad, again.conventions.context) == (1, (2, 6), 3, 128)
    af.export(model, tmp_path / "out", tokenizer=again, length=32)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert theirs.generation_config.eos_token_id == [2, 6]
    assert theirs.generation_config.temperature == 0.6
    assert theirs.config.max_position_embeddings == 128
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "out").eos_token == "<|end|>"


def test_a_card_says_how_the_model_was_trained_and_carries_the_licence(chat: Path, tmp_path: Path) -> None:
    model, tokenizer = af.load(chat)
    facts = huggingface.Facts(
        base="hub:lab/model@v1", run={"steps": 3, "objective": {"kind": "causal"}}, figures={"validation loss": 1.25}
    )
    with pytest.warns(Notice, match=r"README\.md is written anew, since the model was trained further"):
        af.export(model, tmp_path / "out", tokenizer=tokenizer, facts=facts)
    text = (tmp_path / "out" / "README.md").read_text()
    head, body = text.split("---\n")[1:]
    assert head.splitlines()[:4] == ["license: llama3", "language:", "- en", "base_model: lab/model"]
    assert "pipeline_tag: text-generation" in head
    assert "- steps: 3" in body
    assert "| validation loss | 1.2500 |" in body
    assert "# lab/model, trained further" in body
    listed = ModelCard(text).data.eval_results[0]
    assert (listed.metric_name, listed.metric_value, listed.task_type) == ("validation loss", 1.25, "text-generation")


def test_a_card_names_nothing_of_one_machine() -> None:
    run = {"start_from": "/home/ada/secret-base", "data": {"kind": "text", "paths": ["/home/ada/letters.txt", "python-stdlib"]}}
    facts = huggingface.Facts.of(run, 3, None)
    text = card(af.architecture("gpt2", tiny=True), huggingface.family("gpt2"), Beside(), facts, None, "PATH")
    assert "files = python-stdlib, 1 of its own" in text
    assert "# gpt2, trained further" in text
    assert [word for word in ("ada", "secret", "letters", "base_model") if word in text] == []


def test_files_out_of_the_place_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.json").write_text("{}")
    (tmp_path / "config.json").write_text("{}")
    assert set(Beside.read(tmp_path).files) == {"config.json"}


def test_tokens_without_a_row_are_told(tmp_path: Path) -> None:
    layout = LAYOUTS["experts"]
    write(replace(layout, config={**layout.config, "vocab_size": 300}), tmp_path / "model")
    with pytest.warns(Notice, match="the tokenizer has 320 tokens and the model's table 300 rows"):
        af.load(tmp_path / "model")
