"""Composites whose text reads images by cross-attention, whole, against transformers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import anyformer as af
from anyformer import huggingface
from anyformer.describe import InputError
from anyformer.generation import Beams, Sampling
from anyformer.huggingface.files import Stored
from anyformer.huggingface.rules import rules
from anyformer.model.transformer import Transformer, build
from anyformer.operations import Shape
from huggingface.cases.vision_encoder_decoder import CASES as PAIRS
from huggingface.cases.vit import CASES as VIT
from huggingface.parity import SCRATCH, gap, pair, randomise
from huggingface.test_pixels import photo, run

VISION = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 12,
    "patch_size": 4, "layer_norm_eps": 1e-3,
}  # fmt: skip
TEXT = {
    "vocab_size": 53, "hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 2, "num_attention_heads": 3,
    "max_position_embeddings": 19, "bos_token_id": 1, "pad_token_id": 0, "sep_token_id": 2, "eos_token_id": 2,
    "encoder_hidden_size": 24,
}  # fmt: skip
CASES = {
    "one_width": {"vision_config": VISION, "text_config": TEXT},
    "two_widths": {
        "vision_config": {**VISION, "hidden_size": 32, "hidden_act": "relu", "patch_size": 3},
        "text_config": {**TEXT, "encoder_hidden_size": 32, "hidden_act": "relu", "layer_norm_eps": 1e-2},
    },
}
every = pytest.mark.parametrize("name", CASES)


@cache
def whole(name: str) -> tuple[Any, Transformer, Path]:
    """Their model and ours of the same weights, and where theirs was saved."""
    config = transformers.AutoConfig.for_model("blip", **CASES[name])
    theirs = transformers.BlipForConditionalGeneration._from_config(config, attn_implementation="eager").eval()
    randomise(theirs)
    directory = Path(mkdtemp(dir=SCRATCH.name))
    theirs.save_pretrained(directory)
    return theirs, huggingface.load(directory, images=True)[0], directory


def given(rows: int = 2, length: int = 11) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(rows, 3, 12, 12, generator=generator), torch.randint(5, 53, (rows, length), generator=generator)


@every
def test_logits_plain_and_padded(name):
    theirs, ours, _ = whole(name)
    images, tokens = given()
    padding = torch.zeros_like(tokens, dtype=torch.bool)
    padding[0, -4:] = True
    with torch.no_grad():
        assert gap(ours(images, tokens), theirs(pixel_values=images, input_ids=tokens).logits) <= 1e-5
        padded = theirs(pixel_values=images, input_ids=tokens, attention_mask=(~padding).long()).logits
        assert gap(ours(images, tokens, decoder_padding=padding)[~padding], padded[~padding]) <= 1e-5


@every
def test_token_by_token(name):
    theirs, ours, _ = whole(name)
    images, tokens = given()
    positions = ours.architecture.embedding.check("images", images, None)
    state = ours.state(2, 11, source=positions)
    with torch.no_grad():
        first = ours(images, tokens[:, :3], state=state)
        rest = [ours(None, piece, state=state) for piece in tokens[:, 3:].split(1, 1)]
        whole_text = theirs(pixel_values=images, input_ids=tokens).logits
    assert gap(torch.cat([first, *rest], 1), whole_text) <= 1e-5


@every
def test_gradients_of_all_weights_and_of_the_images(name, tmp_path):
    theirs, ours, _ = whole(name)
    images, tokens = given()
    mine, other = images.clone().requires_grad_(), images.clone().requires_grad_()
    ours.zero_grad()
    theirs.zero_grad()
    for logits in (ours(mine, tokens), theirs(pixel_values=other, input_ids=tokens).logits):
        logits.square().mean().sqrt().backward()
    assert gap(mine.grad, other.grad) <= 1e-4
    kept = {each: parameter.data for each, parameter in theirs.named_parameters()}
    for parameter in theirs.parameters():
        parameter.data = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    theirs.save_pretrained(tmp_path)
    for each, parameter in theirs.named_parameters():
        parameter.data = kept[each]
    family = huggingface.read_architecture(huggingface.read_config(tmp_path), images=True)[1]
    shapes = {each: weight.shape for each, weight in ours.architecture.cost(Shape()).weights.items()}
    stored, found = Stored(tmp_path, text_name=family.text_name), {}
    for rule in rules(family.names_of(ours.architecture), shapes):
        read = rule.op.read([stored.tensor(each) for each in rule.stored], [shapes[each] for each in rule.parameters])
        found |= dict(zip(rule.parameters, read, strict=True))
    scale = max(float(value.abs().max()) for value in found.values())
    for each, parameter in ours.named_parameters():
        size = max(float(found[each].abs().max()), 1e-3 * scale)
        assert float((parameter.grad - found[each]).abs().max()) / size <= 1e-3, each


@every
def test_its_files_are_written_again_and_a_changed_model_is_what_transformers_loads(name, tmp_path):
    _, ours, directory = whole(name)
    huggingface.export(ours, tmp_path / "again", towers=directory)
    before, after = (load_file(path / "model.safetensors") for path in (directory, tmp_path / "again"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[each], after[each]) for each in before)
    changed = build(ours.architecture, seed=3).eval()
    huggingface.export(changed, tmp_path / "changed", towers=directory)
    again = transformers.BlipForConditionalGeneration.from_pretrained(tmp_path / "changed", attn_implementation="eager").eval()
    images, tokens = given()
    with torch.no_grad():
        assert gap(changed(images, tokens), again(pixel_values=images, input_ids=tokens).logits) <= 1e-5


@every
def test_verify_and_parameters(name):
    theirs, ours, directory = whole(name)
    verdict = huggingface.verify(directory, length=7, images=True)
    assert verdict.agrees
    assert len(verdict.drifts) == 5, "two layers on either side, and the logits"
    assert af.cost(ours.architecture).params.total == sum(parameter.numel() for parameter in theirs.parameters())


def test_text_alone_is_what_is_read_by_default():
    _, ours, directory = whole("one_width")
    alone, _ = af.load(directory)
    assert alone.architecture.encoder is None
    assert alone.architecture.decoder.depth == ours.architecture.decoder.depth


@pytest.mark.parametrize("case", [*VIT[:1], *VIT[-4:-1], *PAIRS[:2]], ids=str)
def test_encoders_of_images_and_pairs_are_verified(case):
    assert huggingface.verify(pair(case).directory).agrees


def test_what_is_told_of_files_of_images_by_the_command_line(tmp_path):
    """By the directory and the checkpoint imported from it, one image and two: what transformers says of the same pixels."""
    both = pair(PAIRS[0])
    processor = ViTImageProcessorPil(size={"height": 12, "width": 12})
    processor.save_pretrained(both.directory)
    files = [photo(tmp_path / "tall.png", 97, 33), photo(tmp_path / "wide.png")]
    shown = processor([Image.open(file) for file in files], return_tensors="pt")["pixel_values"]
    tokens = torch.tensor([[7, 9], [7, 9]])
    with torch.no_grad():
        for _ in range(4):
            logits = both.theirs(pixel_values=shown, decoder_input_ids=tokens).logits
            tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], 1)
    expected = [",".join(map(str, row)) for row in tokens.tolist()]
    run("import", both.directory, tmp_path / "kept", "--images")
    for model in (both.directory, tmp_path / "kept"):
        how = [model, "--max-tokens", 4, "--temperature", 0]
        out = run("generate", *how, "--tokens", "7,9", f"--image={files[0]}")
        assert out.strip().splitlines()[-1] == expected[0]
        out = run("generate", *how, *["--tokens", "7,9"] * 2, *[f"--image={file}" for file in files])
        assert out.strip().splitlines()[-2:] == expected
    greedy = {"max_tokens": 4, "sampling": Sampling(temperature=0)}
    assert af.generate(both.ours, None, [[7, 9]] * 2, images=shown, **greedy) == tokens[:, 2:].tolist()
    assert af.generate(both.ours, None, [9], images=shown[:1], start=7, **greedy) == tokens[0, 2:].tolist()
    search = {"max_tokens": 4, "beams": Beams(count=2)}
    alone = [af.generate(both.ours, None, [7, 9], images=image[None], **search) for image in shown]
    assert af.generate(both.ours, None, [[7, 9]] * 2, images=shown, **search) == alone
    with pytest.raises(InputError, match="2 images are given, and 1 prompts"):
        af.generate(both.ours, None, [7, 9], images=shown)
    with pytest.raises(InputError, match="images are read together with all of their texts"):
        af.generate(both.ours, None, [[7, 9]] * 2, images=shown, batch=1, max_tokens=4)
    run("export", tmp_path / "kept", tmp_path / "again")
    assert huggingface.load(tmp_path / "again")[0].architecture == both.ours.architecture
