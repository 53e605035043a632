"""Tokenizers that put the name of a text's language beside it: mBART's, mBART-50's, NLLB's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from anyformer.text.errors import DataError
from anyformer.text.frame import Around, Frame

Side = Literal["before", "behind"]
"""Where the language stands: before the text, or behind the token that ends it."""
_CLASSES: Mapping[str, tuple[Side, str]] = {
    "MBartTokenizer": ("behind", "en_XX"),
    "MBart50Tokenizer": ("before", "en_XX"),
    "NllbTokenizer": ("before", "eng_Latn"),
}
"""Classes of transformers that frame texts so, whatever their `tokenizer.json` says; and the language that is meant where the
configuration names none."""
_OF_TYPES = {"mbart": "MBartTokenizer", "nllb-moe": "NllbTokenizer"}
"""The class of a model's type, where the tokenizer's configuration names none."""


@dataclass(frozen=True)
class LanguagePair:
    """Where a tokenizer puts languages, and those of its configuration; `target` None: the same as of the source."""

    side: Side
    source: str
    target: str | None

    def frame(self, language: str, number_of: Callable[[str], int | None], end: int) -> Frame:
        """What stands around texts of a language: `LANGUAGE A </s>`, or `A </s> LANGUAGE`."""
        number = number_of(language)
        if number is None:
            raise DataError(f"this tokenizer puts the language of a text beside it, and has no token {language!r}")
        before, behind = ([number], [end]) if self.side == "before" else ([], [end, number])
        first, last = (tuple((each, 0) for each in tokens) for tokens in (before, behind))
        return Frame(Around((first, last), ((0, 0),)), Around((first, (), last), ((0, 0), (1, 0))))


def spoken(settings: Mapping[str, Any], config: Mapping[str, Any]) -> LanguagePair | None:
    """How a tokenizer names languages, by its `tokenizer_config.json` and the model's `config.json`; None if it names none."""
    name = settings.get("tokenizer_class") or _OF_TYPES.get(config.get("model_type", ""), "")
    found = _CLASSES.get(str(name).removesuffix("Fast"))
    if found is None:
        return None
    side, usual = found
    if settings.get("legacy_behaviour") is True and usual == "eng_Latn":
        side = "behind"
    return LanguagePair(side, settings.get("src_lang") or usual, settings.get("tgt_lang"))
