"""Sparse dictionaries beside a model that is opened: which features are active at a token, and where one of them is.

These functions run in a process with torch, as those of `exploring.opened`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyformer.describe import UserError
from anyformer.exploring.opened import OpenedText, asked_of, model_of, rounded

if TYPE_CHECKING:
    from anyformer.inspecting import FeatureDictionary, FeatureReading

DICTIONARIES = 4
"""Dictionaries that stay loaded."""


@lru_cache(maxsize=DICTIONARIES)
def _dictionary(path: str, kept: Sequence[str], directory: str, kept_of_it: Sequence[str]) -> FeatureDictionary:
    from anyformer.evaluation.learnt_at import open_dictionary

    return open_dictionary(Path(directory), model_of(path, kept)[0])


def dictionaries(path: str, kept: Sequence[str], directories: Sequence[tuple[str, Sequence[str]]]) -> dict[str, Any]:
    """Of every directory the paths of the model whose values its dictionary reads and gives, or why it does not fit."""
    found: list[dict[str, Any]] = []
    for directory, kept_of_it in directories:
        try:
            each = _dictionary(path, kept, directory, kept_of_it)
            found.append(
                {"of": directory, "read": list(each.read), "written": list(each.written), "features": each.count, "why": None}
            )
        except UserError as error:
            found.append({"of": directory, "read": [], "written": [], "features": 0, "why": str(error)})
    return {"dictionaries": found}


def features(path: str, kept: Sequence[str], given: OpenedText, directory: str, kept_of_it: Sequence[str]) -> dict[str, Any]:
    """The features that are active at the position, the strongest first, with the tokens that they make likelier."""
    found, reading = _reading(path, kept, given, directory, kept_of_it)
    decode = model_of(path, kept)[1].decode
    strongest = reading.strongest(position=given.position)
    said = found.tokens([feature for feature, _ in strongest])
    lines = [
        {"feature": feature, "activation": round(value, 5), "tokens": [decode([token]) for token, _ in tokens]}
        for (feature, value), tokens in zip(strongest, said, strict=True)
    ]
    count = int((reading.active_BTF[0, given.position] > 0).sum())
    return {"read": list(found.read), "streamed": found.streamed, "count": count, "features": found.count, "active": lines}


def feature(
    path: str, kept: Sequence[str], given: OpenedText, directory: str, kept_of_it: Sequence[str], number: int
) -> dict[str, Any]:
    """The activation of a feature at every token, and the tokens that it makes likelier."""
    found, reading = _reading(path, kept, given, directory, kept_of_it)
    values, decode = reading.of(number), model_of(path, kept)[1].decode
    (tokens,) = found.tokens([number])
    return {"feature": number, "activations": rounded(values), "tokens": [decode([token]) for token, _ in tokens]}


def _reading(
    path: str, kept: Sequence[str], given: OpenedText, directory: str, kept_of_it: Sequence[str]
) -> tuple[FeatureDictionary, FeatureReading]:
    found = _dictionary(path, kept, directory, kept_of_it)
    return found, found.reading(asked_of(path, kept, given).clean)
