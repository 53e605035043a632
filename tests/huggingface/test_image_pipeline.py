"""Exported models of images in transformers' `pipeline("image-text-to-text")`, which replaced `image-to-text`: the same text as
`anyformer generate --image` writes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import pipeline
from transformers.models.blip.image_processing_pil_blip import BlipImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from typer.testing import CliRunner

import anyformer as af
from anyformer.cli import app
from anyformer.generation.images import parts_of
from anyformer.text.beside import Beside
from huggingface.parity import randomise
from huggingface.whole import TOKEN, whole

SIDE = 28
WORDS = ["<pad>", "</s>", "<unk>", "<s>", *(f"w{number}" for number in range(4, TOKEN)), "<image>"]
CHAT = (
    "{% for turn in messages %}w7 {% for part in turn['content'] %}{% if part['type'] == 'image' %}<image> {% else %}"
    "{{ part['text'] + ' ' }}{% endif %}{% endfor %}{% endfor %}{% if add_generation_prompt %}w8{% endif %}"
)
SQUARE = {"size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}
LLAVA = {"patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
NEW = 6


def tokenizer() -> Any:
    inner = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = WhitespaceSplit()
    inner.add_special_tokens([AddedToken(word, special=True) for word in WORDS if word.startswith("<")])
    named = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "bos_token": "<s>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, additional_special_tokens=["<image>"], **named)


def photo(path: Path, height: int = 41, width: int = 67) -> Path:
    grid = np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(grid).save(path)
    return path


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def ours(model: Path, file: Path, *prompt: str) -> str:
    """What `anyformer generate` writes of an image, greedily."""
    said = run("generate", model, *prompt, "--image", file, "--max-tokens", NEW, "--temperature", 0, "--json")
    text: str = json.loads(said.strip().splitlines()[-1])["text"]
    return text


def theirs(model: Path, **given: Any) -> str:
    """What the pipeline writes, without the prompt."""
    greedy = {"do_sample": False, "num_beams": 1, "max_new_tokens": NEW}
    (said,) = piped(model)(generate_kwargs=greedy, return_full_text=False, **given)
    text: str = said["generated_text"]
    return text


@cache
def piped(model: Path) -> Any:
    return pipeline("image-text-to-text", model=str(model), dtype=torch.float32)


def published(name: str, processor: Any) -> Path:
    """A tiny composite that prefers some tokens clearly, with its processor beside it."""
    both = whole(name)
    made = type(both.theirs)(both.theirs.config)
    made.load_state_dict({key: weight * (2 if weight.dim() > 1 else 1) for key, weight in both.theirs.state_dict().items()})
    made.generation_config = transformers.GenerationConfig(eos_token_id=1, pad_token_id=0, bos_token_id=3)
    place = both.directory.parent / f"{both.directory.name}-published"
    made.save_pretrained(place)
    processor.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def llava(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory as its authors publish it, imported and exported."""
    place = tmp_path_factory.mktemp("llava")
    source = published(
        "llava", transformers.LlavaProcessor(CLIPImageProcessorPil(**SQUARE), tokenizer(), **LLAVA, chat_template=CHAT)
    )
    run("import", source, place / "kept", "--images")
    run("export", place / "kept", place / "exported")
    return place / "exported"


def test_llava_writes_the_same(llava: Path, tmp_path: Path) -> None:
    """A prompt that says where the image stands, and a chat whose template does."""
    file = photo(tmp_path / "image.png")
    said = ours(llava, file, "w5 <image> w6 w7")
    assert said
    assert said == theirs(llava, images=str(file), text="w5 <image> w6 w7")
    parts = [{"type": "image", "url": str(file)}, {"type": "text", "text": "w9 w6"}]
    chatted = ours(llava, file, "w9 w6", "--chat")
    assert chatted == theirs(llava, text=[{"role": "user", "content": parts}]) != said


