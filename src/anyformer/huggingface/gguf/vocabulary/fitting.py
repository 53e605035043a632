"""A tokenizer without the few things that llama.cpp never does, whatever a file says, each with a sentence for its user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from anyformer.huggingface.gguf.vocabulary.accents import asked, cleaning
from anyformer.huggingface.gguf.vocabulary.ends import known_texts
from anyformer.text.definition import vocabulary

Table = dict[str, Any]
Stage = Mapping[str, Any]
BLANK = "▁"
_LONG = 1_000_000
_ESCAPE = {"type": "Replace", "pattern": {"String": " "}, "content": BLANK}
_STRIP = {"type": "Strip", "strip_left": True, "strip_right": True}


def fitted(table: Table) -> tuple[Table, tuple[str, ...]]:
    """A `tokenizer.json` that llama.cpp can follow, and what its user has to know; nothing where nothing was changed."""
    notices = []
    for change in (_uncomposed, _first_blank, _blank_sign, _plain_specials, _long_words, _cleaned, _by_graphemes, _known_texts):
        table, notice = change(table)
        notices += [notice] if notice else []
    return table, tuple(notices)


def stages(stage: Any) -> Iterator[Stage]:
    """The steps of a stage of a `tokenizer.json`, however they are nested."""
    if isinstance(stage, Mapping):
        inner = stage.get("pretokenizers") or stage.get("normalizers") or stage.get("decoders")
        if inner is None:
            yield stage
        else:
            for each in inner:
                yield from stages(each)


def takes_blanks(token: Stage) -> bool:
    """Whether a special token takes blanks beside it, or stands as a word alone."""
    return bool(token["lstrip"] or token["rstrip"] or token["single_word"])


def _uncomposed(table: Table) -> tuple[Table, str]:
    steps = list(stages(table.get("normalizer")))
    kept = [dict(step) for step in steps if step["type"] != "NFC"]
    if len(kept) == len(steps):
        return table, ""
    changed = table | {"normalizer": {"type": "Sequence", "normalizers": kept} if kept else None}
    return changed, "composes characters (NFC), and llama.cpp does not: give it text in NFC"


def _first_blank(table: Table) -> tuple[Table, str]:
    steps = list(stages(table.get("pre_tokenizer")))
    scheme = next((step["prepend_scheme"] for step in steps if step["type"] == "Metaspace"), "never")
    if scheme == "never":
        return table, ""
    made = [dict(each) for each in stages(table.get("normalizer"))]
    if any(step["type"] == "WhitespaceSplit" for step in steps):
        made += [{"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}, _STRIP]
    stripped = any(step["type"] == "Strip" and step["strip_left"] for step in made)
    made += [{"type": "Prepend", "prepend": BLANK}, _ESCAPE]
    changed = table | {"pre_tokenizer": None, "normalizer": {"type": "Sequence", "normalizers": made}}
    behind = "" if scheme == "always" else " and before text behind a special token"
    if stripped and not behind:
        return changed, ""
    return changed, (
        "puts a blank before a text that begins with none; llama.cpp puts one before every text"
        f"{behind}: give it a text without its first blank"
    )


def _blank_sign(table: Table) -> tuple[Table, str]:
    """Characters as tokens, a blank among them, which llama.cpp spells `▁`."""
    model = table["model"]
    words = model["vocab"]
    if model.get("type") != "BPE" or model["merges"] or table.get("normalizer") or " " not in words or BLANK in words:
        return table, ""
    spelt = {BLANK if word == " " else word: number for word, number in words.items()}
    changed = table | {"model": model | {"vocab": spelt}, "normalizer": _ESCAPE}
    return changed, f"has no token for {BLANK!r}, which is a blank to llama.cpp"


def _plain_specials(table: Table) -> tuple[Table, str]:
    taking = [token["content"] for token in table["added_tokens"] if takes_blanks(token)]
    if not taking:
        return table, ""
    plain = {"lstrip": False, "rstrip": False, "single_word": False}
    more = f" and {len(taking) - 3} more" if len(taking) > 3 else ""
    return (
        table | {"added_tokens": [token | plain for token in table["added_tokens"]]},
        f"{', '.join(map(repr, taking[:3]))}{more} take blanks beside them or stand as words alone, which llama.cpp ignores",
    )


def _long_words(table: Table) -> tuple[Table, str]:
    most = table["model"].get("max_input_chars_per_word")
    if table["model"].get("type") != "WordPiece" or most is None or most >= _LONG:
        return table, ""
    changed = table | {"model": table["model"] | {"max_input_chars_per_word": _LONG}}
    return changed, f"a word of more than {most} characters is unknown to it, and llama.cpp splits one of any length"


def _cleaned(table: Table) -> tuple[Table, str]:
    step = table.get("normalizer") or {}
    if table["model"].get("type") != "WordPiece" or step.get("type") != "BertNormalizer":
        return table, ""
    lower, accents = asked(step)
    changed = table | {"normalizer": cleaning(lower, accents)}
    if not accents:
        return changed, "vertical tabs and page breaks vanish in it, and part words in llama.cpp"
    return changed, (
        "leaves accents out; llama.cpp leaves out vowels of Hangul, Devanagari, Bengali and other scripts too: do not give it "
        "text in these"
    )


def _by_graphemes(table: Table) -> tuple[Table, str]:
    mapped = any(step["type"] == "Precompiled" for step in stages(table.get("normalizer")))
    told = "maps characters by a table, letters with their marks at once, and llama.cpp one by one: give it text in NFKC"
    return table, told if mapped else ""


def _known_texts(table: Table) -> tuple[Table, str]:
    """Ordinary tokens that llama.cpp takes for special ones by their texts, whatever their type."""
    added, words = {token["content"] for token in table["added_tokens"]}, vocabulary(table["model"])
    found = sorted(text for text in known_texts(words) - added)
    if not found:
        return table, ""
    plain = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True}
    more = [{"id": words[text], "content": text, **plain} for text in found]
    changed = table | {"added_tokens": sorted([*table["added_tokens"], *more], key=lambda token: int(token["id"]))}
    return changed, f"{', '.join(map(repr, found))} is text to it, and to llama.cpp a special token wherever text has it"
