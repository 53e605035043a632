"""What models hear of a sound: as transformers' extractors of features have it, and each sound of a batch as it is alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers

from anyformer.describe import DescriptionError
from anyformer.sound import FixedScale, KaldiMel, LogMel, NormalisedMel, SoundFeatures, SpeechMel, Waveform
from anyformer.sound.mel import hertz_of, mel_of

NEAR = {"rtol": 0.0, "atol": 1e-5}
SEAMLESS = KaldiMel(stack=2)
AST = KaldiMel(shape="hann", bins=128, gain=1.0, fixed=FixedScale(), length=64)
ALL = (LogMel(), NormalisedMel(), SEAMLESS, AST, SpeechMel(), Waveform(), Waveform(normalised=False))


def sounds(count: int = 2, samples: int = 8123, seed: int = 0) -> np.ndarray:
    """Noise whose colour and loudness change, as those of speech do."""
    draws = np.random.default_rng(seed).standard_normal((count, samples))
    smooth = np.stack([np.convolve(row, np.ones(5) / 5, mode="same") for row in draws])
    return (0.3 * smooth * np.sin(np.arange(samples) / 900) ** 2 + 0.01 * draws).astype(np.float32)


def heard(features: SoundFeatures, sound: np.ndarray) -> torch.Tensor:
    found = features.spectrum(torch.from_numpy(np.atleast_2d(sound)))
    assert found.dtype == torch.float32
    assert found.shape[1:] == (features.inputs, features.frames(sound.shape[-1]))
    return found


@pytest.mark.parametrize("bins", [80, 128])
def test_log_mel_is_whispers(bins):
    theirs = transformers.WhisperFeatureExtractor(feature_size=bins, chunk_length=1)
    for sound in sounds(samples=16_000):
        torch.testing.assert_close(
            heard(LogMel(bins=bins), sound), torch.tensor(theirs(sound, 16_000)["input_features"]), **NEAR
        )
    short = sounds(samples=7001)[0]
    wanted = torch.tensor(theirs(short, 16_000)["input_features"])
    torch.testing.assert_close(heard(LogMel(bins=bins), np.pad(short, (0, 8999))), wanted, **NEAR)


def test_normalised_mel_is_parakeets_of_a_batch_too():
    theirs = transformers.ParakeetFeatureExtractor()
    rows = [sounds()[0], sounds()[1][:5000]]
    found = theirs(rows, sampling_rate=16_000)
    padded = torch.from_numpy(np.stack([rows[0], np.pad(rows[1], (0, 3123))]))
    ours = NormalisedMel().spectrum(padded, torch.tensor([8123, 5000]))
    assert found["attention_mask"].sum(1).tolist() == [NormalisedMel().frames(len(row)) for row in rows]
    wanted = found["input_features"].transpose(1, 2)
    torch.testing.assert_close(ours, wanted[..., : ours.shape[2]], **NEAR)
    assert not wanted[..., ours.shape[2] :].any()


@pytest.mark.parametrize("samples", [8123, 8123 + 160])
def test_kaldi_mel_is_seamlesss(samples):
    theirs = transformers.SeamlessM4TFeatureExtractor()
    sound = sounds(samples=samples)[0]
    wanted = torch.tensor(theirs(sound, sampling_rate=16_000)["input_features"]).transpose(1, 2)
    torch.testing.assert_close(heard(SEAMLESS, sound), wanted, **NEAR)


@pytest.mark.parametrize("samples", [8123, 16_000])
def test_kaldi_mel_is_asts(samples):
    theirs = transformers.ASTFeatureExtractor(max_length=64)
    sound = sounds(samples=samples)[0]
    wanted = torch.tensor(np.asarray(theirs(sound, sampling_rate=16_000)["input_values"])).transpose(1, 2)
    torch.testing.assert_close(heard(AST, sound), wanted, **NEAR)


def test_speech_mel_is_speecht5s():
    theirs = transformers.SpeechT5FeatureExtractor()
    sound = sounds()[0]
    wanted = torch.tensor(np.asarray(theirs(audio_target=sound, sampling_rate=16_000)["input_values"])).transpose(1, 2)
    torch.testing.assert_close(heard(SpeechMel(), sound), wanted, **NEAR)


def test_the_waveform_is_wav2vecs_of_a_batch_too():
    theirs = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=True)
    rows = [sounds()[0], sounds()[1][:5000]]
    wanted = torch.tensor(np.asarray(theirs(rows, sampling_rate=16_000, padding=True)["input_values"]))
    padded = torch.from_numpy(np.stack([rows[0], np.pad(rows[1], (0, 3123))]))
    torch.testing.assert_close(Waveform().spectrum(padded, torch.tensor([8123, 5000]))[:, 0], wanted, **NEAR)


@pytest.mark.parametrize("features", ALL, ids=lambda each: f"{each.kind}-{each.digest[:4]}")
def test_a_sound_of_a_batch_is_heard_as_alone(features):
    whole = sounds(3)
    torch.testing.assert_close(heard(features, whole)[1:2], heard(features, whole[1]), **NEAR)
    assert features.inputs > 0
    again = SoundFeatures.parse(features.plain())
    assert again == features
    shortest = torch.zeros(1, features.least) + torch.linspace(0, 1, features.least)
    assert features.spectrum(shortest).isfinite().all()
    assert features.spectrum(shortest).shape[2] == features.frames(features.least) > 0


@pytest.mark.parametrize("features", [SEAMLESS, NormalisedMel(), Waveform(), AST])
def test_zeros_behind_a_sound_are_not_heard(features):
    whole = sounds(1, 5000)
    alone = heard(features, whole)
    padded = features.spectrum(torch.from_numpy(np.pad(whole, ((0, 0), (0, 2000)))), torch.tensor([5000]))
    torch.testing.assert_close(padded[..., : alone.shape[2]], alone, **NEAR)
    assert features is AST or not padded[..., alone.shape[2] :].any()


def test_sounds_that_are_too_short_and_bands_that_nobody_hears_are_refused():
    for features in ALL:
        with pytest.raises(ValueError, match=r"takes \(batch, samples\) of at least"):
            features.spectrum(torch.zeros(1, features.least - 1))
        with pytest.raises(ValueError, match=r"takes \(batch, samples\)"):
            features.spectrum(torch.zeros(4000))
    with pytest.raises(DescriptionError, match="half of rate = 8000 is at most"):
        LogMel(rate=8000)


@pytest.mark.parametrize("scale", ["slaney", "kaldi"])
def test_mels_and_back(scale):
    hertz = np.linspace(0, 8000, 99)
    np.testing.assert_allclose(hertz_of(mel_of(hertz, scale), scale), hertz, atol=1e-9)
    assert (np.diff(mel_of(hertz, scale)) > 0).all()
