"""Exported models of speech in transformers' `pipeline("automatic-speech-recognition")`: the same text as here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import pipeline

import anyformer as af
from anyformer.generation import Sampling
from anyformer.generation.decode import continued
from huggingface.parity import randomise

LETTERS = "abcdefghijklmnopqrstuvw"
WORDS = [*LETTERS, "<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"]
END, START = len(LETTERS), len(LETTERS) + 1
GREEDY = {"max_new_tokens": 12, "do_sample": False, "num_beams": 1}
SOUNDS = [np.random.default_rng(seed).standard_normal(count).astype(np.float32) for seed, count in ((0, 16_000), (1, 9_000))]


def _vocabulary(directory: Path) -> None:
    """Whisper's kind of tokenizer, of single letters and no merges."""
    (directory / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(WORDS)}))
    (directory / "merges.txt").write_text("#version: 0.2\n")
    made = transformers.WhisperTokenizer(
        str(directory / "vocab.json"), str(directory / "merges.txt"), unk_token="<|endoftext|>", bos_token="<|endoftext|>",
        eos_token="<|endoftext|>", pad_token="<|endoftext|>", additional_special_tokens=WORDS[-2:],
    )  # fmt: skip
    made.save_pretrained(directory)


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Whisper, imported and exported, with its processor beside it."""
    place = tmp_path_factory.mktemp("whisper")
    config = transformers.WhisperConfig(
        vocab_size=len(WORDS), d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, num_mel_bins=80, max_target_positions=40,
        pad_token_id=END, bos_token_id=END, eos_token_id=END, decoder_start_token_id=START,
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = transformers.WhisperForConditionalGeneration(config).eval()
    randomise(theirs)
    with torch.no_grad():
        for weight in theirs.model.decoder.parameters():
            weight.mul_(2.0 if weight.dim() > 1 else 1.0)  # so that it prefers some letters clearly
    settings = {"decoder_start_token_id": START, "eos_token_id": END, "pad_token_id": END, "bos_token_id": END}
    theirs.generation_config = transformers.GenerationConfig(**settings)
    theirs.save_pretrained(place / "model")
    model, _ = af.load(place / "model")
    af.export(model, place / "exported")
    (place / "exported" / "generation_config.json").write_text(json.dumps(settings))
    _vocabulary(place / "exported")
    transformers.WhisperFeatureExtractor(feature_size=80).save_pretrained(place / "exported")
    return place / "exported"


def test_whisper_hears_the_same(whisper: Path) -> None:
    recogniser: Any = pipeline("automatic-speech-recognition", model=str(whisper), dtype=torch.float32)
    said = [recogniser(sound, generate_kwargs=GREEDY)["text"] for sound in SOUNDS]
    model, _ = af.load(whisper)
    frames = recogniser.feature_extractor(SOUNDS, sampling_rate=16_000, return_tensors="pt").input_features.mT
    greedy = continued(
        model, [[START]] * len(SOUNDS), source=frames, sampling=Sampling(temperature=0), max_tokens=12, ends=[END]
    )
    tokens = torch.stack([token for token, _ in greedy], 1)
    ours = recogniser.tokenizer.batch_decode(tokens, skip_special_tokens=True)
    assert said == ours
    assert len(set(ours)) == len(SOUNDS)
    assert all(ours)


def test_wav2vec_hears_the_same(tmp_path: Path) -> None:
    """The likeliest character of every position, runs of one joined, blanks left out."""
    config = transformers.Wav2Vec2Config(
        vocab_size=4 + len(LETTERS), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        conv_dim=[16, 16, 16], conv_kernel=[10, 8, 4], conv_stride=[8, 8, 5], num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4, feat_extract_norm="layer", do_stable_layer_norm=True, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = transformers.Wav2Vec2ForCTC(config).eval()
    randomise(theirs)
    theirs.save_pretrained(tmp_path / "model")
    model, _ = af.load(tmp_path / "model")
    exported = tmp_path / "exported"
    af.export(model, exported)
    words = ["<pad>", "<s>", "</s>", "|", *LETTERS]
    (exported / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    transformers.Wav2Vec2CTCTokenizer(str(exported / "vocab.json"), unk_token="<pad>").save_pretrained(exported)
    transformers.Wav2Vec2FeatureExtractor(do_normalize=True).save_pretrained(exported)
    recogniser: Any = pipeline("automatic-speech-recognition", model=str(exported), dtype=torch.float32)
    said = [recogniser(sound)["text"] for sound in SOUNDS]
    ours = []
    for sound in SOUNDS:
        normed = (sound - sound.mean()) / np.sqrt(sound.var() + 1e-7)
        with torch.no_grad():
            best = model(torch.from_numpy(normed)[None])[0].argmax(-1)
        ours.append(recogniser.tokenizer.decode(best.tolist()))
    assert said == ours
    assert all(len(text) > 3 for text in ours)
