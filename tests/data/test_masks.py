"""Masks beside images: read as they are written, cut as their images, and refused in words before any work."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from anyformer.data import ImageMasks, prepare
from anyformer.data.builtin import SOURCES
from anyformer.data.pictured import OUTSIDE
from anyformer.describe import DescriptionError, UserError

LABELS = ("background", "thing", "other")
GRID = np.arange(6 * 8).reshape(6, 8).astype(np.uint8) % 3


def data_of(path, **fields) -> ImageMasks:
    plain = {"paths": [str(path)], "labels": list(LABELS), "height": 6, "width": 8, "channels": 1, "validation": 0}
    return ImageMasks.parse({"kind": "image_masks", **plain, **fields})


def masks_of(data, folder):
    corpus = prepare(data, folder / "cache", 1, progress=False)
    return corpus, [corpus.train[n]["mask"] for n in range(len(corpus.train))]


def written(folder, mask, image=None, **fields):
    """One record with files of an image and a mask."""
    (image or Image.fromarray(GRID * 40)).save(folder / "1.png")
    mask.save(folder / "mask.png")
    (folder / "rows.jsonl").write_text(json.dumps({"image": "1.png", "mask": "mask.png"}) + "\n")
    return data_of(folder / "rows.jsonl", **fields)


def palette():
    mask = Image.fromarray(GRID, "P")
    mask.putpalette([200, 10, 10, 10, 200, 10, 10, 10, 200])
    return mask


@pytest.mark.parametrize("mask", [Image.fromarray(GRID), palette()], ids=["grey", "palette"])
def test_the_numbers_in_a_file_are_the_classes(tmp_path, mask):
    corpus, (found,) = masks_of(written(tmp_path, mask), tmp_path)
    assert corpus.names["mask"] == LABELS
    assert np.array_equal(found, GRID)


def test_other_values_and_ignored_pixels(tmp_path):
    """A mask of 0 and 255, and 7 where nothing is known."""
    grid = np.where(GRID == 1, 255, np.where(GRID == 2, 7, 0)).astype(np.uint8)
    data = written(tmp_path, Image.fromarray(grid), labels=["no", "yes"], values=[0, 255], ignored=7)
    _, (found,) = masks_of(data, tmp_path)
    assert np.array_equal(found, np.where(GRID == 2, OUTSIDE, GRID))


def test_a_folder_of_images_has_its_masks_beside_it(tmp_path):
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    for number in range(3):
        Image.fromarray(GRID * 40).save(tmp_path / "images" / f"{number}.jpg")
        Image.fromarray((GRID + number) % 3).save(tmp_path / "masks" / f"{number}.png")
    _, found = masks_of(data_of(tmp_path / "images"), tmp_path)
    assert {each.tobytes() for each in found} == {((GRID + n) % 3).tobytes() for n in range(3)}
    (tmp_path / "masks" / "2.png").unlink()
    with pytest.raises(UserError, match=r"masks/2.png: no such image"):
        masks_of(data_of(tmp_path / "images", skip_bad=0), tmp_path / "again")


def test_a_mask_is_cut_and_scaled_as_its_image_to_the_nearest_pixel(tmp_path):
    """Of 8 x 6 pixels the middle 6 x 6, at half of its size: classes stay classes, and lie where the image's pixels do."""
    blocks = np.kron(np.array([[0, 11, 5], [5, 0, 11], [11, 5, 0]]), np.ones((2, 2))).astype(np.uint8)
    wide = np.pad(blocks, ((0, 0), (1, 1)), constant_values=5)
    labels = [f"class {number}" for number in range(12)]
    data = written(tmp_path, Image.fromarray(wide), Image.fromarray(wide * 20), height=3, width=3, labels=labels)
    corpus, (found,) = masks_of(data, tmp_path)
    assert np.array_equal(found, blocks[::2, ::2])
    assert np.array_equal(np.abs(corpus.train[0]["image"][0] - 20.0 * blocks[::2, ::2]) < 50, np.ones((3, 3), dtype=bool))


@pytest.mark.parametrize(
    ("mask", "fields", "words"),
    [
        (Image.fromarray(GRID[:4]), {}, r"a mask of 8 x 4 pixels, and its image has 8 x 6"),
        (Image.fromarray(GRID + 1), {}, r"has the value 3, and the 3 classes of data.labels are the values 0, 1, 2"),
        (Image.fromarray(GRID * 127), {"ignored": 9}, "has the value 127"),
        (Image.new("RGB", (8, 6)), {}, "an image of the mode RGB, and a mask has one whole number per pixel"),
    ],
)
def test_masks_that_fit_nothing_are_refused(tmp_path, mask, fields, words):
    with pytest.raises(UserError, match=rf"rows.jsonl:1.*{words}"):
        masks_of(written(tmp_path, mask, **fields), tmp_path)


@pytest.mark.parametrize("value", ["'../out.png'", "[[0.5, 1], [1, 1]]", "[]", "{}", "3"])
def test_what_is_no_mask_is_refused(tmp_path, value):
    Image.fromarray(GRID).save(tmp_path / "1.png")
    (tmp_path / "rows.jsonl").write_text('{"image": "1.png", "mask": ' + value.replace("'", '"') + "}\n")
    with pytest.raises(UserError, match=r"rows.jsonl:1"):
        masks_of(data_of(tmp_path / "rows.jsonl"), tmp_path)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"labels": ["one"]}, "2 at least"),
        ({"labels": ["one", "one"]}, "labels has an entry twice"),
        ({"values": [0, 1]}, "values has 2 numbers, and labels 3 classes"),
        ({"values": [0, 1, 1]}, "values has an entry twice"),
        ({"ignored": 1}, "ignored = 1 is the value of the class 'thing'"),
    ],
)
def test_descriptions_that_contradict_themselves_are_refused(tmp_path, fields, words):
    with pytest.raises(DescriptionError, match=words):
        data_of(tmp_path, **fields)


def test_ellipses_lie_within_one_another_and_are_brighter_inside():
    (source,) = SOURCES["ellipses"].sources()
    seen = set()
    for row, _ in zip(SOURCES["ellipses"].rows(source), range(40), strict=False):
        image, mask = row.values["image"], row.values["mask"]
        assert image.shape == (1, *mask.shape)
        classes = set(np.unique(mask).tolist())
        assert {0, 1, 2} <= classes <= {0, 1, 2, 3}
        greys = [image[0][mask == number].mean() for number in sorted(classes)]
        assert greys == sorted(greys)
        assert not (mask[0].any() and mask[-1].any() and mask[:, 0].any() and mask[:, -1].any())
        seen |= classes
    assert seen == {0, 1, 2, 3}
