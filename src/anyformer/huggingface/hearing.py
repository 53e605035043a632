"""How a published model hears sounds: the features of its own preprocessor_config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anyformer.describe import DescriptionError
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.sound import LogMel
from anyformer.text.beside import Beside

_FILE, _AROUND, _INSIDE = "preprocessor_config.json", "processor_config.json", "feature_extractor"
_READ = {"feature_size": 80, "sampling_rate": 16_000, "hop_length": 160, "n_fft": 400, "chunk_length": 30}
"""Keys of Whisper's feature extractor, with the values of its class."""
_NOTHING = {"dither": 0.0, "padding_value": 0.0}
"""Keys that ask for nothing by these values."""


@dataclass(frozen=True)
class PublishedHearing:
    """The features of a model that hears `seconds` each time, with silence behind shorter sounds."""

    features: LogMel
    seconds: float


def published_hearing(beside: Beside) -> PublishedHearing | None:
    """How the files beside a model's weights say that it hears; None where they say nothing of sounds.

    `HuggingFaceError` names a feature extractor, or a setting of one, that is not computed here.
    """
    table = beside.table(_FILE)
    inner = beside.table(_AROUND).get(_INSIDE)
    table = table if table or not isinstance(inner, Mapping) else dict(inner)
    kind = table.get("feature_extractor_type")
    if kind is None:
        return None
    where = f"{beside.where}/{_FILE}" if beside.where else _FILE
    if kind != "WhisperFeatureExtractor":
        raise HuggingFaceError(
            f"{where}: feature_extractor_type = {kind!r}: how it hears is not computed here; describe it as objective.features "
            "of a run, and evaluate it with --set"
        )
    for key, nothing in _NOTHING.items():
        if table.get(key, nothing) != nothing:
            raise HuggingFaceError(f"{where}: {key} = {table[key]!r}: only {nothing} is computed here")
    return _whisper({key: table.get(key, usual) for key, usual in _READ.items()}, where)


def _whisper(table: Mapping[str, Any], where: str) -> PublishedHearing:
    own = {"bins": "feature_size", "rate": "sampling_rate", "hop": "hop_length", "window": "n_fft"}
    try:
        features = LogMel.parse({name: table[key] for name, key in own.items()})
    except DescriptionError as error:
        raise HuggingFaceError(
            f"{where}: {error} (of {', '.join(f'{key} = {table[key]!r}' for key in own.values())})"
        ) from None
    seconds = table["chunk_length"]
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or seconds <= 0:
        raise HuggingFaceError(f"{where}: chunk_length = {seconds!r} should be a number of seconds")
    return PublishedHearing(features, float(seconds))
