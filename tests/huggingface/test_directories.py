"""Directories as users have them: sharded, tied, quantised, pickled, damaged, of no family; and the commands."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner
from zoo import DECODERS, ENCODERS

import anyformer as af
import anyformer.huggingface.auto
from anyformer import huggingface
from anyformer.cli import app
from anyformer.describe import Notice
from anyformer.files import PlaceError
from anyformer.huggingface.files import write_shards
from anyformer.model.transformer import build
from covering import but_slow
from huggingface.case import Case
from huggingface.cases.fsmt import CASES as FSMT
from huggingface.cases.llama import BASE
from huggingface.parity import given, pair

CASE = Case("llama", {"vocab_size": 53, **BASE})
TIED = Case("llama", {"vocab_size": 53, **BASE, "tie_word_embeddings": True})


@pytest.fixture
def directory(tmp_path) -> Path:
    """A copy of a tiny Llama's directory."""
    return Path(shutil.copytree(pair(CASE).directory, tmp_path / "llama"))


def change(directory: Path, **keys) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def test_load_takes_the_directory_and_keeps_the_type(directory):
    half = load_file(directory / "model.safetensors")
    save_file({name: tensor.bfloat16() for name, tensor in half.items()}, directory / "model.safetensors")
    model, tokenizer = af.load(directory)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert tokenizer is None
    assert not model.training


def test_shards_are_read_one_tensor_at_a_time(directory):
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    write_shards(directory, iter(tensors.items()), limit=5000)
    assert len(list(directory.glob("model-*-of-*.safetensors"))) > 3
    x = given(CASE)
    assert torch.equal(af.load(directory)[0](x), pair(CASE).ours(x))
    assert transformers.AutoModelForCausalLM.from_pretrained(directory) is not None
    next(directory.glob("model-00002*")).unlink()
    with pytest.raises(huggingface.HuggingFaceError, match="model-00002"):
        af.load(directory)


def test_a_head_is_tied_by_what_is_stored(directory):
    change(directory, tie_word_embeddings=True)
    assert not af.load(directory)[0].architecture.head.tied, "the file's own head says otherwise"
    tensors = load_file(directory / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, directory / "model.safetensors")
    assert af.load(directory)[0].architecture.head.tied
    del tensors["lm_head.weight"]
    save_file(tensors, directory / "model.safetensors")
    assert af.load(directory)[0].architecture.head.tied


def test_a_head_that_is_missing_and_not_tied_is_refused_with_the_remedy(directory):
    """transformers draws such a head at random, and says so; here it was tied without a word."""
    tensors = load_file(directory / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, directory / "model.safetensors")
    with pytest.raises(huggingface.HuggingFaceError, match=r"no tensor lm_head.weight.*tie_word_embeddings is false.*true"):
        af.load(directory)
    change(directory, architectures=["LlamaModel"])
    assert af.load(directory)[0].architecture.head is None


def test_one_file_beside_an_index_is_read_as_in_transformers(directory):
    """And an index that says otherwise is named: two models in one directory differ by which of them is read."""
    tensors = load_file(directory / "model.safetensors")
    other = {name: x + 1 for name, x in tensors.items()}
    save_file(other, directory / "model-00001-of-00001.safetensors", metadata={"format": "pt"})
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys(tensors, "model-00001-of-00001.safetensors")}))
    x = torch.randint(5, 50, (1, 7))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(directory).eval()
    with pytest.warns(Notice, match=r"model\.safetensors is read, as by transformers.*model-00001-of-00001"):
        ours, _ = af.load(directory)
    torch.testing.assert_close(ours(x), theirs(x).logits, rtol=1e-4, atol=1e-5)
    index.write_text(json.dumps({"weight_map": dict.fromkeys([*tensors, "more.weight"], "model.safetensors")}))
    with pytest.warns(Notice, match="disagree about.*more.weight"):
        af.load(directory)
    index.write_text(json.dumps({"weight_map": dict.fromkeys(tensors, "model.safetensors")}))
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        af.load(directory)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"quantization_config": {"quant_method": "gptq"}},
            "names Gptq, and no tensor is stored in it.*delete quantization_config",
        ),
        ({"quantization_config": {"quant_method": "aqlm"}}, r'stored as "aqlm", which is not read here.*full precision'),
        ({"model_type": "lama"}, "model type 'lama' is not known here; did you mean 'llama'"),
        ({"rope_parameters": {"rope_type": "spiral", "rope_theta": 1.0}}, "rope_type 'spiral'"),
        ({"hidden_act": "snake"}, "activation 'snake'"),
        ({"sliding_window_of_the_future": 3}, "sliding_window_of_the_future = 3"),
        ({"num_hidden_layers": 4}, "9 tensors are missing, the first model.layers.3"),
        ({"num_hidden_layers": 2}, "9 tensors have no place.*model.layers.2"),
        ({"intermediate_size": 44}, r"gives decoder.layers.0.*\(40, 32\).*the configuration says \(44, 32\)"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(directory, keys, words):
    change(directory, **keys)
    with pytest.raises(huggingface.HuggingFaceError, match=words):
        af.load(directory)


def test_pickles_are_refused_with_the_remedy(directory):
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    with pytest.raises(huggingface.HuggingFaceError, match=r"pytorch_model.bin, and unpickling.*save_pretrained"):
        af.load(directory)


def test_a_truncated_file_is_named(directory):
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(huggingface.HuggingFaceError, match=r"model\.safetensors: cannot be read as safetensors"):
        af.load(directory)


def test_an_index_may_not_point_outside(directory):
    (directory / "model.safetensors").rename(directory / "all.safetensors")
    index = {"weight_map": {"lm_head.weight": "../llama/model.safetensors"}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(huggingface.HuggingFaceError, match="outside the directory"):
        af.load(directory)


def test_export_needs_a_new_directory(directory):
    with pytest.raises(PlaceError, match="give the name of a new directory"):
        af.export(pair(CASE).ours, directory)


def test_the_nearest_families_are_named_when_none_fits():
    with pytest.raises(huggingface.HuggingFaceError, match="no family of transformers expresses"):
        huggingface.find_family(DECODERS["streams"])


@pytest.mark.parametrize("name", but_slow(["streams", "delta_gated", "latent_window_gate"], ["latent_window_gate"]))
def test_what_no_family_expresses_is_a_model_of_transformers_all_the_same(name, tmp_path):
    model = build(DECODERS[name]).eval()
    family = af.export(model, tmp_path / "own")
    assert family.model_type == "anyformer"
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "own").eval()
    x = torch.randint(0, 37, (2, 9))
    assert torch.equal(theirs(x).logits, model(x))
    mask = torch.ones_like(x)
    mask[0, :4] = 0
    torch.testing.assert_close(theirs(x, attention_mask=mask).logits[0, 4:], model(x[:1, 4:])[0], rtol=1e-4, atol=1e-5)
    text = theirs.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=3, do_sample=False, pad_token_id=0)
    assert text.shape == (2, 12)
    assert torch.equal(text[:, 9], model(x)[:, -1].argmax(-1))
    again, _ = af.load(tmp_path / "own")
    assert again.architecture == model.architecture
    assert torch.equal(again(x), model(x))
    verdict = huggingface.verify(tmp_path / "own")
    assert verdict.agrees
    assert "token by token through a cache" in verdict.compared


