"""Sound: files read by named formats alone, and what models hear of it. The extra `audio`."""

from anyformer.sound.reading import SUFFIXES, SoundError, fitted_sound, read_sound

__all__ = ["SUFFIXES", "SoundError", "fitted_sound", "read_sound"]
