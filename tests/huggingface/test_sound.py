"""Composites read with their sound: logits, padding, decoding, gradients and the way back, as in transformers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import anyformer as af
from anyformer import huggingface
from anyformer.huggingface import HuggingFaceError
from anyformer.huggingface.composite_export import export_composite
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from huggingface.parity import SCRATCH, gap, randomise

TOKEN, VOCAB = 59, 60
_TEXT = {
    "hidden_size": 40, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCAB,
    "num_hidden_layers": 2,
}  # fmt: skip
_ENCODER = {"num_mel_bins": 6, "max_source_positions": 12}
_OLD = {**_ENCODER, "d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64}
_NEW = {**_ENCODER, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def _composite(audio: dict[str, Any], text: str, **more: Any) -> dict[str, Any]:
    return {"audio_config": audio, "text_config": {**_TEXT, "model_type": text}, **more}


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2_audio": ("qwen2_audio", _composite(_OLD, "qwen2", audio_token_index=TOKEN)),
    "qwen2_audio_relu": (
        "qwen2_audio", _composite({**_OLD, "activation_function": "relu"}, "qwen2", audio_token_index=3),
    ),
    "voxtral": ("voxtral", _composite(_NEW, "llama", audio_token_id=TOKEN)),
    "voxtral_four": (
        "voxtral",
        _composite({**_NEW, "intermediate_size": 128}, "llama", audio_token_id=TOKEN, projector_hidden_act="relu"),
    ),
    "audioflamingo3": ("audioflamingo3", _composite(_NEW, "qwen2", audio_token_id=TOKEN)),
    "audioflamingo3_plain": (
        "audioflamingo3",
        _composite(_NEW, "qwen2", audio_token_id=TOKEN, projector_bias=False, projector_hidden_act="silu"),
    ),
}  # fmt: skip
"""Name -> model type and configuration."""
MASKS = {"qwen2_audio": "feature_attention_mask", "audioflamingo3": "input_features_mask"}
"""Model type -> what its class calls the mask of frames; Voxtral has none."""


@dataclass(frozen=True)
class Heard:
    """Their model and ours, of the same weights, and where theirs was saved."""

    theirs: Any
    ours: Transformer
    directory: Path

    @property
    def tower(self) -> Any:
        return self.ours.architecture.audio

    @property
    def mask(self) -> str | None:
        return MASKS.get(self.theirs.config.model_type)


def class_of(model_type: str) -> Any:
    return getattr(transformers, huggingface.COMPOSITES[model_type].default_class)


@cache
def heard(name: str) -> Heard:
    """The models of a case."""
    model_type, config = CASES[name]
    made = transformers.AutoConfig.for_model(model_type, **config)
    torch.manual_seed(0)
    theirs = class_of(model_type)._from_config(made, attn_implementation="eager").eval()
    randomise(theirs)
    directory = Path(mkdtemp(dir=SCRATCH.name))
    theirs.save_pretrained(directory)
    return Heard(theirs, huggingface.load(directory, audio=True)[0], directory)


def sounds(both: Heard, count: int, seed: int = 1) -> tuple[Tensor, Tensor | None]:
    """Windows full of frames, and where the class masks them, padding of another length for each."""
    generator = torch.Generator().manual_seed(seed)
    audio = torch.randn(count, both.tower.sound, both.tower.embedding.features, generator=generator)
    if both.mask is None:
        return audio, None
    lengths = torch.tensor([both.tower.sound - 3 * k for k in range(count)])
    return audio, torch.arange(both.tower.sound) >= lengths[:, None]


def text(both: Heard, counts: tuple[int, ...], padding: Tensor | None, audio: Tensor, length: int = 40) -> Tensor:
    """A row for each number of sounds, at other places in each: (B, T)."""
    sizes = iter(both.tower.sizes(audio, padding))
    tokens = torch.randint(5, TOKEN, (len(counts), length), generator=torch.Generator().manual_seed(0))
    for row, number in enumerate(counts):
        first = 2 + row
        for _ in range(number):
            size = next(sizes)
            tokens[row, first : first + size] = both.tower.token
            first += size + 2
    return tokens


def their_logits(
    both: Heard, tokens: Tensor, audio: Tensor | None, silent: Tensor | None, padding: Tensor | None = None
) -> Tensor:
    """What transformers computes; with padding on the left, positions count from the first token."""
    more: dict[str, Any] = {}
    if audio is not None:
        more["input_features"] = audio.mT
        if both.mask is not None:
            more[both.mask] = torch.ones(audio.shape[:2]).long() if silent is None else (~silent).long()
    if padding is not None:
        more |= {"attention_mask": (~padding).long(), "position_ids": ((~padding).cumsum(1) - 1).clamp(min=0)}
    logits: Tensor = both.theirs(input_ids=tokens, **more).logits
    return logits


every = pytest.mark.parametrize("name", CASES)


@every
def test_it_says_what_transformers_says(name: str) -> None:
    """With sounds of unequal length, none in a row and several, padded and not, and with text alone."""
    both = heard(name)
    audio, silent = sounds(both, 3)
    tokens = text(both, (2, 0, 1), silent, audio)
    with torch.no_grad():
        assert gap(both.ours(tokens, audio=audio, audio_padding=silent), their_logits(both, tokens, audio, silent)) < 2e-5
        wide = torch.nn.functional.pad(tokens, (3, 0), value=5)
        padding = (torch.arange(wide.shape[1]) < 3).expand_as(wide)
        ours = both.ours(wide, audio=audio, audio_padding=silent, padding=padding)
        assert gap(ours[:, 3:], their_logits(both, wide, audio, silent, padding)[:, 3:]) < 2e-5
        plain = tokens.masked_fill(tokens == both.tower.token, 7)
        assert gap(both.ours(plain), their_logits(both, plain, None, None)) < 2e-5
        assert gap(both.ours(plain), both.ours(tokens, audio=audio, audio_padding=silent)) > 1e-3


@every
def test_it_decodes_with_a_cache(name: str) -> None:
    both = heard(name)
    audio, silent = sounds(both, 1)
    tokens = text(both, (1,), silent, audio, length=30)
    with torch.no_grad():
        state = both.ours.state(1, 30)
        first = both.ours(tokens[:, :26], audio=audio, audio_padding=silent, state=state)
        steps = [both.ours(piece, state=state) for piece in tokens[:, 26:].split(1, 1)]
        assert gap(torch.cat([first, *steps], 1), their_logits(both, tokens, audio, silent)) < 2e-5


@every
def test_gradients_of_all_weights_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    both = heard(name)
    audio, silent = sounds(both, 1)
    tokens = text(both, (1,), silent, audio)
    for model in (both.ours, both.theirs):
        model.zero_grad()
    both.ours(tokens, audio=audio, audio_padding=silent).square().mean().backward()
    their_logits(both, tokens, audio, silent).square().mean().backward()
    kept = {name: parameter.data for name, parameter in both.theirs.named_parameters()}
    for parameter in both.theirs.parameters():
        parameter.data = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    both.theirs.save_pretrained(tmp_path)
    for own, parameter in both.theirs.named_parameters():
        parameter.data = kept[own]
    theirs = dict(huggingface.load(tmp_path, audio=True)[0].named_parameters())
    for own, parameter in both.ours.named_parameters():
        if own != "audio.stack.position.weight":  # which the class freezes
            assert parameter.grad is not None, own
            assert float(theirs[own].abs().max()) > 0, own
            assert gap(parameter.grad, theirs[own]) < 1e-4, own


@every
def test_the_way_back(name: str, tmp_path: Path) -> None:
    """Every tensor as it was; after training transformers loads what changed, and says the same."""
    both = heard(name)
    export_composite(both.ours, tmp_path / "same", both.directory)
    again = type(both.theirs).from_pretrained(tmp_path / "same", attn_implementation="eager").eval()
    assert all(torch.equal(a, again.state_dict()[name]) for name, a in both.theirs.state_dict().items())
    changed, _ = huggingface.load(both.directory, audio=True)
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter.mul_(1.25)
    export_composite(changed, tmp_path / "changed", both.directory)
    theirs = type(both.theirs).from_pretrained(tmp_path / "changed", attn_implementation="eager").eval()
    audio, silent = sounds(both, 1)
    tokens = text(both, (1,), silent, audio)
    with torch.no_grad():
        other = their_logits(Heard(theirs, changed, tmp_path), tokens, audio, silent)
        assert gap(changed(tokens, audio=audio, audio_padding=silent), other) < 5e-5


def test_verify_and_a_checkpoint(tmp_path: Path) -> None:
    both = heard("qwen2_audio")
    verdict = huggingface.verify(both.directory, audio=True)
    assert verdict.agrees
    assert any(drift.where.startswith("audio.stack layer") for drift in verdict.drifts)
    assert not huggingface.left_aside(both.directory, audio=True)
    assert [tower.name for tower in huggingface.left_aside(both.directory)] == ["audio_tower", "multi_modal_projector"]
    model, _ = af.load(both.directory, audio=True)
    assert model.architecture == both.ours.architecture
    assert "audio" in af.cost(model.architecture, length=40).params.by_component


def test_what_is_not_read_is_refused() -> None:
    model_type, config = CASES["voxtral"]
    for changes, message in (
        ({"audio_config": {**_NEW, "intermediate_size": 48}}, "should be a multiple of hidden_size"),
        ({"audio_config": {**_NEW, "dropout": 0.1}}, "towers are computed without dropout"),
        ({"audio_config": {**_NEW, "model_type": "whisper"}}, "a tower of type 'whisper' is not read"),
        ({"audio_config": {**_NEW, "new_key": 1}}, "new_key"),
    ):
        with pytest.raises(HuggingFaceError, match=message):
            huggingface.read_architecture(huggingface.Config({**config, **changes, "model_type": model_type}), audio=True)
    for named, message in (("llama", "has no tower for sound"), ("llava", "the sound of llava is not read")):
        with pytest.raises(HuggingFaceError, match=message):
            huggingface.read_architecture(huggingface.Config({"model_type": named, "text_config": {}}), audio=True)


def test_costs_have_the_weights_of_both() -> None:
    both = heard("voxtral")
    whole, bare = (each.cost(Shape()).parameters for each in (both.ours.architecture, both.ours.architecture.but(audio=None)))
    tower = sum(p.numel() for n, p in both.theirs.named_parameters() if "audio_tower" in n or "projector" in n)
    assert whole - bare == tower
    saved = json.loads((both.directory / "config.json").read_text())
    assert huggingface.read_architecture(huggingface.Config(saved))[0] == both.ours.architecture.but(audio=None)
