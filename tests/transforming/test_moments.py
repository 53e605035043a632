"""Activations say which components of keys and values matter."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import anyformer as af
from anyformer.data import Bytes, Text, prepare
from anyformer.transforming import TransformError, moments_of, performed, planned
from transforming.changed import tiny, trained

PATH = "decoder.layer.attention.sublayer"
LATENT = {"kind": "latent_attention", "heads": 4, "value_width": 4, "kv_rank": 5, "nope_width": 2, "rope_width": 2}
NAMES = [f"decoder.layers.{i}.attention.sublayer" for i in range(2)]


@pytest.fixture(scope="module")
def model():
    """A model without rotation, whose attention may go through a latent."""
    return trained(tiny("llama-2-7b", decoder__layer__attention__rotary=None))


def changed(model, **fields):
    return planned(model.architecture, af.architecture(model.architecture, changes={PATH: {**LATENT, **fields}}))


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_text("the quick brown fox jumps over the lazy dog. " * 40)
    return prepare(Text(paths=(str(path),), tokenizer=Bytes(), validation=0.0), progress=False).train


def test_moments_are_those_of_the_inputs(model, text):
    found = moments_of(model, changed(model), text)
    assert set(found) == set(NAMES)
    tokens = torch.from_numpy(np.array(text.tokens[: len(text)]).astype(np.int64))
    whole = len(tokens) - 1
    with torch.no_grad():
        branch = model.decoder.layers[0].attention
        x = branch.norm_before(model.embedding(tokens[:whole])[None])[0].double()
    torch.testing.assert_close(found[NAMES[0]], x.T @ x / whole, rtol=1e-5, atol=1e-6)
    assert not model.decoder.layers[0].attention.sublayer._forward_pre_hooks, "the hooks are gone"


def test_equal_variances_are_what_the_weights_alone_say(model):
    transformation = changed(model, q_rank=7)
    plain, same = performed(model, transformation), performed(model, transformation, dict.fromkeys(NAMES, 3.0 * torch.eye(16)))
    assert [line.error for line in plain[1].lines] == pytest.approx([line.error for line in same[1].lines])
    for layer in range(2):
        one, two = (made.decoder.layers[layer].attention.sublayer for made, _ in (plain, same))
        for up, down in (("value_up", "kv_down"), ("key_up", "kv_down"), ("query_up", "query_down")):
            products = [part.get_submodule(up).weight @ part.get_submodule(down).weight for part in (one, two)]
            if up != "key_up":  # the bases of a head's few features may differ in signs, and keys with them
                torch.testing.assert_close(products[0].abs(), products[1].abs(), rtol=1e-3, atol=1e-4)


def test_no_latent_of_that_rank_is_nearer_on_the_activations(model):
    """Of keys and values x W^T of many inputs x, the error is that of the last singular values."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 16)) * np.geomspace(10, 0.01, 16) @ rng.normal(size=(16, 16))
    transformation = changed(model, nope_width=4)
    moments = torch.from_numpy(x.T @ x / len(x))
    made, report = performed(model, transformation, dict.fromkeys(NAMES, moments))
    worst, rough = {"key_up": 0.0, "value_up": 0.0}, 0.0
    plain, _ = performed(model, transformation)
    for layer in range(2):
        old = model.decoder.layers[layer].attention.sublayer
        key, value = (x @ each.weight.detach().double().numpy().T for each in (old.key, old.value))
        balance = np.linalg.norm(key) / np.linalg.norm(value)
        least = np.linalg.norm(np.linalg.svd(np.hstack([key / balance, value]), compute_uv=False)[5:])
        for model_made, exact in ((made, True), (plain, False)):
            part = model_made.decoder.layers[layer].attention.sublayer
            down, up_k, up_v = (each.weight.detach().double().numpy() for each in (part.kv_down, part.key_up, part.value_up))
            gaps = x @ down.T @ up_k.T - key, x @ down.T @ up_v.T - value
            whole = np.linalg.norm(np.hstack([gaps[0] / balance, gaps[1]]))
            if exact:
                assert whole == pytest.approx(least, rel=1e-4)
                for name, gap, wanted in zip(worst, gaps, (key, value), strict=True):
                    worst[name] = max(worst[name], np.linalg.norm(gap) / np.linalg.norm(wanted))
            else:
                rough = max(rough, whole / least)
    found = {line.weight.split(".")[2]: line.error for line in report.lines if line.fate == "approximated"}
    assert {name: found[name] for name in worst} == pytest.approx(worst, rel=1e-3)
    assert rough > 1.5, "the weights alone choose worse"


def test_a_head_of_fewer_features_keeps_the_products_of_the_activations(model):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 16)) * np.geomspace(3, 0.1, 16) @ rng.normal(size=(16, 16))
    made, _ = performed(model, changed(model, kv_rank=16), dict.fromkeys(NAMES, torch.from_numpy(x.T @ x / len(x))))
    old, new = (each.decoder.layers[0].attention.sublayer for each in (model, made))
    query, key, up, down, key_up = (
        each.weight.detach().double().numpy() for each in (old.query, old.key, new.query_up, new.kv_down, new.key_up)
    )
    for head in range(4):
        rows = slice(head * 4, head * 4 + 4)
        wanted = (x @ query[rows].T) @ (x @ key[rows].T).T * old.sizes.scale
        got = (x @ up.reshape(4, 4, 16)[head, :2].T) @ (x @ down.T @ key_up.reshape(4, 2, 16)[head].T).T * new.scale
        least = np.linalg.norm(np.linalg.svd(wanted, compute_uv=False)[2:])
        assert np.linalg.norm(got - wanted) == pytest.approx(least, rel=1e-3)


def test_a_change_that_reads_no_activations_says_so(model, text):
    transformation = planned(model.architecture, af.architecture(model.architecture, changes={"embedding.vocab": 300}))
    with pytest.raises(TransformError, match="leave --calibrate out"):
        moments_of(model, transformation, text)
