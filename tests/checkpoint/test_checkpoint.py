"""Checkpoints: whole or not at all, verified before use, named when damaged."""

from __future__ import annotations

import json
import os
import random
import sys
from dataclasses import replace

import pytest
import torch
from zoo import ZOO

from anyformer import checkpoint
from anyformer.checkpoint import CheckpointError, Piece
from anyformer.checkpoint.digests import shares_by_size
from anyformer.checkpoint.history import kept
from anyformer.checkpoint.manifest import MANIFEST, ManifestEntry, writing
from anyformer.checkpoint.model import check
from anyformer.files import sha256
from anyformer.loading import load
from anyformer.model.adapters import adapt
from anyformer.model.transformer import build
from anyformer.tuning import Lora


@pytest.fixture
def saved(tmp_path):
    model = build(ZOO["head_options"], seed=3)
    checkpoint.save(model, tmp_path / "point", facts={"step": 7})
    return tmp_path / "point", model


@pytest.mark.parametrize("name", ["head_options", "original", "encoder_features"])
def test_what_was_saved_is_what_loads(tmp_path, name):
    model = build(ZOO[name], seed=1)
    checkpoint.save(model, tmp_path / "x")
    loaded, tokenizer = load(tmp_path / "x")
    assert tokenizer is None
    assert loaded.architecture == model.architecture
    for (n, a), (m, b) in zip(model.named_parameters(), loaded.named_parameters(), strict=True):
        assert n == m
        assert torch.equal(a, b)
        assert b.requires_grad


def test_types_are_kept_or_converted(tmp_path):
    checkpoint.save(build(ZOO["llama"], dtype=torch.bfloat16), tmp_path / "x")
    assert load(tmp_path / "x")[0].embedding.weight.dtype == torch.bfloat16
    assert load(tmp_path / "x", dtype=torch.float32)[0].embedding.weight.dtype == torch.float32
    with pytest.raises(TypeError, match="positional argument"):  # not taken for a plan or a device
        checkpoint.load(tmp_path / "x", torch.float32)


def test_flips_and_cuts_are_always_found_and_named(saved):
    directory, _ = saved
    names = sorted(path.name for path in directory.iterdir() if path.name != MANIFEST)
    chance = random.Random(0)
    for trial in range(60):
        path = directory / names[trial % len(names)]
        good = path.read_bytes()
        bad = bytearray(good)
        if trial % 3 == 0:
            bad = bad[: chance.randrange(len(bad))]
        else:
            bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(bad))
        with pytest.raises(CheckpointError, match=path.name):
            load(directory)
        path.write_bytes(good)
    assert load(directory)


def test_every_damaged_file_is_named_with_a_remedy(saved):
    directory, _ = saved
    (directory / "architecture.json").unlink()
    weights = directory / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(CheckpointError) as refused:
        load(directory)
    said = f"{directory / 'architecture.json'}: missing; {weights}: truncated or grown"
    assert said in str(refused.value)
    assert "restore it from a copy, or take an older checkpoint" in str(refused.value)


@pytest.mark.parametrize("count", [1, 3, 20])
def test_shares_of_files_are_all_of_them_and_as_large_as_can_be(count):
    sizes = (90, 50, 40, 30, 30, 1, 0)
    files = {str(i): ManifestEntry(size, "") for i, size in enumerate(sizes)}
    shares = shares_by_size(files, count)
    assert sorted(name for share in shares for name in share) == sorted(files)
    assert len(shares) == count
    largest = max(sum(entry.bytes for entry in share.values()) for share in shares)
    assert largest == {1: 241, 3: 90, 20: 90}[count]


def test_a_missing_file_and_a_damaged_manifest_are_named(saved):
    directory, _ = saved
    (directory / "model.safetensors").rename(directory / "elsewhere")
    with pytest.raises(CheckpointError, match=r"model\.safetensors: missing"):
        load(directory)
    (directory / MANIFEST).write_text('{"format": 1')
    with pytest.raises(CheckpointError, match=r"manifest\.json: damaged"):
        load(directory)
    (directory / MANIFEST).write_text('{"format": 99, "facts": {}, "files": {}}')
    with pytest.raises(CheckpointError, match="format 99"):
        load(directory)


def unsealed(text: str) -> dict:
    """A manifest of the older format, which has no digest of its own."""
    data = json.loads(text)
    del data["sha256"]
    return data | {"format": 1}


def test_weights_of_another_architecture_are_refused(saved):
    directory, _ = saved
    text = (directory / "architecture.json").read_text().replace('"vocab": 37', '"vocab": 38')
    (directory / "architecture.json").write_text(text)
    manifest = unsealed((directory / MANIFEST).read_text())
    manifest["files"]["architecture.json"] = {
        "bytes": len(text.encode()),
        "sha256": sha256(directory / "architecture.json"),
    }
    (directory / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match=r"embedding\.weight has shape \(37, 24\), the architecture says \(38, 24\)"):
        load(directory)


