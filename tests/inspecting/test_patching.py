"""Patching and ablations: places one by one as a plain loop has them, whole values exactly, estimates true to first order."""

from __future__ import annotations

import pytest
import torch

from anyformer.catalogue import architecture
from anyformer.catalogue.llama import llama
from anyformer.describe import InputError
from anyformer.inspecting import (
    CallInputs,
    LogitDifference,
    LogProbability,
    TokenLogit,
    ablation,
    activation_patching,
    attribution_patching,
    draw_patching,
    logit_lens,
    steering_vector,
    streams,
    tuned_lens,
    writers,
)
from anyformer.inspecting.sweep import cells
from anyformer.model.transformer import build

CLEAN = torch.tensor([[1, 5, 2, 7, 3], [4, 4, 6, 1, 2]])
CORRUPTED = torch.tensor([[1, 6, 2, 7, 3], [4, 3, 6, 1, 2]])
METRIC = LogitDifference(torch.tensor([3, 5]), torch.tensor([2, 8]))
HEADS = "decoder.layer[0].attention.heads"
LAST = "decoder.layer[1].output"


@pytest.fixture(scope="module")
def model():
    return build(llama(width=16, depth=2, heads=2, kv_heads=1, ffn=24, vocab=23), seed=3).eval()


def test_metrics_are_read_at_their_position():
    logits = torch.randn(2, 3, 5)
    assert torch.equal(
        LogitDifference(torch.tensor([1, 2]), torch.tensor([3]), 0)(logits), logits[[0, 1], 0, [1, 2]] - logits[:, 0, 3]
    )
    assert torch.equal(TokenLogit(torch.tensor([4]))(logits), logits[:, -1, 4])
    assert torch.allclose(LogProbability(torch.tensor([4]))(logits), logits[:, -1].softmax(-1)[:, 4].log())
    with pytest.raises(InputError, match="a metric names 3 tokens and there are 2 rows"):
        TokenLogit(torch.tensor([1, 2, 3]))(logits)
    assert torch.equal(LogitDifference(3, [4, 1])(logits), logits[:, -1, 3] - logits[[0, 1], -1, [4, 1]])
    assert torch.equal(TokenLogit(torch.tensor(2))(logits), logits[:, -1, 2])
    for make in (lambda: LogitDifference("Mary", 3), lambda: LogProbability([1.5]), lambda: TokenLogit(torch.rand(2))):
        with pytest.raises(InputError, match="a metric names tokens by their numbers, got"):
            make()


def test_every_place_is_that_of_a_plain_loop(model, tmp_path):
    found = activation_patching(model, CLEAN, CORRUPTED, METRIC, [HEADS], by="HT")
    assert found.changed[HEADS].shape == (2, 5, 2)
    with torch.no_grad():
        with model.watch(HEADS) as seen:
            assert torch.allclose(METRIC(model(CLEAN)), found.goal_B)
        value = seen[HEADS].clone()
        assert torch.allclose(METRIC(model(CORRUPTED)), found.start_B)
        for head in range(2):
            for place in range(5):

                def swap(own, head=head, place=place):
                    own = own.clone()
                    own[:, place, head] = value[:, place, head]
                    return own

                with model.patch(HEADS, swap):
                    assert torch.allclose(METRIC(model(CORRUPTED)), found.changed[HEADS][head, place], atol=1e-5)
    assert torch.allclose(
        found.restored(HEADS), (found.changed[HEADS] - found.start_B).mean(-1) / (found.goal_B - found.start_B).mean()
    )
    assert found.table(most=4).row_count == 4
    assert str(found.table(most=4).title).endswith(f"values, 4 of {int((found.restored(HEADS).abs() >= 5e-5).sum())}")
    with pytest.raises(InputError, match="these are by 'HT': patch by 'T' or by 'H'"):
        draw_patching(found, [], tmp_path / "grid.png", title="grid")


def test_paths_are_named_as_watch_names_them(model):
    both = [f"decoder.layer[{layer}].output" for layer in range(2)]
    for given, wanted in ((["decoder.layer[*].output"], both), (["decoder.layer[-1].output"], both[1:])):
        for each in (activation_patching, attribution_patching):
            assert list(each(model, CLEAN, CORRUPTED, METRIC, given).changed) == wanted
        assert list(ablation(model, CLEAN, METRIC, given).changed) == wanted
        assert logit_lens(model, CLEAN, given).paths == (*wanted, "head.logits")
        assert tuned_lens(model, [CLEAN], given).paths == tuple(wanted)
    assert steering_vector(model, "decoder.layer[-1].output", CLEAN, CORRUPTED).path == both[1]
    with pytest.raises(InputError, match=r"a steering vector is of one path, and .* names 2"):
        steering_vector(model, "decoder.layer[*].output", CLEAN, CORRUPTED)
    for asked in (
        lambda path: activation_patching(model, CLEAN, CORRUPTED, METRIC, [path]),
        lambda path: logit_lens(model, CLEAN, [path]),
        lambda path: steering_vector(model, path, CLEAN, CORRUPTED),
    ):
        with pytest.raises(InputError, match=r"nothing of this model is called .*did you mean"):
            asked("decoder.layer[0].outputs")


def test_a_stream_carries_all_of_the_answer(model):
    whole = activation_patching(model, CLEAN, CORRUPTED, METRIC, by="")
    for path in streams(model):
        assert float(whole.restored(path)) == pytest.approx(1, abs=1e-4)
    placed = activation_patching(model, CLEAN, CORRUPTED, METRIC)
    assert torch.allclose(placed.restored(LAST), torch.tensor([0, 0, 0, 0, 1.0]), atol=1e-4)
    first = placed.restored(streams(model)[0])
    assert torch.allclose(first[[0, 2, 3, 4]], torch.zeros(4), atol=1e-5), "these tokens are the same in both"
    assert float(first[1]) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("by", ["T", ""])
