"""Scores of edges: exact where a model is linear, the slopes of a model written out, and near the truth of a call per edge."""

from __future__ import annotations

import pytest
import torch
from tests.inspecting.plain_circuit import CLEAN, CORRUPTED, given_by, model_of, plain_call, written_out

from anyformer.describe import InputError, Named
from anyformer.inspecting import LogitDifference, find_circuit, score_edges
from anyformer.inspecting.graph import INPUT, OUTPUT
from anyformer.model import decoder_only
from anyformer.model.transformer import build
from anyformer.parts import Attention, Block, Branch, Embedding, FeedForward, Head, Step

METRIC = LogitDifference([2, 1], [3, 2])
WAYS = ("cut", "gradient", "integrated")


@pytest.fixture(scope="module")
def model():
    """Hardly linear: matrices are large."""
    return model_of(8).double()


def cut_of(edge):
    return {(edge.sender, edge.to)}


def test_a_cut_is_that_of_a_model_written_out(model):
    found = score_edges(model, CLEAN, CORRUPTED, METRIC, way="cut").scores
    with torch.no_grad():
        before = METRIC(model(CLEAN)).mean()
        for edge, score in found.items():
            assert score == pytest.approx(
                float(METRIC(written_out(model, CLEAN, CORRUPTED, cut_of(edge))).mean() - before), abs=1e-9
            )


@pytest.mark.parametrize(("way", "points"), [("gradient", [1.0]), ("integrated", [0.2, 0.4, 0.6, 0.8, 1.0])])
@pytest.mark.parametrize("by_input", [True, False])
def test_an_estimate_is_the_slope_of_a_model_written_out(model, way, points, by_input):
    """The derivative by a share of the way that what goes over one edge moves to the other prompt's, at points between both."""
    found = score_edges(model, CLEAN, CORRUPTED, METRIC, way=way, by_input=by_input).scores
    with torch.no_grad():
        own, other = given_by(model, CLEAN), given_by(model, CORRUPTED)
    change = {name: other[name] - own[name] for name in own}
    for edge, score in list(found.items())[:: len(points)]:
        slopes = []
        for point in points:
            s, entering = torch.zeros((), requires_grad=True), other[INPUT] + point * (own[INPUT] - other[INPUT])
            logits = plain_call(model, entering, cut_of(edge), lambda name, value, s=s: value + s * change[name])[1]
            slopes.append(float(torch.autograd.grad(METRIC(logits).mean(), s)[0]))
        assert score == pytest.approx(sum(slopes) / len(slopes), rel=1e-3, abs=1e-4), edge
    assert max(map(abs, found.values())) > 0.1


def test_estimates_are_exact_where_a_model_is_linear():
    """Networks whose every feature is positive, and heads that look at all before alike, mix linearly; half of it is added."""
    sublayers = Attention(heads=2, kv_heads=2, head_width=4), FeedForward(width=8, activation="relu", gated=False)
    steps = [Step(branches=Named({each.called: Branch(sublayer=each, multiplier=0.5)})) for each in sublayers]
    blocks = [Block(steps=tuple(steps))]
    linear = build(decoder_only(Embedding(vocab=4), 8, blocks * 2, final_norm=None, head=Head()), seed=0).double().eval()
    with torch.no_grad():
        for name, weight in linear.named_parameters():
            if name.endswith(("query.weight", "key.weight")):
                weight.zero_()
            elif "head" not in name:
                weight.copy_(weight.abs() * 20)
    for by_head, by_input in ((True, True), (True, False), (False, False)):
        found = {
            way: score_edges(linear, CLEAN, CORRUPTED, METRIC, way=way, by_head=by_head, by_input=by_input).scores
            for way in WAYS
        }
        for edge, truth in found["cut"].items():
            assert found["gradient"][edge] == pytest.approx(truth, abs=1e-9)
            assert found["integrated"][edge] == pytest.approx(truth, abs=1e-9)
        assert sum(abs(score) > 1e-3 for score in found["cut"].values()) > 8


def ranks(values):
    return torch.tensor(values).argsort().argsort().double()


@pytest.mark.parametrize("way", ["gradient", "integrated"])
def test_estimates_agree_with_the_truth_in_sign_and_rank(way):
    nearly = model_of(3).double()
    truth = score_edges(nearly, CLEAN, CORRUPTED, METRIC, way="cut").scores
    found = score_edges(nearly, CLEAN, CORRUPTED, METRIC, way=way).scores
    largest = sorted(truth, key=lambda edge: -abs(truth[edge]))[:10]
    assert all(truth[edge] * found[edge] > 0 for edge in largest)
    assert torch.corrcoef(torch.stack([ranks(list(each.values())) for each in (truth, found)]))[0, 1] > 0.9


@pytest.mark.parametrize("way", WAYS)
def test_a_circuit_is_of_the_largest_scores_that_are_heard(model, way):
    scores = score_edges(model, CLEAN, CORRUPTED, METRIC, way=way)
    found = scores.circuit(size=9)
    assert len(found.edges) == 9
    assert (found.scored, found.considered) == (way, len(scores.scores))
    kept, inside = dict(found.edges), {OUTPUT, *(edge.sender for edge, _ in found.edges)}
    assert all(edge.receiver in inside for edge in kept), "what is kept is heard"
    left = [edge for edge in scores.scores if edge.receiver in inside and edge not in kept and edge.receiver == OUTPUT]
    assert all(abs(scores.scores[edge]) <= max(abs(score) for score in kept.values()) for edge in left)
    assert found.threshold == min(abs(score) for score in kept.values())
    again = scores.circuit(threshold=found.threshold)
    assert {edge for edge, _ in again.edges} >= set(kept)
    cut = {(edge.sender, edge.to) for edge in scores.scores if edge not in kept}
    with torch.no_grad():
        whole, alone = model(CLEAN)[:, -1].log_softmax(-1), written_out(model, CLEAN, CORRUPTED, cut)[:, -1].log_softmax(-1)
    assert found.divergence == pytest.approx(float((whole.exp() * (whole - alone)).sum(-1).mean()), abs=1e-6)
    assert found.table().columns[-1].header.plain == f"score ({way})"


def test_all_edges_are_faithful_and_none_is_empty(model):
    scores = score_edges(model, CLEAN, CORRUPTED, METRIC)
    assert scores.circuit(size=len(scores.scores)).faithfulness(model, CLEAN, CORRUPTED, METRIC) == pytest.approx(1)
    none = scores.circuit(size=0)
    assert (none.edges, none.threshold) == ((), 0)
    assert none.divergence == pytest.approx(none.empty)
    assert scores.table(most=3).row_count == 3
    assert find_circuit(model, CLEAN, CORRUPTED, threshold=0.01).scored == ""


def test_what_cannot_be_is_refused(model):
    with pytest.raises(InputError, match="no way 'gradients' of scoring edges; did you mean 'gradient'"):
        score_edges(model, CLEAN, CORRUPTED, METRIC, way="gradients")
    with pytest.raises(InputError, match="no gradient passes this metric"):
        score_edges(model, CLEAN, CORRUPTED, lambda logits: logits[:, -1].argmax(-1).double())
    scores = score_edges(model, CLEAN, CORRUPTED, METRIC, way="gradient")
    for wrong in ({}, {"size": 3, "threshold": 0.1}):
        with pytest.raises(InputError, match="give one of both"):
            scores.circuit(**wrong)
    with pytest.raises(InputError, match="a circuit of 1000 edges: there are 46, so give 0 to 46"):
        scores.circuit(size=1000)