def test_weights_without_a_name_or_with_one_too_many_are_told(saved):
    directory, model = saved
    names = sorted(name for name, _ in model.named_parameters())
    tensors = {name: weight for name, weight in model.named_parameters() if name not in names[:6]}
    tensors |= {f"other.{letter}": torch.zeros(1) for letter in "abcdef"}
    with pytest.raises(CheckpointError) as refused:
        check(model, tensors, directory)
    surplus = [f"other.{letter}" for letter in "abcde"]
    assert str(refused.value) == (
        f"{directory}: does not hold this architecture's weights; missing {names[:5]}, surplus {surplus}"
    )


def test_a_crash_while_writing_leaves_nothing_behind(tmp_path):
    target = tmp_path / "point"

    def crash():
        with writing(target) as partial:
            (partial / "half").write_text("x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        crash()
    assert list(tmp_path.iterdir()) == []


def test_a_stale_partial_is_swept_and_never_read(tmp_path):
    model = build(ZOO["llama"])
    stale = tmp_path / "checkpoints" / ".step-00000003.partial-123"
    stale.mkdir(parents=True)
    assert checkpoint.steps(tmp_path) == []
    checkpoint.save(model, checkpoint.directory_of(tmp_path, 3), facts={"step": 3})
    assert not stale.exists()
    assert checkpoint.steps(tmp_path) == [3]


def test_the_latest_whole_one_is_found_and_the_damaged_named(tmp_path):
    model = build(ZOO["llama"])
    for step in (1, 2, 3):
        checkpoint.save(
            model, checkpoint.directory_of(tmp_path, step), facts={"step": step, "validation_loss": abs(step - 1.9)}
        )
    broken = checkpoint.directory_of(tmp_path, 3) / "model.safetensors"
    broken.write_bytes(broken.read_bytes()[:-5])
    found, damaged = checkpoint.latest(tmp_path)
    assert found == checkpoint.directory_of(tmp_path, 2)
    assert len(damaged) == 1
    assert "truncated" in damaged[0]
    assert checkpoint.best(tmp_path) == checkpoint.directory_of(tmp_path, 2)


def test_pruning_keeps_the_last_and_the_best(tmp_path):
    model = build(ZOO["llama"])
    for step, loss in ((1, 3.0), (2, 1.0), (3, 2.0), (4, 2.5), (5, None)):
        checkpoint.save(model, checkpoint.directory_of(tmp_path, step), facts={"step": step, "validation_loss": loss})
    checkpoint.prune(tmp_path, keep=2)
    assert checkpoint.steps(tmp_path) == [2, 4, 5]


def test_multiples_are_kept_for_ever_beside_the_last_and_the_best():
    losses = {0: None, 2: None, 4: 1.0, 5: 3.0, 6: 2.0, 8: None, 9: 2.5, 10: None}
    assert kept(losses, 1) == {4, 10}
    assert kept(losses, 2, every=3) == {4, 6, 9, 10}
    assert kept(losses, 1, every=4, also=5) == {4, 5, 8, 10}
    assert kept({}, 3, every=2) == set()


def test_a_place_without_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no such directory"):
        load(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"holds no weights.*manifest\.json"):
        load(tmp_path)


def wrong(change):
    """A manifest changed in one place, that only its structure gives away."""

    def apply(text: str) -> str:
        data = unsealed(text)
        change(data)
        return json.dumps(data)

    return apply


def rename(entry, old, new):
    entry[new] = entry.pop(old)


WRONG = {
    "a key of an entry": wrong(lambda data: rename(data["files"]["model.safetensors"], "sha256", "sha25")),
    "the other key of an entry": wrong(lambda data: rename(data["files"]["model.safetensors"], "bytes", "byte")),
    "no files": wrong(lambda data: data.update(files=None)),
    "no facts": wrong(lambda data: data.update(facts=None)),
    "a loss in words": wrong(lambda data: data["facts"].update(validation_loss="abc")),
    "a step in words": wrong(lambda data: data["facts"].update(step="abc")),
    "a step below zero": wrong(lambda data: data["facts"].update(step=-1)),
    "weights that are not listed": wrong(lambda data: data["files"].pop("model.safetensors")),
    "a file elsewhere": wrong(lambda data: rename(data["files"], "architecture.json", "../architecture.json")),
    "an optimiser that is not listed": wrong(lambda data: data["files"].pop("optimiser.safetensors")),
    "an older format with a digest": lambda text: json.dumps(json.loads(text) | {"format": 1}),
    "no digest of its own": lambda text: json.dumps(unsealed(text) | {"format": 2}),
    "one figure": lambda text: text.replace('"step": 2', '"step": 3'),
    "no table": lambda text: "[]",
    "deep nesting": lambda text: "[" * 100_000,
}


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A run's directory with two checkpoints."""
    place, model = tmp_path_factory.mktemp("two"), build(ZOO["llama"])
    for step in (1, 2):
        facts = {"step": step, "validation_loss": 2.0 + step}
        extra = {"optimiser": {"x": torch.ones(2)}}
        checkpoint.save(model, checkpoint.directory_of(place, step), facts=facts, extra=extra)
    return place


@pytest.mark.parametrize("damage", WRONG)
def test_a_damaged_manifest_makes_way_for_the_older_checkpoint(two, damage):
    path = checkpoint.directory_of(two, 2) / MANIFEST
    good = path.read_text()
    path.write_text(WRONG[damage](good))
    try:
        found, damaged = checkpoint.latest(two, also=("optimiser.safetensors",))
        assert found == checkpoint.directory_of(two, 1)
        assert str(path) in damaged[0]
        assert checkpoint.best(two) == checkpoint.directory_of(two, 1)
    finally:
        path.write_text(good)
    assert checkpoint.latest(two)[0] == checkpoint.directory_of(two, 2)


def test_a_manifest_of_the_older_format_is_read(saved):
    directory, _ = saved
    path = directory / MANIFEST
    path.write_text(json.dumps(unsealed(path.read_text())))
    assert checkpoint.verify(directory).facts["step"] == 7
    checkpoint.add_facts(directory, validation_loss=1.5)
    assert json.loads(path.read_text())["format"] == 2


def test_what_does_not_verify_is_set_aside_and_no_longer_counts(tmp_path):
    model = build(ZOO["llama"])
    for step in (1, 2, 3):
        checkpoint.save(model, checkpoint.directory_of(tmp_path, step), facts={"step": step})
    (checkpoint.directory_of(tmp_path, 3) / MANIFEST).unlink()
    aside = checkpoint.set_aside(tmp_path, after=2)
    assert [path.name for path in aside] == ["damaged-step-00000003"]
    assert aside[0].is_dir()
    checkpoint.prune(tmp_path, keep=1)
    assert checkpoint.steps(tmp_path) == [2], "of a whole one and a damaged one the whole one is kept"


def test_facts_are_added_whole_or_not_at_all(saved):
    directory, _ = saved
    checkpoint.add_facts(directory, validation_loss=1.5)
    assert checkpoint.read_manifest(directory).facts == {"kind": "anyformer", "step": 7, "validation_loss": 1.5}
    assert checkpoint.verify(directory).validation_loss == 1.5
    assert not list(directory.glob(".*"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="which file a handle is, only Linux tells")
def test_all_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """Every file, then the directory that names them, then the rename, then the directory that has the new name."""
    done = []
    real, rename_ = os.fsync, type(tmp_path).rename
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append(os.readlink(f"/proc/self/fd/{handle}")), real(handle)))
    monkeypatch.setattr(type(tmp_path), "rename", lambda path, to: (done.append("rename"), rename_(path, to))[1])
    checkpoint.save(build(ZOO["llama"]), tmp_path / "point")
    at = done.index("rename")
    partial = os.path.dirname(done[0])
    written = {os.path.basename(path) for path in done[: at - 1]}
    assert written == {"model.safetensors", "architecture.json", MANIFEST}
    assert done[at - 1] == partial
    assert os.path.basename(partial).startswith(".point.partial-")
    assert done[at + 1 :] == [str(tmp_path)]


