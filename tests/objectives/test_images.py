"""Classes of images and of sets of vectors: sizes, values, augmentation from counters, refusals."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from PIL import Image

from anyformer.catalogue import architecture
from anyformer.data import Arrays, Images, PackedRows, Pixels, RecordBatches, prepare
from anyformer.data.kinds.vectors import placed
from anyformer.describe import DescriptionError, UserError, change_all
from anyformer.model.transformer import build
from anyformer.objectives import ImageClassificationObjective, Setting, VectorClassificationObjective, default_objective
from anyformer.objectives.classes import check_classes
from anyformer.parts.call.reports import Auxiliary
from anyformer.training import default_run
from objectives.heads import made


@pytest.fixture
def folder(tmp_path):
    """Two classes of 6 x 8 images, each pixel another."""
    for number in range(6):
        place = tmp_path / "images" / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        grid = (np.arange(6 * 8 * 3).reshape(6, 8, 3) + number) % 256
        Image.fromarray(grid.astype(np.uint8)).save(place / f"{number}.png")
    return tmp_path / "images"


def prepared(objective, data, folder):
    corpus = prepare(data, folder.parent / "cache", 1, progress=False)
    return corpus, Setting(corpus.tokenizer, 8, 3, corpus.names)


def test_pixels_enter_as_they_are_in_the_file(folder):
    objective = ImageClassificationObjective(mean=(0.1, 0.2, 0.3), deviation=(0.5,))
    data = Images(paths=(str(folder),), height=6, width=8, validation=0.4)
    corpus, setting = prepared(objective, data, folder)
    assert corpus.names["label"] == ("a", "b")
    assert objective.lengths(corpus.train, setting).tolist() == [setting.length] * len(corpus.train)
    examples = next(objective.feed(data, corpus, setting, 8, held_out=True).once())
    labelled = zip(examples.targets.tolist(), examples.tokens, strict=True)
    seen = {(label, tuple(pixels.flatten().tolist())) for label, pixels in labelled}
    wanted = set()
    for number in range(6):
        grid = torch.tensor(np.array(Image.open(folder / "ab"[number % 2] / f"{number}.png"))).permute(2, 0, 1) / 255
        pixels = (grid - torch.tensor([0.1, 0.2, 0.3])[:, None, None]) / 0.5
        wanted.add((number % 2, tuple(pixels.flatten().tolist())))
    assert seen <= wanted
    assert len(seen) == len(corpus.validation) > 0


def test_augmentation_is_a_function_of_the_samples_number(folder):
    """A moved or mirrored image is one of those that loops make; the held-out images stay; another seed, other draws."""
    plain = ImageClassificationObjective()
    varied = ImageClassificationObjective(shift=0.25, flip=True)
    data = Images(paths=(str(folder),), height=6, width=8, validation=0.4)
    corpus, setting = prepared(plain, data, folder)
    feed, same = varied.feed(data, corpus, setting, 4), plain.feed(data, corpus, setting, 4)
    moved = set()
    for step in range(12):
        found, given = feed.at(step), same.at(step)
        assert torch.equal(found.tokens, feed.at(step).tokens)
        for image, source in zip(found.tokens, given.tokens, strict=True):
            choices = {}
            for flipped in (False, True):
                base = source.flip(-1) if flipped else source
                for down in (-1, 0, 1):
                    for right in (-2, -1, 0, 1, 2):
                        rows = [min(max(row + down, 0), 5) for row in range(6)]
                        columns = [min(max(column + right, 0), 7) for column in range(8)]
                        choices[flipped, down, right] = base[:, rows][:, :, columns]
            matching = [name for name, choice in choices.items() if torch.equal(choice, image)]
            assert len(matching) == 1
            moved.add(matching[0])
    assert len(moved) > 20
    apart = [each.feed(data, corpus, setting, 4, held_out=True).once() for each in (varied, plain)]
    for found, given in zip(*apart, strict=True):
        assert torch.equal(found.tokens, given.tokens)
    other = varied.feed(data, corpus, Setting(corpus.tokenizer, 8, 4, corpus.names), 4)
    batch = RecordBatches(corpus.train, PackedRows.single(range(len(corpus.train))), 4, 0).at(0)
    assert not torch.equal(other.make(batch).tokens, feed.make(batch).tokens)


@pytest.mark.parametrize("name", ["vit-base-16", "vit-huge-14"])
def test_a_run_knows_the_positions_of_its_images(name):
    """At the published size, and at the tiny one."""
    run = default_run(architecture(name), ("digits",))
    assert (run.data.channels, run.data.height, run.data.width) == (3, 224, 224)
    assert run.length == run.architecture.encoder.max_length == {"vit-base-16": 197, "vit-huge-14": 257}[name]
    assert run.piece.length == run.length
    tiny = default_run(architecture(name, tiny=True), ("digits",))
    assert tiny.length == 50
    with pytest.raises(DescriptionError, match=r"length = 49, and an image of 42 x 42 pixels becomes 50 positions"):
        change_all(tiny, {"length": 49})
    with pytest.raises(DescriptionError, match="do not divide into patches of 6"):
        change_all(tiny, {"data.width": 43})
    with pytest.raises(DescriptionError, match=r"objective.mean has 2 numbers, and the images 3 channels"):
        change_all(tiny, {"objective.mean": [0.1, 0.2]})


@pytest.mark.parametrize(("places", "squares"), [(1, 1), (4, 1), (5, 2), (50, 7), (63, 7)])
def test_usual_images_are_the_largest_that_the_position_table_takes(places, squares):
    """In patches of a side; one, where no place is left beside that of the class."""
    model = change_all(architecture("vit-base-16", tiny=True), {"encoder.position.length": places})
    usual = Images.usual(model, ("x",))
    assert (usual.height, usual.width) == (6 * squares, 6 * squares)


def test_too_many_classes_are_refused(folder):
    objective = ImageClassificationObjective()
    corpus, _ = prepared(objective, Images(paths=(str(folder),), height=6, width=8, validation=0.4), folder)
    model = architecture("vit-base-16", tiny=True)
    check_classes(model, corpus, objective.traits.classes)
    crowded = type("Crowded", (), {"names": {"label": tuple(map(str, range(13)))}})()
    with pytest.raises(UserError, match=r"13 classes .* the head 12 logits"):
        check_classes(model, crowded, objective.traits.classes)
    with pytest.raises(ValueError, match="gives the model an image, and this model reads tokens"):
        objective.check(architecture("bert-base-uncased", tiny=True))
    with pytest.raises(ValueError, match="gives the model vectors, and this model reads patches"):
        VectorClassificationObjective().check(model)


def test_pixels_know_their_places():
    """Perceiver's 261 numbers of a colour image: 3 channels, 2 places, 64 frequencies of sin and cos for each place."""
    image = np.arange(3 * 4 * 6, dtype=np.uint8).reshape(3, 4, 6)
    vectors = placed(image, 261)
    assert vectors.shape == (24, 261)
    for row in range(4):
        for column in range(6):
            vector = vectors[row * 6 + column]
            np.testing.assert_allclose(vector[:3], image[:, row, column] / 127.5 - 1, atol=1e-6)
            y, x = -1 + 2 * row / 3, -1 + 2 * column / 5
            np.testing.assert_allclose(vector[3:5], [y, x], atol=1e-6)
            for band in (0, 17, 63):
                frequency = 1 + 2.0 * band / 63  # up to 3, half of the 6 columns
                angles = [math.pi * frequency * y, math.pi * frequency * x]
                expected = [f(angle) for angle in angles for f in (math.sin, math.cos)]
                np.testing.assert_allclose(vector[5 + 4 * band : 9 + 4 * band], expected, atol=1e-5)
    assert np.array_equal(placed(image, 4), vectors[:, :4])


