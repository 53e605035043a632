"""Sound: files read by named formats alone (the extra `audio`), and what models hear of it. No torch before a spectrum."""

from anyformer.sound.features import SoundFeatures
from anyformer.sound.kaldi_mel import FixedScale, KaldiMel
from anyformer.sound.log_mel import LogMel, MelFeatures
from anyformer.sound.normalised_mel import NormalisedMel
from anyformer.sound.reading import SUFFIXES, SoundError, fitted_sound, read_sound, read_whole
from anyformer.sound.speech_mel import SpeechMel
from anyformer.sound.waveform import Waveform

__all__ = [
    "SUFFIXES",
    "FixedScale",
    "KaldiMel",
    "LogMel",
    "MelFeatures",
    "NormalisedMel",
    "SoundError",
    "SoundFeatures",
    "SpeechMel",
    "Waveform",
    "fitted_sound",
    "read_sound",
    "read_whole",
]