def test_paligemma_writes_the_same(tmp_path: Path) -> None:
    """Its processor puts the image first, then the token that begins a text."""
    seen = SiglipImageProcessorPil(size={"height": SIDE, "width": SIDE})
    seen.image_seq_length = (SIDE // 7) ** 2
    source = published("paligemma", transformers.PaliGemmaProcessor(seen, tokenizer()))
    run("import", source, tmp_path / "kept", "--images")
    run("export", tmp_path / "kept", tmp_path / "exported")
    file = photo(tmp_path / "image.png")
    said = ours(tmp_path / "exported", file, "<image><s> w11 w23 w40\n")
    assert said == theirs(tmp_path / "exported", images=str(file), text="<image> w11 w23 w40") != ""


def test_blip_writes_the_same(tmp_path: Path) -> None:
    """Captions by cross-attention, from nothing and behind a beginning. Its processor frames the beginning as BERT does, and
    its class begins with another token in the place of the first, and ends with that between sentences."""
    table = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = {**table, "encoder_hidden_size": 32, "vocab_size": len(WORDS), "max_position_embeddings": 24, "projection_dim": 32}
    ends = {"bos_token_id": 4, "sep_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = transformers.BlipConfig(
        text_config={**text, **ends}, vision_config={**table, "image_size": SIDE, "patch_size": 14}, projection_dim=32, **ends
    )
    torch.manual_seed(0)
    made = transformers.BlipForConditionalGeneration(config).eval()
    randomise(made)
    made.generation_config = transformers.GenerationConfig(bos_token_id=3, eos_token_id=2, pad_token_id=0)
    made.save_pretrained(tmp_path / "published")
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(WORDS) + "\n")
    words = transformers.BertTokenizer(
        str(vocabulary), cls_token="<s>", sep_token="</s>", pad_token="<pad>", unk_token="<unk>", mask_token="<unk>"
    )
    seen = BlipImageProcessorPil(size={"height": SIDE, "width": SIDE})
    transformers.BlipProcessor(seen, words).save_pretrained(tmp_path / "published")
    run("import", tmp_path / "published", tmp_path / "kept", "--images")
    run("export", tmp_path / "kept", tmp_path / "exported")
    file = photo(tmp_path / "image.png")
    for prompt in ("", "w5 w6"):
        said = theirs(tmp_path / "exported", images=str(file), text=prompt)
        assert said.removeprefix(prompt).strip() == ours(tmp_path / "exported", file, prompt).strip() != "", prompt


def test_a_model_trained_on_images_here_writes_the_same(llava: Path, tmp_path: Path) -> None:
    """Its export says how images were made in training, not what its published files said."""
    place = llava.parent
    records = [{"image": photo(tmp_path / f"{n}.png", 30 + n, 30 + n).name, "text": f"w{10 + n} w4"} for n in range(6)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    run(
        "train", "--start-from", place / "kept", "--data", tmp_path / "data.jsonl", "--out", tmp_path / "run", "--set",
        "steps=2", "--set", "batch=2", "--no-compile", "--set", "objective.mean=[0.1,0.2,0.3]", "--set",
        "objective.deviation=[0.4]", "--set", "optimiser.learning_rate=0.01", "--set", "data.validation=0.2",
    )  # fmt: skip
    run("export", tmp_path / "run", tmp_path / "again", "--towers", llava)
    beside = Beside.read(tmp_path / "again")
    table = beside.table("processor_config.json")["image_processor"]
    assert (table["image_mean"], table["image_std"], table["crop_size"]) == ([0.1, 0.2, 0.3], [0.4] * 3, SQUARE["crop_size"])
    file = tmp_path / "3.png"
    shown = af.pixels(tmp_path / "run", [file])
    torch.testing.assert_close(af.pixels(tmp_path / "again", [file]), shown, rtol=1e-5, atol=1e-5)
    said = ours(tmp_path / "again", file, "<image>")
    assert said == theirs(tmp_path / "again", images=str(file), text="<image>") != ""
    assert said.split() == ours(tmp_path / "run", file).split()


RECTANGLE = {"size": {"height": 4, "width": 6}, "do_center_crop": False}
TRAINED = [
    (
        {"image_processor_type": "Qwen2VLImageProcessorFast", "min_pixels": 9},
        {"size": {"shortest_edge": 24, "longest_edge": 24}, "min_pixels": 24},
    ),
    ({"image_processor_type": "PixtralImageProcessor"}, {"size": {"longest_edge": 6}}),
    ({"image_processor_type": "CLIPImageProcessor", "do_center_crop": True}, RECTANGLE),
    ({}, {"image_processor_type": "CLIPImageProcessor", **RECTANGLE}),
]


@pytest.mark.parametrize(("inside", "sizes"), TRAINED)
def test_files_of_the_image_processor_say_how_images_were_made(inside: dict[str, Any], sizes: dict[str, Any]) -> None:
    """Where they stand already, or in a new one; all other keys as they were."""
    trained = af.huggingface.TrainedPixels(4, 6, (0.5, 0.4, 0.3), (0.2, 0.2, 0.2))
    name = "processor_config.json" if inside else "preprocessor_config.json"
    before = {name: json.dumps({"image_processor": {**inside, "own": 1}, "around": 2}).encode()} if inside else {}
    ((written, content),) = trained.files(Beside(before)).items()
    table = json.loads(content)
    found = table["image_processor"] if inside else table
    assert written == name
    assert found == {**inside, **found, **sizes, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2] * 3, "resample": 3}
    assert not inside or (table["around"], found["own"]) == (2, 1)


def test_images_stand_before_the_words_of_a_turn() -> None:
    shown = {"type": "image"}
    assert parts_of(["a", "b"], "image", 4, "<i>") == [[shown, shown, {"type": "text", "text": word}] for word in "ab"]
    for prompts, count in ((["a", "b"], 3), (["a <i>"], 1)):
        assert parts_of(prompts, "image", count, "<i>") == prompts
