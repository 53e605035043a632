"""Texts written beside images: as sources, in front of a text, beams, several at a time, refusals, files of a trained model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from zoo_images import CLIP

from anyformer.catalogue import architecture
from anyformer.data.kinds.vectors import placed
from anyformer.describe import InputError, change_all
from anyformer.generation import Beams, generated
from anyformer.generation.sampling import GREEDY
from anyformer.model.transformer import build
from anyformer.objectives.files_of_images import image_prompt, images_in, trained_on
from anyformer.plan import Plan
from anyformer.text import Specials
from objectives.windows import tokenizer

OURS = tokenizer(Specials())
PLAN = Plan(precision="fp32", compile="off")
BLIP = architecture("blip-caption-base", tiny=True)
SHOWN = change_all(architecture("llama-2-7b", tiny=True), {"images": CLIP})
IMAGES = torch.randn(3, 3, 12, 12, generator=torch.Generator().manual_seed(0))
RUN = {
    "objective": {"kind": "captions", "mean": [0.25], "before_image": "<"},
    "data": {"kind": "captions", "paths": ["shapes"], "height": 6, "width": 4, "tokenizer": {"kind": "bytes"}},
}


@pytest.fixture(scope="module")
def blip():
    return build(BLIP, PLAN, seed=2).eval()


def said(model, prompts, **settings) -> list[tuple[int, ...]]:
    answers = generated(model, OURS, prompts, max_tokens=6, **{"sampling": GREEDY, **settings})
    return [answer.tokens for answer in answers]


def naive(model, image, read: list[int], count: int = 6) -> tuple[int, ...]:
    """The likeliest tokens, by whole calls."""
    tokens: list[int] = []
    while len(tokens) < count and OURS.end not in tokens:
        with torch.no_grad():
            logits = model(image[None], torch.tensor([[*read, *tokens]]))[0, -1]
        tokens.append(int(logits[: OURS.vocab_size].argmax()))
    return tuple(tokens)


def test_a_text_beside_each_image(blip):
    prompts = ["", "a", "a red"]
    wanted = [naive(blip, image, [OURS.end, *text.encode()]) for image, text in zip(IMAGES, prompts, strict=True)]
    assert said(blip, prompts, images=IMAGES) == wanted
    assert len(set(wanted)) == 3
    with pytest.raises(InputError, match="images are read together with all of their texts"):
        said(blip, prompts, images=IMAGES, batch=2)
    assert said(blip, ["a red"], images=IMAGES[2:]) == wanted[2:]


def test_a_search_reads_the_image_of_its_own_prompt(blip):
    assert said(blip, ["", "a"], images=IMAGES[:2], beams=Beams(count=2), batch=1) == [
        *said(blip, [""], images=IMAGES[:1], beams=Beams(count=2)),
        *said(blip, ["a"], images=IMAGES[1:2], beams=Beams(count=2)),
    ]


def test_an_image_stands_in_front_of_a_text_without_its_token():
    model = build(SHOWN, PLAN, seed=2).eval()
    images = IMAGES[:2, :, :4, :4]
    tokens = [[3, 3, 3, 3, *text.encode()] for text in ("", "ab")]
    assert said(model, ["", "ab"], images=images) == said(model, tokens, images=images)
    with pytest.raises(InputError, match="2 images are given, and the prompts have 0 tokens 3"):
        said(model, ["ab"], images=images)


def test_what_cannot_be_written_beside_an_image_is_refused(blip):
    with pytest.raises(InputError, match="3 images are given, and 2 prompts: this model reads one image beside each text"):
        said(blip, ["", ""], images=IMAGES)
    with pytest.raises(InputError, match="leave the images or the draft out"):
        said(blip, [""], images=IMAGES[:1], draft=blip)
    with pytest.raises(InputError, match=r"not text: give it as source, an image as images \(--image\)"):
        said(blip, ["a"])
    with pytest.raises(InputError, match=r"should be images \(B, 3, height, width\)"):
        said(blip, [""], images=IMAGES[:1, :2])


def test_files_are_read_as_in_training(tmp_path):
    grid = np.arange(6 * 4 * 3, dtype=np.uint8).reshape(6, 4, 3)
    Image.fromarray(grid).save(tmp_path / "a.png")
    objective, data = trained_on(RUN)
    found = images_in([tmp_path / "a.png"], objective, data, BLIP)
    torch.testing.assert_close(found[0], (torch.tensor(grid).permute(2, 0, 1) / 255 - 0.25) / 0.5)
    vectors = architecture("llama-3.2-11b-vision", tiny=True)
    found = images_in([tmp_path / "a.png"], objective, data, vectors)
    np.testing.assert_array_equal(found[0].numpy(), placed(grid.transpose(2, 0, 1), vectors.embedding.features))
    assert image_prompt(objective, BLIP, OURS) == ""
    assert image_prompt(objective, SHOWN, OURS) == f"<{OURS.token(3)}"
    mixture = {"kind": "mixture", "parts": [{"data": {k: v for k, v in RUN["data"].items() if k != "tokenizer"}}]}
    assert trained_on({**RUN, "data": mixture})[1].height == 6
    assert trained_on({"objective": {"kind": "causal"}, "data": {"kind": "text", "paths": ["x"]}}) is None
