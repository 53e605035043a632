"""Images and masks as `data inspect` shows them."""

from __future__ import annotations

import numpy as np
from rich.console import Console

from anyformer.cli.picture_on_screen import facts, print_picture
from anyformer.data.pictured import OUTSIDE, Pictured


def printed(shown: Pictured) -> list[str]:
    console = Console(width=90, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as capture:
        print_picture(console, shown)
    return capture.get().splitlines()


def test_greys_are_shades_and_classes_letters_beside_them():
    image = np.zeros((1, 4, 6), dtype=np.uint8)
    image[0, 1:3, 2:5] = 255
    mask = (image[0] > 0).astype(np.uint8)
    mask[3, 0] = OUTSIDE
    lines = printed(Pictured(image, mask, ("ground", "thing")))
    assert lines[0] == "image: 4 x 6 pixels, 1 channel, · ground 70.8%, a thing 25.0%"
    assert [line.rstrip() for line in lines[1:]] == ["         ······", "  ███    ··aaa·", "  ███    ··aaa·", "         ?·····"]


def test_a_large_image_is_the_mean_of_its_parts_and_fits_on_the_screen():
    image = np.zeros((3, 64, 96), dtype=np.uint8)
    image[:, :, 48:] = 254
    shown = Pictured(image)
    greys = shown.greys(16, 32)
    assert greys.shape == (16, 32)
    assert (greys[:, :16] == 0).all()
    np.testing.assert_allclose(greys[:, 16:], 254 / 255)
    assert len(printed(shown)) == 17
    assert facts(shown) == "image: 64 x 96 pixels, 3 channels"
    assert shown.classes(16, 32) is None


def test_of_a_large_mask_the_middle_pixels_are_shown():
    mask = np.arange(64, dtype=np.uint8).reshape(8, 8)
    assert Pictured(np.zeros((1, 8, 8), dtype=np.uint8), mask, ()).classes(2, 4).tolist() == [
        [17, 19, 21, 23],
        [49, 51, 53, 55],
    ]