@pytest.mark.parametrize("name", ["perceiver-imagenet", "set-transformer-modelnet40"])
def test_latent_models_read_pixels(name):
    model = architecture(name, tiny=True)
    assert default_objective(architecture(name)).kind == "vector_classification"
    run = default_run(model, ("digits",))
    assert isinstance(run.data, Pixels)
    assert run.length == 64
    with pytest.raises(DescriptionError, match=r"length = 32, and a record has 64 vectors"):
        change_all(run, {"length": 32})
    with pytest.raises(DescriptionError, match=r"data.features = 9, and the embedding reads vectors of"):
        change_all(run, {"data.features": 9})


def test_padded_vectors_have_the_logits_they_have_alone(tmp_path):
    objective = VectorClassificationObjective()
    rows = [{"array": [[n, 0.5 * k, -k] for k in range(n + 1)], "label": n % 2} for n in range(4)]
    ready = made(objective, {"kind": "arrays", "features": 3}, rows, tmp_path, 6)
    assert isinstance(ready.data, Arrays)
    examples = ready.held_out[0]
    model = build(architecture("set-transformer-modelnet40", tiny=True), seed=1).eval()
    logits = objective.logits(model, examples, None, Auxiliary())
    for number, row in enumerate(rows):
        alone = model(torch.tensor([row["array"]]).float())
        torch.testing.assert_close(logits[number : number + 1], alone.reshape(1, -1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("value", [[[1, 2]], [[1, 2, 3], [1]], [], "text", [[1, 2, math.nan]]])
def test_vectors_of_another_size_are_refused(tmp_path, value):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"array": value, "label": 1}) + "\n")
    with pytest.raises(UserError, match=r"rows.jsonl:1"):
        prepare(Arrays(paths=(str(path),), features=3, validation=0), tmp_path / "cache", 1, progress=False)
