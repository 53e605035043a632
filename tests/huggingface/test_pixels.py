"""Files of images as the pixels that transformers' processors make of them; text of them, from files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers.image_processing_utils import select_best_resolution
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.blip.image_processing_pil_blip import BlipImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.glm4v.image_processing_pil_glm4v import Glm4vImageProcessorPil
from transformers.models.glm46v.image_processing_pil_glm46v import Glm46VImageProcessorPil
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil
from transformers.models.paddleocr_vl.image_processing_pil_paddleocr_vl import PaddleOCRVLImageProcessorPil
from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil
from typer.testing import CliRunner

import anyformer as af
from anyformer import checkpoint, huggingface
from anyformer.cli import app
from anyformer.describe import InputError, UserError
from anyformer.generation import Sampling
from huggingface.whole import TOKEN, pixels, their_logits, whole

CLIP = {"size": {"shortest_edge": 28}, "crop_size": {"height": 28, "width": 28}}
PROCESSORS = {
    "clip": CLIPImageProcessorPil(**CLIP),
    "clip_without_crop": CLIPImageProcessorPil(size={"height": 20, "width": 30}, do_center_crop=False, resample=2),
    "clip_as_it_is": CLIPImageProcessorPil(do_resize=False, crop_size={"height": 20, "width": 24}, rescale_factor=0.01),
    "got_ocr2": GotOcr2ImageProcessorPil(size={"height": 20, "width": 24}),
    "siglip": SiglipImageProcessorPil(size={"height": 28, "width": 28}),
    "gemma3": Gemma3ImageProcessorPil(size={"height": 28, "width": 28}),
    "vit": ViTImageProcessorPil(size={"height": 28, "width": 30}),
    "deit": DeiTImageProcessorPil(size={"height": 32, "width": 30}, crop_size={"height": 28, "width": 28}),
    "bit": BitImageProcessorPil(**CLIP),
    "blip": BlipImageProcessorPil(size={"height": 28, "width": 28}),
}


def photo(path: Path, height: int = 41, width: int = 67, mode: str = "RGB") -> Path:
    grid = np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(grid).convert(mode).save(path)
    return path


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize(("height", "width", "mode"), [(41, 67, "RGB"), (97, 33, "RGB"), (50, 50, "L"), (40, 44, "RGBA")])
def test_pixels_are_those_of_transformers(name, height, width, mode, tmp_path):
    processor = PROCESSORS[name]
    processor.save_pretrained(tmp_path)
    file = photo(tmp_path / "image.png", height, width, mode)
    theirs = processor(Image.open(file).convert("RGB"), return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(huggingface.pixels([file], tmp_path), theirs, rtol=1e-5, atol=1e-5)


QWEN = {"shortest_edge": 64, "longest_edge": 600}
SMALL = {"patch_size": 4, "temporal_patch_size": 2, "merge_size": 2}


@pytest.mark.parametrize(
    "kind", [Qwen2VLImageProcessorPil, PaddleOCRVLImageProcessorPil, Glm4vImageProcessorPil, Glm46VImageProcessorPil]
)
@pytest.mark.parametrize("bounds", [(16, 10_000), (9_000, 20_000), (16, 600)], ids=str)
def test_images_of_any_size_are_those_of_transformers(kind, bounds, tmp_path):
    """As they are, enlarged and reduced: each has its own size, whose patches are those of their processor."""
    processor = kind(**SMALL, size=dict(zip(("shortest_edge", "longest_edge"), bounds, strict=True)))
    processor.save_pretrained(tmp_path)
    files = [photo(tmp_path / f"{height}.png", height, width) for height, width in ((41, 67), (97, 33), (50, 50), (3, 40))]
    ours = huggingface.pixels(files, tmp_path)
    theirs = processor([Image.open(file) for file in files], return_tensors="pt")
    cut = [processor.patchify(image.numpy(), 4, 2, 2) for image in ours]
    assert [list(grid) for _, *grid in cut] == theirs["image_grid_thw"][:, 1:].tolist()
    torch.testing.assert_close(
        torch.cat([torch.tensor(each) for each, _, _ in cut]), theirs["pixel_values"], rtol=1e-5, atol=1e-5
    )
    written = json.loads((tmp_path / "preprocessor_config.json").read_text())
    older = {**written, "min_pixels": bounds[0], "max_pixels": bounds[1], "size": {"shortest_edge": 1, "longest_edge": 2}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(older))
    assert all(torch.equal(a, b) for a, b in zip(ours, huggingface.pixels(files, tmp_path), strict=True))


@pytest.mark.parametrize("longest", [40, 64, 200])
def test_images_within_a_longest_side_are_those_of_transformers(longest, tmp_path):
    """The whole processor multiplies the sides of patches by those of squares, which stand in its own file."""
    processor = PixtralImageProcessorPil(size={"longest_edge": longest}, patch_size={"height": 4, "width": 4})
    processor.save_pretrained(tmp_path)
    files = [photo(tmp_path / f"{height}.png", height, width) for height, width in ((41, 67), (97, 33), (50, 50))]
    for unit, whole_processor in ((4, None), (8, {"patch_size": 4, "spatial_merge_size": 2})):
        if whole_processor is not None:
            (tmp_path / "processor_config.json").write_text(json.dumps(whole_processor))
        ours = huggingface.pixels(files, tmp_path)
        theirs = processor([Image.open(file) for file in files], return_tensors="pt", patch_size=unit)
        assert [list(image.shape[1:]) for image in ours] == theirs["image_sizes"].tolist()
        for image, room, (height, width) in zip(ours, theirs["pixel_values"], theirs["image_sizes"].tolist(), strict=True):
            torch.testing.assert_close(image, room[:, :height, :width], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "processor",
    [
        LlavaNextImageProcessorPil(
            size={"shortest_edge": 14},
            crop_size={"height": 14, "width": 14},
            image_grid_pinpoints=[[14, 28], [28, 14], [28, 28]],
        ),
        LlavaOnevisionImageProcessorPil(
            size={"height": 16, "width": 16}, resample=2, image_grid_pinpoints=[[16, 16], [48, 16], [16, 48], [32, 32]]
        ),
    ],
    ids=["next", "onevision"],
)
def test_images_in_tiles_are_those_of_transformers(processor, tmp_path):
    processor.save_pretrained(tmp_path)
    files = [photo(tmp_path / f"{h}.png", h, w) for h, w in ((41, 67), (97, 23), (20, 90), (50, 50), (9, 7))]
    ours = huggingface.pixels(files, tmp_path)
    theirs = processor([Image.open(file) for file in files], return_tensors="pt")
    for image, tiles, size in zip(ours, theirs["pixel_values"], theirs["image_sizes"].tolist(), strict=True):
        torch.testing.assert_close(image.pixels, tiles[: len(image.pixels)], rtol=1e-5, atol=1e-5)
        assert not tiles[len(image.pixels) :].any()
        assert [image.height, image.width] == size
        high, wide = select_best_resolution(size, processor.image_grid_pinpoints)
        assert (image.rows, image.columns) == (high // image.pixels.shape[2], wide // image.pixels.shape[3])


def test_absent_keys_mean_the_defaults_of_the_class(tmp_path):
    file = photo(tmp_path / "image.png", 300, 260)
    for kind in (
        CLIPImageProcessorPil, SiglipImageProcessorPil, Gemma3ImageProcessorPil, GotOcr2ImageProcessorPil, ViTImageProcessorPil,
        DeiTImageProcessorPil, BitImageProcessorPil, BlipImageProcessorPil,
    ):  # fmt: skip
        for named in (kind.__name__.removesuffix("Pil"), kind.__name__.replace("Pil", "Fast")):
            (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": named}))
            theirs = kind()(Image.open(file), return_tensors="pt")["pixel_values"]
            torch.testing.assert_close(huggingface.pixels([file], tmp_path), theirs, rtol=1e-5, atol=1e-5)


def test_older_and_newer_spellings(tmp_path):
    file = photo(tmp_path / "image.png")
    PROCESSORS["clip"].save_pretrained(tmp_path)
    written = json.loads((tmp_path / "preprocessor_config.json").read_text())
    expected = huggingface.pixels([file], tmp_path)
    older = {**written, "size": 28, "crop_size": 28, "feature_extractor_type": "CLIPFeatureExtractor"}
    del older["image_processor_type"]
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(older))
    assert torch.equal(huggingface.pixels([file], tmp_path), expected)
    (tmp_path / "preprocessor_config.json").unlink()
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": written}))
    assert torch.equal(huggingface.pixels([file], tmp_path), expected)


def test_what_cannot_be_prepared_says_why(tmp_path):
    file = photo(tmp_path / "image.png")

    def refused(files: list[Path] | None = None, **changes: object) -> str:
        kept = {"image_processor_type": "CLIPImageProcessor", **CLIP, **changes}
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(kept))
        with pytest.raises(UserError) as error:
            huggingface.pixels(files or [file], tmp_path)
        return str(error.value)

    assert "not known here" in refused(image_processor_type="Idefics3ImageProcessor")
    assert "crop_to_patches" in refused(crop_to_patches=True)
    assert "with longest_edge" in refused(image_processor_type="PixtralImageProcessor", size={"width": 3})
    assert "do_pad" in refused(do_pad=True)
    assert "image_grid_pinpoints" in refused(image_processor_type="LlavaNextImageProcessor", image_grid_pinpoints=[[28, 30]])
    assert "frobnication" in refused(frobnication=1)
    assert "three numbers" in refused(image_mean=[0.5])
    assert "sides in pixels" in refused(size={"shortest_edge": -3})
    assert "height and width, or shortest_edge" in refused(size={"longest": 3})
    assert "crop_size is larger" in refused(size={"shortest_edge": 20})
    assert "200 times as long" in refused(
        [photo(tmp_path / "long.png", 1, 300)], image_processor_type="Qwen2VLImageProcessor", size=QWEN
    )
    assert "the pixels of an image" in refused(image_processor_type="Qwen2VLImageProcessor", size={"shortest_edge": 9})
    assert "no such image" in refused([tmp_path / "absent.png"])
    assert "no whole image" in refused([tmp_path / "preprocessor_config.json"])
    assert "16,777,216 pixels is the most" in refused(size={"height": 9000, "width": 9000})
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(huggingface.HuggingFaceError, match="says how images become pixels"):
        huggingface.pixels([file], tmp_path)


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def test_images_of_several_sizes_by_the_command_line(tmp_path):
    """Two images of other sizes, by the directory and by the checkpoint imported from it: what transformers says."""
    both = whole("qwen2_vl")
    processor = Qwen2VLImageProcessorPil(**SMALL, size=QWEN)
    processor.save_pretrained(both.directory)
    files = [photo(tmp_path / "tall.png", 97, 33), photo(tmp_path / "wide.png")]
    shown = huggingface.pixels(files, both.directory)
    sizes = both.tower.sizes(shown)
    tokens = [7, *[TOKEN] * sizes[0], 8, *[TOKEN] * sizes[1], 9]
    for _ in range(4):
        with torch.no_grad():
            tokens.append(int(their_logits(both, torch.tensor([tokens]), shown)[0, -1].argmax()))
    expected = ",".join(map(str, [7, TOKEN, 8, TOKEN, 9, *tokens[-4:]]))
    assert "left aside" not in run("import", both.directory, tmp_path / "kept", "--images")
    for model in (both.directory, tmp_path / "kept"):
        how = ["--tokens", f"7,{TOKEN},8,{TOKEN},9", *(word for file in files for word in ("--image", file))]
        out = run("generate", model, *how, "--max-tokens", 4, "--temperature", 0)
        assert out.strip().splitlines()[-1] == expected
    words = [*(f"w{number}" for number in range(TOKEN)), "<image>"]
    spelled = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="w0"))
    spelled.pre_tokenizer = WhitespaceSplit()
    spelled.add_special_tokens(["<image>"])
    source = shutil.copytree(both.directory, tmp_path / "spelled")
    spelled.save(str(source / "tokenizer.json"))
    how = [f"--image={file}" for file in files]
    out = run("generate", source, "w7 <image> w8 <image> w9", *how, "--max-tokens", 4, "--temperature", 0)
    said = " ".join(out.split())
    assert f"w9 {' '.join(words[token] for token in tokens[-4:])}" in said
    assert "as its authors" in said
    assert "multiple of 8 pixels" in run("show", tmp_path / "kept").replace("\n", " ")


def test_text_of_an_image_by_the_command_line(tmp_path):
    """The directory and the checkpoint imported from it say what transformers says of the same file."""
    both = whole("gemma3")
    PROCESSORS["gemma3"].save_pretrained(both.directory)
    file, prompt = photo(tmp_path / "image.png"), f"7,8,{TOKEN},9"
    shown = PROCESSORS["gemma3"](Image.open(file), return_tensors="pt")["pixel_values"]
    tokens = [7, 8, *[TOKEN] * both.tower.tokens, 9]
    for _ in range(4):
        with torch.no_grad():
            tokens.append(int(their_logits(both, torch.tensor([tokens]), shown)[0, -1].argmax()))
    expected = ",".join(map(str, [7, 8, TOKEN, 9, *tokens[-4:]]))
    said = run("import", both.directory, tmp_path / "kept", "--images")
    assert "left aside: vision_tower" in said
    assert "multi_modal_projector" not in said
    for model in (both.directory, tmp_path / "kept"):
        out = run("generate", model, "--tokens", prompt, "--image", file, "--max-tokens", 4, "--temperature", 0)
        assert out.strip().splitlines()[-1] == expected
    run("export", tmp_path / "kept", tmp_path / "again")
    assert huggingface.load(tmp_path / "again", images=True)[0].architecture == both.ours.architecture


@pytest.mark.parametrize("name", ["llava", "qwen2_vl", "llava_next"])
def test_prompts_with_images_in_a_program(name):
    both = whole(name)
    shown, greedy = pixels(both, 3), Sampling(temperature=0)
    short, left = [[5, TOKEN, 6], [TOKEN, 7, TOKEN]], iter(both.tower.sizes(shown))
    long = [[token for token in row for _ in range(next(left) if token == TOKEN else 1)] for row in short]
    one_by_one = af.generate(both.ours, None, [*short, [5, 6]], images=shown, max_tokens=5, sampling=greedy, batch=1)
    together = af.generate(both.ours, None, [*short, [5, 6]], images=shown, max_tokens=5, sampling=greedy)
    assert one_by_one == together
    by_both = [af.generate(both.ours, None, row, images=shown, max_tokens=5, sampling=greedy) for row in (short, long)]
    assert by_both[0] == by_both[1]
    alone = af.generate(both.ours, None, short[1], images=shown[1:], max_tokens=5, sampling=greedy)
    assert alone == by_both[0][1]
    with pytest.raises(InputError, match="2 images are given, and the prompts have 3 tokens 59"):
        af.generate(both.ours, None, short, images=shown[:2])
    with pytest.raises(InputError, match="reads no images"):
        af.generate(af.load(both.directory)[0], None, short, images=shown)
    with pytest.raises(checkpoint.CheckpointError, match="not imported from a composite"):
        af.pixels("nowhere", ["image.png"])


def test_what_is_shown_of_a_model_with_images(tmp_path):
    checkpoint.save(whole("gemma3").ours, tmp_path / "kept")
    said = " ".join(run("show", tmp_path / "kept").split())
    assert "28 x 28 pixels, each 4 tokens, of which one sees all of its image" in said
    assert "image layers" in said