def test_an_estimate_is_exact_where_the_metric_is_linear(model, by):
    """The metric is a difference of logits, so that of the logits themselves it is what patching gives."""
    grids = [
        each(model, CLEAN, CORRUPTED, METRIC, ["head.logits"], by=by) for each in (activation_patching, attribution_patching)
    ]
    assert torch.allclose(grids[0].changed["head.logits"], grids[1].changed["head.logits"], atol=1e-5)
    assert grids[1].estimated


def test_an_estimate_is_the_slope_of_small_steps(model):
    paths = [streams(model)[0], HEADS, "decoder.layer[0].feedforward.output"]
    guessed = attribution_patching(model, CLEAN, CORRUPTED, METRIC, paths, by="")
    step = 1e-3
    with torch.no_grad(), model.watch(*paths) as seen:
        model(CLEAN)
        clean = {path: seen[path].clone() for path in paths}
        for path in paths:
            ends = []
            for side in (step, -step):
                with model.patch(path, lambda value, path=path, side=side: value + side * (clean[path] - value)):
                    ends.append(METRIC(model(CORRUPTED)))
            slope = (ends[0] - ends[1]) / (2 * step)
            assert torch.allclose(slope, guessed.changed[path] - guessed.start_B, rtol=0.02, atol=2e-3), path
    by_head = attribution_patching(model, CLEAN, CORRUPTED, METRIC, [HEADS], by="H").changed[HEADS]
    assert torch.allclose((by_head - guessed.start_B).sum(0), guessed.changed[HEADS] - guessed.start_B, atol=1e-5)
    both = attribution_patching(model, CLEAN, CORRUPTED, METRIC, [HEADS], by="HT").changed[HEADS]
    assert torch.allclose((both - guessed.start_B).sum(1), by_head - guessed.start_B, atol=1e-5)


def test_a_value_without_its_row(model):
    paths = ["decoder.layer[0].attention.output"]
    with torch.no_grad(), model.watch(*paths) as seen:
        model(CLEAN)
        value = seen[paths[0]].clone()
        for way, instead in (("zero", value * 0), ("mean", value.mean((0, 1), keepdim=True)), ("resample", value[[1, 0]])):
            found = ablation(model, CLEAN, METRIC, paths, way=way)
            with model.patch(paths[0], lambda own, instead=instead: own * 0 + instead):
                assert torch.allclose(METRIC(model(CLEAN)), found.changed[paths[0]], atol=1e-5), way
        for rows in (slice(None), slice(1)):  # of a reference its own row, also of a single one
            model(CORRUPTED[rows])
            metric = LogitDifference(METRIC.right_B[rows], METRIC.wrong_B[rows])
            other = ablation(model, CLEAN[rows], metric, paths, way="resample", reference=CORRUPTED[rows])
            with model.patch(paths[0], seen[paths[0]].clone()):
                assert torch.allclose(metric(model(CLEAN[rows])), other.changed[paths[0]], atol=1e-5)
    assert list(ablation(model, CLEAN, METRIC).changed) == [writer.output for writer in writers(model)]
    assert "effect" in [str(column.header) for column in found.table().columns]


def test_a_source_and_its_target_are_patched_too():
    model = build(architecture("t5-small", tiny=True), seed=0).eval()
    found = activation_patching(model, CallInputs(CLEAN, CLEAN[:, :3]), CallInputs(CLEAN, CORRUPTED[:, :3]), METRIC, by="T")
    assert torch.allclose(found.restored(streams(model)[-1])[:2], torch.zeros(2), atol=1e-4)
    assert float(found.restored(streams(model)[-1])[2]) == pytest.approx(1, abs=1e-3)


def test_a_path_that_no_gradient_passes_has_no_slope():
    from zoo import ZOO

    model = build(ZOO["cycles_detached"], seed=0).eval()
    path = "decoder.layer[0].output"
    found = attribution_patching(model, CLEAN % 7, CORRUPTED % 7, METRIC, [path, streams(model)[-1]])
    assert torch.equal(found.changed[path], found.start_B.expand_as(found.changed[path]))
    assert not torch.equal(found.changed[streams(model)[-1]][-1], found.start_B)


def test_cells_name_every_place_once():
    assert list(cells((9, 2, 3), (2, 1))) == [(row, column) for column in range(3) for row in range(2)]
    assert list(cells((9, 2, 3), (2,))) == [(slice(None), column) for column in range(3)]
    assert list(cells((9, 2), ())) == [(slice(None),)]


def test_what_cannot_be_asked_is_refused(model):
    for call, message in (
        (lambda: activation_patching(model, CLEAN, CLEAN, METRIC), "the same tokens"),
        (lambda: activation_patching(model, CLEAN, CORRUPTED[:, :4], METRIC), r"one prompt is \(2, 5\) and the other \(2, 4\)"),
        (lambda: activation_patching(model, CLEAN, CORRUPTED, METRIC, by="H"), "which has no H"),
        (lambda: ablation(model, CLEAN, METRIC, way="zeros"), "did you mean 'zero'"),
        (lambda: ablation(model, CLEAN[:1], TokenLogit(torch.tensor([3])), way="resample"), "2 rows at least"),
    ):
        with pytest.raises(InputError, match=message):
            call()
