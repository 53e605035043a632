"""Features of images by contrast: the loss by loops, forward and backward; views; pooling; neighbours; refusals."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from anyformer.catalogue import architecture
from anyformer.data import RecordBatch
from anyformer.describe import change_all
from anyformer.model.transformer import build
from anyformer.objectives import ImageClassificationObjective, ImageFeaturesObjective, Setting, default_objective
from anyformer.objectives.image_features import neighbour_accuracy
from anyformer.objectives.on_images import image_positions
from anyformer.objectives.views import Views, grey
from anyformer.parts import Head
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.testing.objectives import signal_equals_its_twin
from anyformer.training import default_run
from objectives.heads import drawn, measured

DINO = architecture("dinov2-small", tiny=True)
KINDS = ("dinov2-small", "dinov2-registers-base", "dinov3-small-16", "siglip-vision-base-16")


def batch(rows: int = 5, first: int = 0) -> RecordBatch:
    """Images of 12 x 12 pixels of two classes."""
    draws = np.random.default_rng(1)
    images = draws.integers(0, 256, (rows, 3, 12, 12), dtype=np.uint8)
    records = tuple(({"image": image, "label": number % 2},) for number, image in enumerate(images))
    return RecordBatch(records, np.arange(first, first + rows))


def examples(objective: ImageFeaturesObjective, rows: int = 5, *, held_out: bool = False, seed: int = 0):
    return objective.examples(batch(rows), Setting(None, 5, seed), held_out=held_out)


def by_loops(features: torch.Tensor, temperature: float) -> torch.Tensor:
    """Equation 1 of SimCLR, summed over the images; views 2 i and 2 i + 1 are those of image i."""
    unit = [vector / vector.square().sum().sqrt() for vector in features]
    total = features.new_zeros(())
    for i, own in enumerate(unit):
        others = sum(((own * other).sum() / temperature).exp() for k, other in enumerate(unit) if k != i)
        total = total - ((own * unit[i ^ 1]).sum() / temperature - others.log()) / 2
    return total


@pytest.mark.parametrize("pool", [None, "first", "mean"])
def test_loss_and_gradient_by_loops(pool):
    """Also of pooled positions: the first, or the mean of those behind the class token."""
    objective = ImageFeaturesObjective(pool=pool, temperature=0.3)

    def twin(objective, features_NTD, targets):
        own = features_NTD[:, 1:].mean(1) if pool == "mean" else features_NTD[:, 0]
        return by_loops(own, objective.temperature)

    signal_equals_its_twin(objective, build(DINO, seed=1), examples(objective), twin)


def test_without_a_vector_in_front_the_mean_is_taken():
    model = build(change_all(DINO, {"embedding.class_tokens": 0}), seed=1).eval()
    given = examples(ImageFeaturesObjective())
    found = [
        ImageFeaturesObjective(pool=pool).similarities(model, given, None, Auxiliary()) for pool in (None, "mean", "first")
    ]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_figures_of_an_evaluation():
    """Ranks among the other views, and neighbours by the images as they are, over all batches."""
    objective = ImageFeaturesObjective(temperature=0.3)
    batches = [examples(objective, rows, held_out=True) for rows in (4, 3)]
    outputs = [drawn(3 * rows, 6, seed=rows) for rows in (4, 3)]
    figures = measured(objective, outputs, batches)
    ranks, loss = [], 0.0
    for given in outputs:
        views = given.unflatten(0, (-1, 3))[:, :2].flatten(0, 1)
        unit = F.normalize(views, dim=-1)
        loss += float(by_loops(views.double(), 0.3))
        for i in range(len(unit)):
            near = [float(unit[i] @ other) for k, other in enumerate(unit) if k != i]
            ranks.append(sum(score >= float(unit[i] @ unit[i ^ 1]) - 1e-6 for score in near))
    assert figures["loss"] == pytest.approx(loss / 7, rel=1e-5)
    assert figures["recall_at_1"] == pytest.approx(np.mean([rank == 1 for rank in ranks]))
    assert figures["mean_reciprocal_rank"] == pytest.approx(np.mean([1 / rank for rank in ranks]))
    plain = F.normalize(torch.cat([given[2::3] for given in outputs]), dim=-1)
    classes = [number % 2 for rows in (4, 3) for number in range(rows)]
    nearest = [max((k for k in range(7) if k != i), key=lambda k, i=i: float(plain[i] @ plain[k])) for i in range(7)]
    assert figures["neighbour_accuracy"] == np.mean([classes[i] == classes[k] for i, k in enumerate(nearest)])
    alone = [given.__class__(**{**vars(given), "targets": given.targets * 0}) for given in batches]
    assert "neighbour_accuracy" not in measured(objective, outputs, alone)


def test_neighbours_are_found_in_pieces(monkeypatch):
    features, classes = F.normalize(drawn(23, 4), dim=-1), torch.arange(23) % 3
    whole = neighbour_accuracy(features, classes)
    monkeypatch.setattr("anyformer.objectives.image_features.ROWS", 5)
    assert neighbour_accuracy(features, classes) == whole
    doubled = torch.cat([features, features])
    assert neighbour_accuracy(doubled, torch.cat([classes, classes])) == 1.0


def test_a_held_out_image_stands_behind_its_views():
    objective = ImageFeaturesObjective()
    training, held_out = examples(objective), examples(objective, held_out=True)
    rows = held_out.tokens.unflatten(0, (-1, 3))
    assert torch.equal(rows[:, :2].flatten(0, 1), training.tokens)
    pixels = torch.from_numpy(np.stack([record["image"] for (record,) in batch().records]))
    assert torch.equal(rows[:, 2], objective.standardised(pixels.float()))
    assert not torch.equal(rows[:, 0], rows[:, 1])


def test_views_are_a_function_of_the_samples_number():
    objective, setting = ImageFeaturesObjective(), Setting(None, 5, 3)
    whole = objective.examples(batch(4), setting)
    assert torch.equal(whole.tokens, objective.examples(batch(4), setting).tokens)
    assert not torch.equal(whole.tokens, objective.examples(batch(4, first=4), setting).tokens)
    assert not torch.equal(whole.tokens, examples(objective, 4, seed=4).tokens)
    two = RecordBatch(batch(4).records[2:], batch(4).rows[2:])
    assert torch.equal(objective.examples(two, setting).tokens, whole.slice(2, 4).tokens)


def test_a_view_is_a_rectangle_of_the_image():
    """Of an image whose pixels say where they are: sides, area and aspect lie in their bounds, and all draws occur."""
    side, rows = 64, 200
    place = (torch.arange(side) + 0.5) / side
    across, down = place.expand(side, side), place[:, None].expand(side, side)
    images = torch.stack([across, down, across]).expand(rows, 3, side, side)
    shown = Views(area=0.25, colour=0).of(images, Noise.at(0, 0, torch.arange(rows)))
    across, down = shown[:, 0, 0, -1] - shown[:, 0, 0, 0], shown[:, 1, -1, 0] - shown[:, 1, 0, 0]
    torch.testing.assert_close(shown[:, 0], shown[:, 0, :1].expand(-1, side, -1))  # upright
    scale = side / (side - 1)  # from the middles of the outer pixels to the edges
    width, height = across.abs() * scale, down * scale
    assert (across < 0).float().mean() == pytest.approx(0.5, abs=0.15)
    assert (down > 0).all()
    assert (width * height > 0.249).all()
    assert (width < 1.01).all()
    assert (height < 1.01).all()
    aspect = (width / height).log()
    assert math.log(0.74) < aspect.min() < -0.2
    assert 0.2 < aspect.max() < math.log(1.35)
    assert (width * height).std() > 0.1
    unmirrored = Views(area=0.25, flip=False, colour=0).of(images, Noise.at(0, 0, torch.arange(rows)))
    assert (unmirrored[:, 0, 0, -1] > unmirrored[:, 0, 0, 0]).all()


def test_colours_change_by_their_factors():
    """Brightness alone moves a flat grey image; alpha stays; saturation keeps the brightness of a pixel."""
    noise = Noise.at(0, 0, torch.arange(100))
    views = Views(area=1, flip=False, colour=0.4)
    flat = torch.full((100, 1, 4, 4), 100.0)
    bright = views.of(flat, noise)
    torch.testing.assert_close(bright, bright[:, :, :1, :1].expand_as(bright))
    assert 60 <= bright.min() < 70
    assert 130 < bright.max() <= 140
    image = (drawn(1, 4, 6, 6).abs() * 30 + 100).clamp(0, 140).expand(100, -1, -1, -1)
    changed, same = views.of(image, noise), Views(area=1, flip=False, colour=0).of(image, noise)
    assert torch.equal(changed[:, 3], same[:, 3])
    contrast = grey(changed[:, :3]).std((1, 2, 3)) / grey(changed[:, :3]).mean((1, 2, 3))
    before = grey(same[:, :3]).std((1, 2, 3)) / grey(same[:, :3]).mean((1, 2, 3))
    ratio = contrast / before
    assert 0.55 < ratio.min() < 0.75
    assert 1.25 < ratio.max() < 1.45
    torch.testing.assert_close(same, image)


def test_baseline_is_the_loss_of_equal_features():
    objective = ImageFeaturesObjective()
    batches = [examples(objective, rows, held_out=True) for rows in (4, 3)]

    class Held:
        def once(self, most):
            return iter(batches)

    name, loss = objective.baseline(None, 1, Held(), 7, 8)
    same = [torch.ones(3 * rows, 8) for rows in (4, 3)]
    assert measured(objective, same, batches)["loss"] == pytest.approx(loss, rel=1e-5)
    assert name == "all images of a batch alike"


def test_images_without_classes_are_read_where_the_first_has_none(tmp_path):
    """By the fields of the first record; the figures then lack those of neighbours, and classes cannot be learnt."""
    Image.fromarray(np.arange(12 * 12 * 3, dtype=np.uint8).reshape(12, 12, 3)).save(tmp_path / "a.png")
    found = {}
    for kind, row in (("unlabelled_images", {"image": "a.png"}), ("images", {"image": "a.png", "label": "b"})):
        path = tmp_path / f"{kind}.jsonl"
        path.write_text((json.dumps(row) + "\n") * 4)
        found[kind] = ImageFeaturesObjective().usual.data(DINO, (str(path),))
        assert found[kind].kind == kind
    data = found["unlabelled_images"]
    ImageFeaturesObjective().check_data(data, DINO, image_positions(DINO, data))
    with pytest.raises(ValueError, match=r"trained on data.kind = 'images', and data.kind is 'unlabelled_images'"):
        ImageClassificationObjective().check_data(data, DINO, 5)
    alone = RecordBatch(tuple(({"image": record["image"]},) for (record,) in batch().records), batch().rows)
    given = ImageFeaturesObjective().examples(alone, Setting(None, 5), held_out=True)
    assert torch.equal(given.tokens, examples(ImageFeaturesObjective(), held_out=True).tokens)
    assert "neighbour_accuracy" not in measured(ImageFeaturesObjective(), [drawn(15, 4)], [given])


@pytest.mark.parametrize("name", KINDS)
def test_it_is_usual_where_features_of_images_come_out(name):
    model = architecture(name, tiny=True)
    run = default_run(model, ("digits",))
    assert default_objective(model) == run.objective == ImageFeaturesObjective()
    assert run.length == model.embedding.check("x", torch.empty(1, 3, run.data.height, run.data.width), None)


def test_refusals():
    objective = ImageFeaturesObjective()
    with pytest.raises(ValueError, match="this architecture gives logits: take the head out"):
        objective.check(DINO.but(head=Head(outputs=2, pool="first")))
    with pytest.raises(ValueError, match="gives the model an image, and this model reads tokens"):
        objective.check(architecture("bert-base-uncased-pooled", tiny=True))
    with pytest.raises(ValueError, match="the image_features objective finds its negatives in the micro-batch"):
        objective.sizes.check(5, 8, 2)
    with pytest.raises(ValueError, match="the image_features objective finds its negatives in the batch: set batch"):
        objective.sizes.check(5, 1, 1)
