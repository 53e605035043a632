"""What heads look for, counted in plain loops, and found in heads made by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from anyformer.catalogue import architecture
from anyformer.catalogue.llama import llama
from anyformer.describe import InputError, change_all
from anyformer.inspecting import attention_patterns, head_patterns, pattern_scores, pattern_table, repeated_tokens
from anyformer.inspecting.pictures import draw_patterns, layers_said
from anyformer.model.transformer import build


def naive(weights, tokens):
    """Score by score in plain loops."""
    B, H, T, _ = weights.shape
    found = {}
    for kind in ("previous", "duplicate", "induction", "first", "own"):
        sums, asked = np.zeros(H), 0
        for b in range(B):
            for t in range(T):
                keys = {
                    "previous": [t - 1] if t else [],
                    "duplicate": [s for s in range(t) if tokens[b, s] == tokens[b, t]],
                    "induction": [s + 1 for s in range(t) if tokens[b, s] == tokens[b, t]],
                    "first": [0] if t else [],
                    "own": [t],
                }[kind]
                asked += bool(keys)
                sums += sum((weights[b, :, t, s].numpy() for s in keys), np.zeros(H))
        found[kind] = sums / max(1, asked)
    return found


def test_scores_are_those_of_plain_loops():
    torch.manual_seed(0)
    weights, tokens = torch.rand(3, 2, 7, 7), torch.randint(4, (3, 7))
    found, twin = pattern_scores(weights, tokens), naive(weights, tokens)
    assert list(found) == list(twin)
    for kind, scores in found.items():
        assert np.allclose(scores.numpy(), twin[kind], atol=1e-6), kind
    assert not pattern_scores(weights, torch.arange(7).expand(3, 7))["induction"].any(), "nothing comes again"


@pytest.mark.parametrize("name", ["llama-2-7b", "gpt2", "gpt-oss-20b"])
def test_patterns_are_the_attention_that_the_model_computes(name):
    """Weights of each row sum to one, less what a sink takes, and see nothing later."""
    model = build(architecture(name, tiny=True), seed=0).eval()
    maps = attention_patterns(model, torch.arange(12).view(1, 12) % 9)
    assert len(maps) == model.architecture.output_stack.depth
    for weights in maps.values():
        assert weights.shape[2:] == (12, 12)
        assert not weights.triu(1).any()
        sums = weights.sum(-1)
        assert (sums < 1 + 1e-5).all()
        assert name == "gpt-oss-20b" or torch.allclose(sums, torch.ones_like(sums))


def test_heads_made_by_hand_have_their_scores():
    """A head whose queries and keys are 0 looks at all positions alike."""
    model = build(llama(width=8, depth=1, heads=1, kv_heads=1, ffn=8, vocab=4096, tied=True), seed=0).eval()
    attention = model.get_submodule("decoder.layers.0.attention.sublayer")
    with torch.no_grad():
        for parameter in (attention.query.weight, attention.key.weight):
            parameter.zero_()
    (uniform,) = head_patterns(model)
    alike = [1 / (place + 1) for place in range(50)]
    assert uniform.previous == pytest.approx(np.mean(alike[1:]), rel=1e-4)
    assert uniform.induction == pytest.approx(np.mean(alike[25:]), rel=0.05)
    assert uniform.duplicate == pytest.approx(np.mean(alike[25:]), rel=0.05)
    assert uniform.own == pytest.approx(np.mean(alike), rel=1e-4)
    assert (uniform.path, uniform.head) == ("decoder.layer[0].attention", 0)
    assert pattern_table([uniform]).row_count == 1
    with pytest.raises(InputError, match="did you mean 'induction'"):
        pattern_table([uniform], by="inductions")


def test_random_tokens_are_as_long_as_asked_and_none_comes_twice_in_a_half():
    model = build(llama(width=8, depth=1, heads=1, kv_heads=1, ffn=8, vocab=23, tied=True), seed=0).eval()
    tokens = repeated_tokens(model, length=19, without=(0, 1, 22))
    assert tokens.shape == (16, 18)
    assert torch.equal(tokens[:, :9], tokens[:, 9:])
    assert all(len(set(row)) == 9 and not {0, 1, 22} & set(row) for row in tokens[:, :9].tolist())
    assert len({tuple(row) for row in tokens.tolist()}) == 16
    assert {number for row in repeated_tokens(model, without=range(5)).tolist() for number in row} == set(range(5, 23))
    assert repeated_tokens(model).shape == (16, 50)
    short = change_all(architecture("gpt2", tiny=True), {"decoder.position.length": 12})
    assert repeated_tokens(build(short)).shape == (16, 12), "no longer than its table of positions"
    with pytest.raises(InputError, match="no token is left to draw"):
        repeated_tokens(model, without=range(23))


def test_a_model_without_attention_has_no_pattern():
    model = build(architecture("mamba-130m", tiny=True), seed=0)
    with pytest.raises(InputError, match="this model has no attention"):
        attention_patterns(model, torch.arange(4)[None])


def test_later_predictions_are_left_out_and_features_refused():
    from zoo import ZOO

    from anyformer.testing.inputs import inputs

    name = "later_tokens_by_modules"
    model = build(ZOO[name], seed=0).eval()
    assert all(path.startswith("decoder.") for path in attention_patterns(model, *inputs(ZOO[name])))
    with pytest.raises(InputError, match="this model reads none"):
        head_patterns(build(ZOO["vision"], seed=0).eval(), *inputs(ZOO["vision"]))


def test_a_picture_of_patterns_says_layers_heads_axes_and_scale(tmp_path):
    maps = {f"decoder.layer[{number}].attention.weights": torch.eye(3).expand(1, 2, 3, 3) for number in range(2)}
    draw_patterns(maps, ["x", "y", "z"], tmp_path / "patterns.svg", title="attention")
    drawn = re.findall(r"<!-- (.+?) -->", (tmp_path / "patterns.svg").read_text(encoding="utf-8"))
    assert [text for text in drawn if "head" in text] == [f"layer {n}, head {h}" for n in range(2) for h in range(2)]
    assert (drawn.count("query"), drawn.count("key"), drawn.count("attention weight")) == (4, 4, 1)


def test_layers_of_several_stacks_and_branches_are_told_apart():
    paths = ["encoder.layer[0].attention.weights", "decoder.local[1].cross_attention.weights", "odd"]
    assert list(layers_said(paths).values()) == ["encoder layer 0, attention", "decoder local 1, cross attention", "odd"]