def test_an_encoder_of_our_own(tmp_path):
    model = build(ENCODERS["encoder"]).eval()
    af.export(model, tmp_path / "own", model_type="anyformer")
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "own").eval()
    x = torch.randint(0, 37, (2, 9))
    assert torch.equal(theirs(x).logits, model(x))


def test_verify_reads_layers_that_have_positions_before_rows_and_need_to_keep_no_cache():
    """FSMT's class leaves the causal mask out where it keeps a cache."""
    verdict = huggingface.verify(pair(FSMT[0]).directory, length=9)
    assert verdict.agrees
    assert verdict.first_drift is None
    assert len(verdict.drifts) > 2


def test_verify_agrees_and_names_the_first_layer_that_drifts(directory):
    verdict = huggingface.verify(directory)
    assert verdict.agrees
    assert [drift.where for drift in verdict.drifts] == ["decoder layer 0", "decoder layer 1", "decoder layer 2", "logits"]
    with pytest.MonkeyPatch.context() as patch:
        true = torch.nn.functional.silu
        calls = iter(range(99))
        patch.setattr(torch.nn.functional, "silu", lambda x, **k: true(x, **k) * (1.01 if next(calls) == 1 else 1.0))
        wrong = huggingface.verify(directory)
    assert not wrong.agrees
    assert wrong.first_drift is not None
    assert wrong.first_drift.where == "decoder layer 1"


def test_the_commands(directory, tmp_path):
    run = CliRunner()
    verified = run.invoke(app, ["verify", str(directory)])
    assert verified.exit_code == 0, verified.output
    assert "the logits agree with transformers" in verified.output
    imported = run.invoke(app, ["import", str(directory), str(tmp_path / "checkpoint"), "--check"])
    assert imported.exit_code == 0, imported.output
    assert "decoder-only" in imported.output
    exported = run.invoke(app, ["export", str(tmp_path / "checkpoint"), str(tmp_path / "back")])
    assert exported.exit_code == 0, exported.output
    assert "llama" in exported.output
    there, back = (load_file(path / "model.safetensors") for path in (directory, tmp_path / "back"))
    assert there.keys() == back.keys()
    assert all(torch.equal(there[name], back[name]) for name in there)


MEASURE = """
import resource, sys
import torch, anyformer as af, anyformer.huggingface
used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
torch.nn.Linear(8, 8)
before = used()
model, _ = af.load(sys.argv[1])
size = sum(p.nbytes for p in model.parameters())
largest = max(p.nbytes for p in model.parameters())
print((used() - before - largest) / size)
"""


def test_loading_takes_the_memory_of_the_model_and_one_tensor(tmp_path):
    architecture = af.architecture("llama-12m").but(width=768, embedding={"vocab": 24_000, "kind": "tokens"})
    af.export(build(architecture), tmp_path / "model")
    done = subprocess.run([sys.executable, "-c", MEASURE, str(tmp_path / "model")], capture_output=True, text=True, check=True)
    assert float(done.stdout) <= 1.15
