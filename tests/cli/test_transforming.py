"""`anyformer transform`: from a checkpoint to a checkpoint that everything else reads."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file

import anyformer as af
from anyformer import checkpoint, transforming
from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer

TINY = {"decoder.layer.attention.head_width": 4}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A checkpoint of a tiny Llama over bytes with its tokenizer, and a text."""
    place = tmp_path_factory.mktemp("transform")
    tokenizer = make_tokenizer(Bytes(), lambda: iter(()), lambda: iter(()))
    model = af.build(af.architecture("llama-3-8b", tiny=True, changes=TINY), seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    checkpoint.save(model, place / "checkpoint", tokenizer=tokenizer, facts={"length": 96})
    (place / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 60)
    return place


def transformed(call, place, out, *options):
    shutil.rmtree(place / out, ignore_errors=True)
    result = call("transform", "checkpoint", "--out", out, *options, cwd=place)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_page_says_what_became_of_every_weight_and_what_to_do_next(call, place):
    said = transformed(
        call, place, "deeper", "--set", "decoder.order=layer*3", "--set", "decoder.layer.attention.kv_heads=1",
        "--pad-vocab", "64", "--data", "text.txt",
    )  # fmt: skip
    words = " ".join(said.split())
    assert "vocab of embedding: 288 -> 320" in words
    assert "layers of decoder come from 0 1 1" in words
    assert "rows 288 to 319 are the mean of the others" in words
    assert "the mean of every 2 heads; error 0." in words
    assert "0, so that the added layer adds nothing at first" in words
    assert "held-out text:" in words
    assert words.split("recovery")[1].count("anyformer train deeper") == 1
    assert max(map(len, said.split("A short recovery")[0].splitlines())) <= 80
    manifest = checkpoint.read_manifest(place / "deeper")
    assert manifest.facts["length"] == 96
    report = manifest.facts["transform"]
    assert report["layers"] == {"decoder": [0, 1, 1]}
    assert report["loss"]["before"] != report["loss"]["after"]
    assert {line["fate"] for line in report["lines"]} == {"kept", "copied", "approximated", "new"}
    new = sum(line["parameters"] for line in report["lines"] if line["fate"] != "dropped")
    assert new == sum(x.numel() for x in load_file(place / "deeper" / "model.safetensors").values())


def test_the_loss_is_that_of_the_text_in_windows(call, place):
    said = transformed(call, place, "same", "--pad-vocab", "64", "--data", "text.txt", "--json")
    report = json.loads(said)
    model, tokenizer = af.load(place / "checkpoint")
    tokens = torch.tensor(tokenizer.encode((place / "text.txt").read_text()))[: 1 + 8 * 256]
    losses = []
    for first in range(0, len(tokens) - 1, 256):
        window = tokens[first : first + 257]
        with torch.no_grad():
            logits = model(window[None, :-1])[0]
        losses.append(torch.nn.functional.cross_entropy(logits, window[1:], reduction="none"))
    direct = torch.cat(losses)
    assert report["loss"]["before"] == pytest.approx(float(direct.mean()), abs=0.02)
    # 32 new rows at the mean make the sum of exponentials larger by a factor of at most 1 + 32 / 288.
    assert 0 < report["loss"]["after"] - report["loss"]["before"] <= torch.tensor(1 + 32 / 288).log()


def test_generate_show_and_a_second_change_read_the_result(call, place):
    transformed(call, place, "grouped", "--set", "decoder.layer.attention.kv_heads=4")
    one, two = (
        call("generate", name, "the ", "--max-tokens", "8", "--temperature", "0", cwd=place).stdout
        for name in ("checkpoint", "grouped")
    )
    assert one == two
    assert call("show", "grouped", cwd=place).returncode == 0
    result = call("transform", "grouped", "--layers", "1", "--out", "again", cwd=place)
    assert result.returncode == 0, result.stderr
    assert af.architecture(place / "again").decoder.depth == 1
    shutil.rmtree(place / "again")


def test_it_goes_to_transformers_and_back(call, place):
    transformed(call, place, "pooled", "--set", "decoder.layer.attention.kv_heads=1", "--set", "embedding.vocab=260")
    shutil.rmtree(place / "exported", ignore_errors=True)
    assert call("export", "pooled", "exported", cwd=place).returncode == 0
    ours, _ = af.load(place / "pooled")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(place / "exported").eval()
    tokens = torch.randint(0, 257, (2, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits, atol=1e-5, rtol=1e-5)
    shutil.rmtree(place / "from_theirs", ignore_errors=True)
    result = call("transform", "exported", "--set", "decoder.layer.attention.kv_heads=4", "--out", "from_theirs", cwd=place)
    assert result.returncode == 0, result.stderr
    again, tokenizer = af.load(place / "from_theirs")
    assert tokenizer is not None
    with torch.no_grad():
        torch.testing.assert_close(again(tokens), ours(tokens), atol=1e-6, rtol=1e-6)


def test_a_latent_by_the_activations_of_a_text(call, place):
    latent = "{kind='latent_attention', heads=4, value_width=4, kv_rank=6, nope_width=4, rope_width=4, rotary={theta=500000.0}}"
    options = ("--set", f"decoder.layer.attention.sublayer={latent}", "--data", "text.txt", "--json")
    plain = json.loads(transformed(call, place, "latent", *options))
    found = json.loads(transformed(call, place, "latent", *options, "--calibrate", "text.txt"))
    errors = [{line["weight"]: line["error"] for line in each["lines"]} for each in (plain, found)]
    name = "decoder.attention.kv_down.weight"
    assert 0 < errors[1][name] != errors[0][name] > 0
    assert found["loss"]["before"] == plain["loss"]["before"]
    assert af.load(place / "latent")[0].architecture.decoder.variants["layer"].branches["attention"].sublayer.kv_rank == 6


def test_a_whole_target(call, place):
    target = af.architecture(place / "checkpoint", changes={"decoder.layer.feedforward.width": 32})
    (place / "wide.toml").write_text(str(target))
    said = transformed(call, place, "wide", "--to", "wide.toml")
    assert "differ by rounding alone" in " ".join(said.split())
    assert af.architecture(place / "wide") == target


WRONG = {
    "nothing": ((), "nothing changes"),
    "exists": (("--out", "checkpoint", "--pad-vocab", "64"), "checkpoint: exists"),
    "width": (("--set", "width=32"), "width: 16 -> 32"),
    "path": (("--set", "decoder.layer.attention.kv_head=1"), "did you mean"),
    "layers": (("--set", "decoder.order=layer*3", "--layers", "0,1,2"), "layer 2 is chosen, and the last of 2 is 1"),
    "layers alone": (("--layers", "0,1,2"), "layer 2 is chosen, and the last of 2 is 1"),
    "too few tokens": (("--set", "embedding.vocab=200"), "has 257 tokens"),
    "nothing to calibrate": (("--pad-vocab", "64", "--calibrate", "text.txt"), "leave --calibrate out"),
    "no text": (("--pad-vocab", "64", "--data", "absent.txt"), "absent.txt"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused_before_any_weight_is_read(case, call, place, tmp_path, monkeypatch):
    options, words = WRONG[case]
    monkeypatch.setattr(checkpoint.StoredTensors, "part", None)
    out = () if "--out" in options else ("--out", str(tmp_path / "out"))
    result = call("transform", "checkpoint", *out, *options, cwd=place)
    assert result.returncode == 2
    assert words in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_name_has_no_weights(call, place):
    result = call("transform", "gpt2", "--out", "never", "--set", "decoder.order=layer*2", cwd=place)
    assert result.returncode == 2
    assert "without weights" in result.stderr


def test_the_recovery_is_one_command():
    line = transforming.recovery("old model", "new", None)
    assert line.startswith("anyformer train new --data TEXT --set start_from=new")
    assert "'objective.teacher=old model'" in line
