"""Text that a composite writes to files of sound among its tokens: what transformers' class writes."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from typer.testing import CliRunner

import anyformer as af
from anyformer import huggingface
from anyformer.cli import app
from anyformer.describe import InputError, UserError
from anyformer.generation import Beams, Sampling, SoundFrames
from anyformer.generation.sounds import with_sounds
from huggingface.parity import randomise
from huggingface.test_sound import CASES, TOKEN, class_of

BANDS, POSITIONS, RATE, NEW = 12, 50, 16_000, 5
SIZES = {"num_mel_bins": BANDS, "max_source_positions": POSITIONS}
WORDS = ["<pad>", "<end>", *(f"w{number}" for number in range(2, TOKEN)), "<sound>"]
CHAT = (
    "{% for turn in messages %}w7 {% for part in turn['content'] %}{% if part['type'] == 'audio' %}w8 <sound> {% else %}"
    "{{ part['text'] + ' ' }}{% endif %}{% endfor %}{% endfor %}{% if add_generation_prompt %}w9{% endif %}"
)
EAR = transformers.WhisperFeatureExtractor(feature_size=BANDS, chunk_length=1)
SECONDS = (0.303, 0.77)


def said_in(seconds: float) -> Any:
    return np.random.default_rng(int(100 * seconds)).integers(-9_000, 9_000, int(seconds * RATE)).astype(np.int16)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("sounds")
    for seconds in SECONDS:
        with wave.open(str(place / f"{seconds}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(said_in(seconds).tobytes())
    return [place / f"{seconds}.wav" for seconds in SECONDS]


def published(name: str, place: Path) -> Any:
    """A tiny composite with windows of a second, its feature extractor and a tokenizer beside it; returns its model."""
    model_type, config = CASES[name]
    made = transformers.AutoConfig.for_model(model_type, **{**config, "audio_config": {**config["audio_config"], **SIZES}})
    torch.manual_seed(0)
    theirs = class_of(model_type)._from_config(made, attn_implementation="eager").eval()
    randomise(theirs)
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.mul_(2 if weight.dim() > 1 else 1)
    theirs.generation_config = transformers.GenerationConfig(pad_token_id=0, eos_token_id=1)
    theirs.save_pretrained(place)
    EAR.save_pretrained(place)
    inner = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="w2"))
    inner.pre_tokenizer = WhitespaceSplit()
    inner.add_special_tokens([AddedToken(word, special=True) for word in WORDS if word.startswith("<")])
    named = {"chat_template": CHAT, "eos_token": "<end>", "pad_token": "<pad>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **named).save_pretrained(place)
    return theirs


def their_words(theirs: Any, words: str, seconds: float) -> str:
    """What their class writes, greedily, with as many tokens as the sound takes."""
    heard = EAR(said_in(seconds) / 2**15, sampling_rate=RATE, return_tensors="pt", return_attention_mask=True)
    masked = theirs.config.model_type == "qwen2_audio"
    positions = (int(heard.attention_mask.sum()) - 1) // 2 + 1 if masked else POSITIONS
    size = (positions - 2) // 2 + 1 if masked else POSITIONS // 2
    numbers = [number for word in words.split() for number in [WORDS.index(word)] * (size if word == "<sound>" else 1)]
    given = {"input_ids": torch.tensor([numbers]), "input_features": heard.input_features}
    if masked:
        given["feature_attention_mask"] = heard.attention_mask
    tokens = theirs.generate(**given, max_new_tokens=NEW, do_sample=False)[0, len(numbers) :]
    return " ".join(WORDS[token] for token in tokens if token > 1)


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def ours(model: Path, files: list[Path], *prompt: str) -> list[str]:
    asked = ["generate", model, *prompt, *(f"--audio={file}" for file in files), "--max-tokens", NEW, "--temperature", 0]
    lines = run(*asked, "--json").strip().splitlines()
    return [json.loads(line)["text"].strip() for line in lines if line.startswith("{")]


@pytest.mark.parametrize("name", ["qwen2_audio", "voxtral"])
def test_a_composite_says_of_files_what_transformers_says(name: str, files: list[Path], tmp_path: Path) -> None:
    """From the directory and the checkpoint imported from it; of two prompts with sounds of unequal length, and in a chat."""
    theirs = published(name, tmp_path / "published")
    run("import", tmp_path / "published", tmp_path / "kept", "--audio")
    prompts = ("w5 <sound> w6", "<sound> w4 w3 w11")
    wanted = [their_words(theirs, prompt, seconds) for prompt, seconds in zip(prompts, SECONDS, strict=True)]
    assert wanted[0] != wanted[1]
    for model in (tmp_path / "published", tmp_path / "kept"):
        assert ours(model, files, *prompts) == wanted
    chat = their_words(theirs, "w7 w8 <sound> w10 w9", SECONDS[1])
    assert ours(tmp_path / "kept", files[1:], "w10", "--chat") == [chat]


def test_what_cannot_be_said_of_sounds_is_refused(files: list[Path], tmp_path: Path) -> None:
    published("qwen2_audio", tmp_path)
    model, tokenizer = af.load(tmp_path, audio=True)
    frames = SoundFrames(*huggingface.sounds(files, tmp_path))
    greedy: dict[str, Any] = {"sampling": Sampling(temperature=0), "max_tokens": 2, "sounds": frames}
    for more, message in (
        ({"batch": 1}, "leave batch = 1 out"), ({"beams": Beams(count=2)}, "leave the beams out"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            af.generate(model, tokenizer, ["<sound>", "<sound> w4"], **{**greedy, **more})
    with pytest.raises(InputError, match=f"2 sounds are given, and the prompts have 1 tokens {TOKEN}"):
        af.generate(model, tokenizer, ["<sound>", "w4"], **greedy)
    with pytest.raises(InputError, match="audio should have shape"):
        with_sounds(model, [[TOKEN]], SoundFrames(torch.zeros(1, 9, BANDS + 1)))
    with pytest.raises(InputError, match="reads no sound"):
        af.generate(af.load(tmp_path)[0], tokenizer, "<sound>", **greedy)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**EAR.to_dict(), "chunk_length": 0.5}))
    with pytest.raises(UserError, match=r"lasts 0.77 s, and .* hears 0.5 s at most"):
        huggingface.sounds(files, tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(UserError, match="says how sounds become frames"):
        huggingface.sounds(files, tmp_path)
