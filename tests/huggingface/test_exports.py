"""What an export writes beside the weights, how a flipped bit of it is found, and what is refused before any work."""

from __future__ import annotations

import importlib
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from zoo import DECODERS, ENCODERS

import anyformer as af
import anyformer.huggingface.auto
from anyformer import checkpoint, huggingface
from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import UserError, change
from anyformer.huggingface.digests import DIGESTS
from anyformer.loading import trained_length
from anyformer.model.transformer import build
from huggingface.cases.llama import BASE


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint of a tiny Llama over bytes with its tokenizer, and its export."""
    folder = tmp_path_factory.mktemp("exports")
    tokenizer = make_tokenizer(Bytes(), lambda: iter(()), lambda: iter(()))
    model = build(change(DECODERS["llama"], "embedding.vocab", 257)).eval()
    checkpoint.save(model, folder / "checkpoint", tokenizer=tokenizer, facts={"length": 96})
    umask = os.umask(0o022)
    try:
        af.export(model, folder / "exported", tokenizer=tokenizer, length=trained_length(folder / "checkpoint"))
    finally:
        os.umask(umask)
    af.export(model, folder / "own", tokenizer=tokenizer, model_type="anyformer", length=96)
    return folder


@pytest.fixture
def exported(folder, tmp_path) -> Path:
    return Path(shutil.copytree(folder / "exported", tmp_path / "exported"))


@pytest.mark.parametrize("layout", ["exported", "own"])
def test_the_length_of_training_and_the_tokens_are_written(folder, layout):
    config = json.loads((folder / layout / "config.json").read_text())
    assert config["max_position_embeddings"] == 96
    assert config["eos_token_id"] == config["bos_token_id"] == 256
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder / layout)
    assert theirs.generation_config.eos_token_id == theirs.generation_config.pad_token_id == 256
    assert af.load(folder / layout)[0].architecture.embedding.symbols == 257


def test_a_length_from_which_a_family_computes_stays(tmp_path):
    scaled = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    architecture = af.architecture({"model_type": "llama", "vocab_size": 53, **BASE, "rope_parameters": scaled})
    af.export(build(architecture), tmp_path / "scaled", length=5)
    config = json.loads((tmp_path / "scaled" / "config.json").read_text())
    assert config["max_position_embeddings"] == BASE["max_position_embeddings"]


def test_a_table_of_positions_keeps_its_length(tmp_path):
    architecture = af.architecture("gpt2", tiny=True)
    af.export(build(architecture), tmp_path / "gpt2", length=5)
    config = json.loads((tmp_path / "gpt2" / "config.json").read_text())
    assert config["n_positions"] == architecture.decoder.max_length
    assert "max_position_embeddings" not in config
    assert transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "gpt2").transformer.wpe.weight.shape[0] > 5


def test_where_the_length_of_training_stands(folder, tmp_path, call):
    assert trained_length(folder / "exported") == 96
    assert call("import", str(folder / "exported"), str(tmp_path / "imported")).returncode == 0
    assert trained_length(tmp_path / "imported") == 96
    run = tmp_path / "run"
    (run / "checkpoints" / "step-00000001").mkdir(parents=True)
    (run / "run.toml").write_text("length = 64\n")
    assert trained_length(run) == trained_length(run / "checkpoints" / "step-00000001") == 64
    assert trained_length(tmp_path) is None


def test_files_have_the_mode_that_the_umask_gives(folder):
    assert {path.stat().st_mode & 0o777 for path in (folder / "exported").iterdir()} == {0o644}


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json", "tokenizer_config.json", DIGESTS])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_flipped_bit_is_found(exported, name, share):
    path = exported / name
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] ^= 4
    path.write_bytes(content)
    with pytest.raises(
        UserError, match=r"is not as it was exported|cannot be read|missing, and digests.json names it|bytes and had"
    ):
        af.load(exported)


def test_what_is_changed_on_purpose_loads_without_its_digests(exported):
    path = exported / "model.safetensors"
    tensors = load_file(path)
    save_file({name: tensor * 2 for name, tensor in tensors.items()}, path)
    with pytest.raises(UserError, match=rf"model.safetensors: .*delete .*{DIGESTS} if the change is meant"):
        af.load(exported)
    (exported / DIGESTS).unlink()
    af.load(exported)


def test_verify_names_a_truncated_shard(exported, call):
    (exported / DIGESTS).unlink()
    path = exported / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    done = call("verify", str(exported))
    assert done.returncode == 2
    assert "model.safetensors: cannot be read as safetensors" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["encoder", "perceiver"])
def test_verify_compares_our_own_layout_of_any_shape(name, tmp_path):
    model = build(
        ENCODERS["encoder"] if name == "encoder" else change(ENCODERS["encoder"], "head", {"pool": "mean", "outputs": 3})
    )
    af.export(model, tmp_path / "own", model_type="anyformer")
    verdict = huggingface.verify(tmp_path / "own")
    assert verdict.agrees
    assert "not mathematics" in verdict.compared


def test_verify_sees_a_weight_that_transformers_reads_otherwise(folder, monkeypatch):
    verify = importlib.import_module("anyformer.huggingface.verifying")
    true = verify._in_transformers

    def nudged(*given):
        model = true(*given)
        with torch.no_grad():
            next(model.parameters()).mul_(1.01)
        return model

    monkeypatch.setattr(verify, "_in_transformers", nudged)
    assert not huggingface.verify(folder / "own").agrees


@pytest.mark.parametrize("command", ["export", "import"])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(command, folder, tmp_path, call):
    source = folder / ("checkpoint" if command == "export" else "exported")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "file").touch()
    for place, words in (("full", "give the name of a new directory"), ("file/x", "is a file, not a directory")):
        done = call(command, str(source), str(tmp_path / place))
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full"]


def test_a_disk_that_fills_up_leaves_nothing(folder, tmp_path, monkeypatch):
    import errno

    from anyformer.huggingface import writing

    def full(*_, **more):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing, "write_shards", full)
    with pytest.raises(UserError, match="the disk is full"):
        af.export(af.load(folder / "checkpoint")[0], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_what_a_family_lacks_is_said_once():
    with pytest.raises(huggingface.HuggingFaceError) as told:
        huggingface.find_family(DECODERS["llama"], "gpt2")
    words = str(told.value)
    assert words.startswith("gpt2 cannot express this architecture: decoder.position is LearnedPosition there and none here")
    assert words.count("decoder.position") == 1


def test_an_unknown_model_type_gets_suggestions_and_where_the_list_is():
    listed = sum(map(len, huggingface.FAMILIES.values()))  # as the page says, which a test counts
    with pytest.raises(
        huggingface.HuggingFaceError, match=rf"did you mean 'llama'.*docs/reference/families.md lists the {listed};"
    ) as told:
        huggingface.family("lama")
    assert "anyformer port DIR" in str(told.value)
    assert len(str(told.value)) < 200


def test_load_says_what_a_directory_lacks(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for name, words in (("empty", "holds no weights"), ("file", "is a file"), ("none", "no such directory")):
        with pytest.raises(UserError, match=words):
            af.load(tmp_path / name)
