"""How llama.cpp cleans text before it splits it into WordPiece's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SYLLABLES, _LEADS, _EACH = 0xAC00, 0x1100, 588
"""The first Hangul syllable, the first leading consonant, the syllables that begin with one consonant."""
_BLANKS = "[\x0b\x0c\x85]"
"""Control characters that part words there, and vanish in transformers."""
Step = dict[str, Any]


def cleaning(lowercase: bool, strip_accents: bool) -> Step:
    """The normaliser: of a character that decomposes the first part is kept, and with accents every mark is left out."""
    steps = [_replaced(_BLANKS, " ")]
    if strip_accents:
        for place in range(19):
            first = _SYLLABLES + place * _EACH
            steps.append(_replaced(f"[{chr(first)}-{chr(first + _EACH - 1)}]", chr(_LEADS + place)))
        steps += [{"type": "NFD"}, _replaced(r"\p{M}", "")]
    bert = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": False, "lowercase": lowercase}
    return {"type": "Sequence", "normalizers": [*steps, {"type": "BertNormalizer", **bert}]}


def asked(step: Mapping[str, Any]) -> tuple[bool, bool]:
    """(whether capitals become small letters, whether accents are left out) of a `BertNormalizer`."""
    lower, accents = bool(step.get("lowercase")), step.get("strip_accents")
    return lower, lower if accents is None else bool(accents)


def _replaced(pattern: str, content: str) -> Step:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}