def test_weights_that_are_not_finite_are_named_wherever_they_are_read(saved):
    directory, model = saved
    with torch.no_grad():
        model.embedding.weight[1, 0] = torch.nan
    checkpoint.save(model, directory)
    said = r"model\.safetensors: embedding\.weight: not finite, 1 of \d+ numbers, the first nan at \[1, 0\]"
    with pytest.raises(CheckpointError, match=said):
        load(directory)
    with pytest.raises(CheckpointError, match=said):
        checkpoint.restore(build(model.architecture), directory)


@pytest.mark.parametrize("change", ["other", "more", "fewer", "shape"])
def test_an_adapter_whose_names_are_not_those_of_the_model_is_refused(tmp_path, change):
    """One that matched nothing was ignored in silence: the model without it was loaded."""
    model = build(ZOO["llama"], seed=3)
    adapt(model, Lora(rank=2, targets=("*.query",)), 0)
    whole = checkpoint.contents(model)
    own = dict(whole.tensors["adapter.safetensors"])
    first = next(iter(own))
    match change:
        case "other":
            own = {name.replace("decoder", "encoder"): x for name, x in own.items()}
        case "more":
            own["decoder.layers.9.strange.adapter_up"] = Piece.whole(own[first].values.clone())
        case "fewer":
            del own[first]
        case "shape":
            own[first] = Piece.whole(own[first].values[:1].clone())
    checkpoint.write(replace(whole, tensors={**whole.tensors, "adapter.safetensors": own}), tmp_path / "point")
    with pytest.raises(CheckpointError, match=r"adapter\.safetensors: .*(this adapter's weights; missing|the adapter says)"):
        load(tmp_path / "point")
