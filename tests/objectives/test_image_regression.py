"""Numbers of images: standardised by the training split, loss and figures as numpy's, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

from anyformer.catalogue import architecture
from anyformer.data import MeasuredImages, prepare
from anyformer.data.builtin import SOURCES
from anyformer.describe import DescriptionError, UserError
from anyformer.model.transformer import build
from anyformer.objectives import ImageRegressionObjective, default_objective, loss_of
from anyformer.parts import Head
from anyformer.training import default_run
from objectives.heads import drawn, made, measured

VIT = architecture("vit-base-16", tiny=True).but(head=Head(outputs=2, pool="first"))
SIDE = 2 * VIT.embedding.cells.size
ROWS = [{"image": f"{n}.png", "up": 1000.0 + 7 * (n * n % 11), "down": 0.01 * n} for n in range(14)]
VALUES = np.array([[row["up"], row["down"]] for row in ROWS])
KIND = {"kind": "measured_images", "values": ["up", "down"], "height": SIDE, "width": SIDE}


@pytest.fixture
def ready(tmp_path):
    for n in range(14):
        Image.fromarray(np.full((SIDE, SIDE, 3), 10 * n, dtype=np.uint8)).save(tmp_path / f"{n}.png")
    return made(ImageRegressionObjective(), KIND, ROWS, tmp_path, 5)


def test_every_number_is_standardised_by_the_training_split(ready):
    targets = torch.cat([each.targets for each in ready.held_out]).double().numpy()
    np.testing.assert_allclose(targets, (VALUES - VALUES.mean(0)) / VALUES.std(0), atol=1e-5)


def test_the_loss_is_the_mean_square_over_the_numbers(ready):
    model, examples = build(VIT, seed=1).eval(), ready.held_out[0]
    said = model(examples.tokens)
    twin = sum((said[row, k] - examples.targets[row, k]) ** 2 / 2 for row in range(len(said)) for k in range(2))
    torch.testing.assert_close(loss_of(ImageRegressionObjective(), model, examples), twin)


def test_figures_are_those_of_all_images_at_once(ready):
    outputs = [drawn(len(each.rows), 2, seed=number) for number, each in enumerate(ready.held_out)]
    figures = measured(ImageRegressionObjective(), outputs, ready.held_out)
    error = torch.cat(outputs).double().numpy() * VALUES.std(0) + VALUES.mean(0) - VALUES
    assert figures["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-5)
    assert figures["rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-5)
    assert figures["r2"] == pytest.approx(np.mean(1 - (error**2).mean(0) / VALUES.var(0)), rel=1e-4)
    assert figures["loss"] == pytest.approx(np.mean((error / VALUES.std(0)) ** 2), rel=1e-4)


def test_saying_the_mean_explains_nothing_and_has_the_baselines_loss(ready):
    objective = ImageRegressionObjective()
    figures = measured(objective, [torch.zeros(len(each.rows), 2) for each in ready.held_out], ready.held_out)
    feeds = [objective.feed(ready.data, ready.corpus, ready.setting, 4, held_out=held_out) for held_out in (False, True)]
    name, loss = objective.baseline(feeds[0], 3, feeds[1], 100, 2)
    assert name == "the mean of the training targets"
    assert loss == pytest.approx(figures["loss"]) == pytest.approx(1.0, abs=1e-5)
    assert figures["r2"] == pytest.approx(0.0, abs=1e-5)


def test_boxes_enclose_their_shape():
    (source,) = SOURCES["shape-boxes"].sources()
    for row, _ in zip(SOURCES["shape-boxes"].rows(source), range(40), strict=False):
        image, box = row.values["image"].astype(int), [row.values[name] for name in ("left", "top", "right", "bottom")]
        inside = (image != image[:, :1, :1]).any(0) if (image[:, 0, 0] == image[:, -1, -1]).all() else None
        lines, columns = (np.flatnonzero(inside.any(axis)) for axis in (1, 0))
        assert box == [columns[0], lines[0], columns[-1] + 1, lines[-1] + 1]


def test_another_number_of_outputs_and_what_is_no_number_are_refused(tmp_path):
    data = MeasuredImages.parse({**KIND, "kind": "measured_images", "paths": ["shape-boxes"], "values": ["left"]})
    with pytest.raises(DescriptionError, match=r"1 numbers per image \(left\), and the head gives 2"):
        default_run(VIT, data.paths, objective=ImageRegressionObjective(), data=data)
    with pytest.raises(DescriptionError, match="values names a field twice: left, left"):
        data.but(values=("left", "left"))
    objective = ImageRegressionObjective()
    for head, words in (
        (None, "has no head"),
        (Head(outputs=3), "needs one output per row"),
        (Head(outputs="features", pool="mean"), "'features'"),
    ):
        with pytest.raises(ValueError, match=words):
            objective.check(VIT.but(head=head))
    assert default_objective(VIT.but(head=Head(outputs=1, pool="mean"))).kind == "image_regression"
    path = tmp_path / "rows.jsonl"
    Image.new("RGB", (SIDE, SIDE)).save(tmp_path / "0.png")
    path.write_text(json.dumps({"image": "0.png", "up": 1, "down": "far"}) + "\n")
    with pytest.raises(UserError, match=r"rows.jsonl:1.*'down' should be a finite number"):
        prepare(
            MeasuredImages.parse({**KIND, "kind": "measured_images", "paths": [str(path)], "validation": 0}),
            tmp_path / "c",
            1,
            progress=False,
        )
