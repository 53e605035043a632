"""Images in chats: texts are those of `generate` with the same images; nothing but their bytes is read."""

from __future__ import annotations

import base64
import io

import pytest
import torch
from PIL import Image

from anyformer.catalogue import architecture
from anyformer.describe import change_all
from anyformer.generation import Sampling, generate
from anyformer.images import read_image
from anyformer.model.transformer import build
from anyformer.serving.media import MOST, MediaReaders
from anyformer.text import Tokenizer
from serving.service import running, service
from text.chat.folders import write

CHATS = "/v1/chat/completions"
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content %}{{ '<|sep|>' if part.type == 'image' else part.text }}{% endfor %}{% endif %}"
    "{{ '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
FIELDS = {"max_tokens": 8, "temperature": 0.9, "seed": 5}


def shown(colour):
    """A file of an image, and its URL."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(file, "PNG")
    return file.getvalue(), "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


@pytest.fixture(scope="module")
def seeing(tmp_path_factory):
    """A model with a tower for images, its tokenizer, and how it reads files."""
    tokenizer = Tokenizer.load(write(tmp_path_factory.mktemp("sees"), TEMPLATE))
    tiny = architecture("llava-1.5-7b", tiny=True)
    made = change_all(tiny, {"embedding.vocab": tokenizer.vocab_size, "images.token": tokenizer.special_tokens["<|sep|>"]})
    tower = made.images

    def read(files):
        colours = [torch.tensor(read_image(file.read_bytes(), "RGB").getpixel((0, 0))) / 128 - 1 for file in files]
        return torch.stack([each[:, None, None].expand(3, tower.image, tower.image) for each in colours])

    model = build(made, seed=3).eval()
    with torch.no_grad():  # so that what is shown changes what is said
        for each in model.parameters():
            each *= 8
    return model, tokenizer, read


def turns(*urls):
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": "what?"}]}]


@pytest.mark.parametrize("own", [False, True])
def test_texts_with_images_are_those_of_generate(seeing, tmp_path, own):
    model, tokenizer, read = seeing
    urls = []
    wanted = []
    for number, colour in enumerate(("red", "blue")):
        content, url = shown(colour)
        place = tmp_path / str(number)
        place.write_bytes(content)
        urls.append(url)
        chat = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what?"}]}]
        sampling = Sampling(temperature=0.9, seed=5)
        wanted += generate(model, tokenizer, [chat], chat=True, images=read([place]), max_tokens=8, sampling=sampling)
    assert wanted[0] != wanted[1]
    with running(service(model, tokenizer, media=MediaReaders(read), own=own, length=900, memory=2**30)) as client:
        for url, text in zip(urls, wanted, strict=True):
            answer = client.post(CHATS, json={"messages": turns(url), **FIELDS})
            assert answer.status_code == 200, answer.text
            assert answer.json()["choices"][0]["message"]["content"] == text
        several = client.post(CHATS, json={"messages": turns(*urls), "n": 2, **FIELDS})
        assert several.status_code == 200, several.text


@pytest.mark.parametrize(
    ("urls", "said"),
    [
        (["https://example.org/a.png"], "nothing is fetched"),
        (["file:///etc/passwd"], "nothing is fetched"),
        (["data:image/png;base64,@@"], "is no base64"),
        (["data:image/png;base64,AAAA"], "no whole image"),
        ([shown("red")[1]] * (MOST + 1), "16 are the most"),
    ],
)
def test_what_is_no_image_is_refused(seeing, urls, said):
    model, tokenizer, read = seeing
    with running(service(model, tokenizer, media=MediaReaders(read), length=900, memory=2**30)) as client:
        answer = client.post(CHATS, json={"messages": turns(*urls), **FIELDS})
        assert (answer.status_code, said in answer.json()["error"]["message"]) == (400, True), answer.text


def test_a_model_that_is_shown_no_images_says_so(seeing):
    model, tokenizer, _ = seeing
    with running(service(model, tokenizer, length=900, memory=2**30)) as client:
        answer = client.post(CHATS, json={"messages": turns(shown("red")[1]), **FIELDS})
        assert "is shown no images here" in answer.json()["error"]["message"]
