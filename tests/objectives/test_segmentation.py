"""Segmentation: loss and gradients against plain loops, figures against numpy, masks that move with their images, the price."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anyformer.catalogue import architecture
from anyformer.data import IGNORED, ImageMasks, RecordBatch
from anyformer.data.pictured import OUTSIDE
from anyformer.describe import UserError
from anyformer.model.transformer import build
from anyformer.objectives import SegmentationObjective, Setting, loss_of
from anyformer.objectives.objective import added
from anyformer.parts import Head
from anyformer.parts.call.reports import Auxiliary
from anyformer.training import default_run
from anyformer.training.priced import step_of
from anyformer.training.summary import update_figures

VIT = architecture("dinov2-registers-base", tiny=True).but(head=Head(outputs=3, bias=True))
CELLS = VIT.embedding.cells
HEIGHT, WIDTH = 2 * CELLS.size, 3 * CELLS.size


def batch_of(rows=(4, 9)):
    draws = np.random.default_rng(len(rows))
    masks = draws.choice([0, 1, 2, OUTSIDE], (len(rows), HEIGHT, WIDTH), p=[0.5, 0.25, 0.15, 0.1]).astype(np.uint8)
    masks[0][masks[0] == 2] = 0  # an image without the third class
    images = draws.integers(0, 256, (len(rows), 3, HEIGHT, WIDTH), dtype=np.uint8)
    records = tuple(({"image": image, "mask": mask},) for image, mask in zip(images, masks, strict=True))
    return RecordBatch(records, np.array(rows))


def examples_of(objective, rows=(4, 9), **options):
    return objective.examples(batch_of(rows), Setting(None, CELLS.front + 6, 3, architecture=VIT), **options)


@pytest.fixture(scope="module")
def model():
    return build(VIT, seed=1).eval()


def enlarged(small, y, x):
    """Bilinear: the value at the middle of pixel (y, x), between the middles of the patches, and beyond them as the nearest."""
    rows, columns = small.shape[:2]
    down = min(max((y + 0.5) / CELLS.size - 0.5, 0.0), rows - 1.0)
    right = min(max((x + 0.5) / CELLS.size - 0.5, 0.0), columns - 1.0)
    (i, a), (j, b) = (int(down), down % 1), (int(right), right % 1)
    k, m = min(i + 1, rows - 1), min(j + 1, columns - 1)
    return (1 - a) * ((1 - b) * small[i, j] + b * small[i, m]) + a * ((1 - b) * small[k, j] + b * small[k, m])


@pytest.mark.parametrize("dice", [0.0, 0.7])
def test_loss_and_gradients_are_those_of_plain_loops(model, dice):
    objective = SegmentationObjective(dice=dice)
    examples = examples_of(objective)
    total = 0.0
    for row, image in enumerate(examples.tokens):
        small = model(image[None])[0, CELLS.front :].view(2, 3, 3)
        places = [(y, x, int(examples.targets[row, y * WIDTH + x])) for y in range(HEIGHT) for x in range(WIDTH)]
        counted = [(enlarged(small, y, x).softmax(0), target) for y, x, target in places if target != IGNORED]
        total = total - sum(p[target].log() for p, target in counted)
        if dice:
            shares = []
            for k in {target for _, target in counted}:
                both = sum(p[k] for p, target in counted if target == k)
                shares.append(2 * both / sum(p[k] + (target == k) for p, target in counted))
            total = total + dice * len(counted) * (1 - sum(shares) / len(shares))
    ours = loss_of(objective, model, examples)
    torch.testing.assert_close(ours, total, rtol=1e-4, atol=1e-3)
    weights = list(model.parameters())
    for one, other in zip(torch.autograd.grad(ours, weights), torch.autograd.grad(total, weights), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=2e-3)


def test_the_loss_does_not_depend_on_how_a_batch_is_cut(model):
    objective = SegmentationObjective(dice=1.0)
    examples = examples_of(objective, rows=(1, 2, 3))
    parts = sum(loss_of(objective, model, examples.slice(n, n + 1)) for n in range(3))
    torch.testing.assert_close(loss_of(objective, model, examples), parts)
    assert examples.count == sum(examples.slice(n, n + 1).count for n in range(3)) == int((examples.targets != IGNORED).sum())


def test_figures_are_those_of_all_pixels_at_once(model):
    objective = SegmentationObjective(dice=0.5)
    batches = [examples_of(objective, rows=rows) for rows in ((1, 2, 3), (4, 5))]
    with torch.no_grad():
        totals = added(objective.statistics(model, each, Auxiliary(), {}) for each in batches)
        said = torch.cat([objective.pixel_logits(model, each, None, None).argmax(1).flatten(1) for each in batches])
    real = torch.cat([each.targets for each in batches])
    said, real = said[real != IGNORED].numpy(), real[real != IGNORED].numpy()
    figures = objective.metrics(totals, {"mask": ("ground", "thing", "rest")})
    iou = [np.sum((said == k) & (real == k)) / np.sum((said == k) | (real == k)) for k in range(3)]
    dice = [2 * np.sum((said == k) & (real == k)) / (np.sum(said == k) + np.sum(real == k)) for k in range(3)]
    assert figures["miou"] == pytest.approx(np.mean(iou))
    assert figures["dice"] == pytest.approx(np.mean(dice))
    assert [figures[f"iou of {name}"] for name in ("ground", "thing", "rest")] == pytest.approx(iou)
    assert figures["dice of rest"] == pytest.approx(dice[2])
    assert figures["accuracy"] == pytest.approx(np.mean(said == real))
    plain = loss_of(objective.but(dice=0.0), model, batches[0]) + loss_of(objective.but(dice=0.0), model, batches[1])
    assert float(totals["loss"]) == pytest.approx(float(plain.detach()), rel=1e-5), "the loss without its penalty"


def test_a_class_that_is_nowhere_counts_in_no_mean():
    found = SegmentationObjective().metrics({"confusion": torch.diag(torch.tensor([3.0, 0.0, 1.0]))}, {})
    assert found["miou"] == found["dice"] == 1.0
    assert "iou of 1" not in found


def test_masks_move_with_their_images():
    """An image that is its own mask stays so."""
    objective = SegmentationObjective(flip=True, shift=0.3, mean=(0.0,), deviation=(1.0,))
    draws = np.random.default_rng(0)
    masks = draws.integers(0, 3, (12, HEIGHT, WIDTH), dtype=np.uint8)
    records = tuple(({"image": np.stack([mask * 100] * 3), "mask": mask},) for mask in masks)
    batch = RecordBatch(records, np.arange(12))
    found = objective.examples(batch, Setting(None, CELLS.front + 6, 3), training=True)
    assert torch.equal((found.tokens[:, 0] * 2.55).round().long().flatten(1), found.targets)
    still = objective.examples(batch, Setting(None, CELLS.front + 6, 3))
    assert (found.targets != still.targets).any(1).sum() > 8


def ellipses(model, **fields):
    names = ["background", "body", "organ", "spot"]
    size = {"channels": 3, "height": HEIGHT, "width": HEIGHT}
    data = ImageMasks.parse({"kind": "image_masks", "paths": ["ellipses"], "labels": names, **size, **fields})
    return default_run(model, data.paths, objective=SegmentationObjective(), data=data)


def test_a_run_is_priced_as_it_computes():
    run = ellipses(VIT.but(head=Head(outputs=4))).but(batch=2, accumulation=1)
    flops, peak = update_figures(step_of(run), run.piece, 1, run.plan)
    assert flops.predicted == flops.measured
    assert peak > 0


def test_what_cannot_be_trained_so_is_refused_in_words():
    objective = SegmentationObjective()
    for head in (None, Head(outputs=3, pool="mean"), Head(outputs=1)):
        with pytest.raises(ValueError, match=r"a logit per class for every patch: set head = \{outputs"):
            objective.check(VIT.but(head=head))
    with pytest.raises(ValueError, match="gives the model an image, and this model reads tokens"):
        objective.check(architecture("bert-base-uncased", tiny=True))
    with pytest.raises(UserError, match="do not divide into patches"):
        ellipses(VIT, height=HEIGHT + 1)
    usual = ImageMasks.usual(VIT, ("ellipses",))
    assert usual.labels == ("background", "class 1", "class 2")
    objective.check_data(usual, VIT, objective.usual.length(VIT, usual))


def test_the_baseline_knows_the_frequencies():
    objective = SegmentationObjective()

    class Feed:
        def at(self, step):
            return examples_of(objective, rows=(1, 2, 3))

        def once(self, most):
            return [examples_of(objective, rows=(4, 5))]

    words, loss = objective.baseline(Feed(), 2, Feed(), 9, 3)
    known, asked = (torch.bincount(each[each >= 0], minlength=3) for each in (Feed().at(0).targets, Feed().once(9)[0].targets))
    shares = (2 * known + 1) / (2 * known + 1).sum()
    assert loss == pytest.approx(float(-(asked * shares.log()).sum() / asked.sum()), rel=1e-5)
    assert f"mIoU {float(asked[0] / asked.sum() / 3):.3f}" in words
