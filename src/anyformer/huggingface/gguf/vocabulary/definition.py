"""The `tokenizer.json` that splits text as llama.cpp does with a file's vocabulary.

It is what a file is read as, and what a vocabulary that is to be written is held against.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from anyformer.huggingface.gguf.vocabulary.accents import cleaning
from anyformer.huggingface.gguf.vocabulary.ends import special_ids, stops, type_of
from anyformer.huggingface.gguf.vocabulary.expressions import BY_NAME, PreTokenizer
from anyformer.huggingface.gguf.vocabulary.value import GgufVocabulary, TokenType

BLANK = "▁"
_ADDED = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
_PARSED = (TokenType.CONTROL, TokenType.USER_DEFINED, TokenType.UNKNOWN)
"""Types of tokens that are looked for in text before it is split."""
_REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": BLANK}
_PIECES_BACK = [{"type": "Replace", "pattern": {"String": BLANK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]


def definition(vocabulary: GgufVocabulary) -> dict[str, Any]:
    """The table of the `tokenizer.json`. `KeyError` for a model or a pre-tokenizer that is not known."""
    table = _MODELS[vocabulary.model](vocabulary)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(vocabulary),
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": _framing(vocabulary),
        **table,
    }


def knows(vocabulary: GgufVocabulary) -> bool:
    """Whether there is a definition of a model and a pre-tokenizer."""
    return vocabulary.model in _MODELS and (vocabulary.model != "gpt2" or vocabulary.pre in BY_NAME)


def words_of(pre: PreTokenizer) -> dict[str, Any]:
    """The stage that splits text."""
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False} for pattern in pre.patterns
    ]
    if pre.letters:
        steps.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False})
    return {"type": "Sequence", "pretokenizers": steps}


def _added(vocabulary: GgufVocabulary) -> list[dict[str, Any]]:
    stopping = stops(vocabulary)
    kinds = {number: type_of(vocabulary, number, stopping) for number in range(len(vocabulary.tokens))}
    return [
        {"id": number, "content": vocabulary.tokens[number], **_ADDED, "special": kind != TokenType.USER_DEFINED}
        for number, kind in kinds.items()
        if kind in _PARSED
    ]


def _framing(vocabulary: GgufVocabulary) -> dict[str, Any] | None:
    """What is put around a text, and around two: `bos A eos`, `bos A eos sep B eos`."""
    ids, flags = special_ids(vocabulary), vocabulary.flags
    bert = vocabulary.model == "bert"
    wanted = {
        "bos": bert or flags.get("add_bos_token", vocabulary.model in ("llama", "gemma4")),
        "eos": flags.get("add_eos_token", vocabulary.model == "t5") or bert,
        "sep": flags.get("add_sep_token", False) and not bert,
    }
    numbers = {role: ids.get("sep" if bert and role == "eos" else role) for role, put in wanted.items() if put}
    tokens = {role: vocabulary.tokens[number] for role, number in numbers.items() if number is not None}
    if not tokens.keys() & {"bos", "eos"}:
        return None

    def special(role: str, segment: int) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": tokens[role], "type_id": segment}}] if role in tokens else []

    first, second = ([{"Sequence": {"id": letter, "type_id": place}}] for place, letter in enumerate("AB"))
    single = [*special("bos", 0), *first, *special("eos", 0)]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, *special("sep", 0), *second, *special("eos", int(bert))],
        "special_tokens": {token: {"id": token, "ids": [numbers[role]], "tokens": [token]} for role, token in tokens.items()},
    }


def _table(vocabulary: GgufVocabulary) -> dict[str, int]:
    return {token: number for number, token in enumerate(vocabulary.tokens) if not vocabulary.padding(number)}


def _byte_pairs(vocabulary: GgufVocabulary) -> dict[str, Any]:
    pre = BY_NAME["gemma4" if vocabulary.model == "gemma4" else vocabulary.pre]
    words = _table(vocabulary)
    merges = [merge for text in vocabulary.merges if (merge := _merge(text))[0] + merge[1] in words]
    model = _pairs_of(words, merges, ignore_merges=pre.whole_words, byte_fallback=not pre.letters)
    if pre.letters:
        decoder: dict[str, Any] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
        return {"model": model, "pre_tokenizer": words_of(pre), "decoder": decoder}
    # A word of newlines alone is a token of its own, as every word of such a vocabulary that is one would be.
    return {
        "model": model,
        "normalizer": _REPLACE,
        "pre_tokenizer": words_of(pre),
        "decoder": {"type": "Sequence", "decoders": _PIECES_BACK},
    }


def _merge(text: str) -> tuple[str, str]:
    """The two sides of a merge, parted by the first blank that is not its first character."""
    cut = text.find(" ", 1)
    return (text[:cut], text[cut + 1 :]) if cut > 0 else ("", "")


def _sentence_pieces(vocabulary: GgufVocabulary) -> dict[str, Any]:
    """Pairs whose sum is a token are merged, the one with the greatest score first."""
    words = _table(vocabulary)
    scores = vocabulary.scores or (0.0,) * len(vocabulary.tokens)
    found = []
    for token, number in words.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in words and right in words:
                found.append((-scores[number], number, words[left], words[right], left, right))
    merges = [(left, right) for *_, left, right in sorted(found)]
    prefix = vocabulary.flags.get("add_space_prefix", True)
    steps = [{"type": "Prepend", "prepend": BLANK}] if prefix else []
    back = [*_PIECES_BACK, *([{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else [])]
    unknown = vocabulary.tokens[special_ids(vocabulary).get("unk", 0)]
    return {
        "model": _pairs_of(words, merges, byte_fallback=True) | {"unk_token": unknown, "fuse_unk": True},
        "normalizer": {"type": "Sequence", "normalizers": [*steps, _REPLACE]},
        "decoder": {"type": "Sequence", "decoders": back},
    }


def _pairs_of(
    words: Mapping[str, int], merges: list[tuple[str, str]], ignore_merges: bool = False, byte_fallback: bool = False
) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": byte_fallback,
        "ignore_merges": ignore_merges,
        "vocab": words,
        "merges": [list(merge) for merge in merges],
    }


def _word_pieces(vocabulary: GgufVocabulary) -> dict[str, Any]:
    """The longest pieces from left to right; a piece that begins a word is spelt `▁` there, others have no sign."""
    words = {}
    for token, number in _table(vocabulary).items():
        plain = vocabulary.types[number] == TokenType.NORMAL
        words[(token[1:] if token.startswith(BLANK) else f"##{token}") if plain else token] = number
    lower = vocabulary.flags.get("normalizer.lowercase", True)
    unknown = vocabulary.tokens[special_ids(vocabulary)["unk"]]
    return {
        "model": {
            "type": "WordPiece",
            "unk_token": unknown,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 1_000_000,
            "vocab": words,
        },
        "normalizer": cleaning(lower, vocabulary.flags.get("normalizer.strip_accents", lower)),
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    }


def _unigrams(vocabulary: GgufVocabulary) -> dict[str, Any]:
    """The pieces whose scores have the greatest sum."""
    steps: list[dict[str, Any]] = []
    if vocabulary.charsmap:
        steps.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(vocabulary.charsmap).decode()})
    merged = vocabulary.flags.get("remove_extra_whitespaces", False)
    if merged:
        steps += [
            {"type": "Strip", "strip_left": True, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        ]
    prefix = merged or vocabulary.flags.get("add_space_prefix", False)
    steps += [{"type": "Prepend", "prepend": BLANK}] if prefix else []
    scores = vocabulary.scores or (0.0,) * len(vocabulary.tokens)
    free = (TokenType.USER_DEFINED,)
    size = next((n for n in range(len(vocabulary.tokens), 0, -1) if not vocabulary.padding(n - 1)), 0)
    return {
        "model": {
            "type": "Unigram",
            "unk_id": special_ids(vocabulary)["unk"],
            "vocab": [[vocabulary.tokens[n], 0.0 if vocabulary.types[n] in free else scores[n]] for n in range(size)],
            "byte_fallback": False,
        },
        "normalizer": {"type": "Sequence", "normalizers": [*steps, _REPLACE]},
        "decoder": {
            "type": "Metaspace",
            "replacement": BLANK,
            "prepend_scheme": "always" if prefix else "never",
            "split": False,
        },
    }


_MODELS: Mapping[str, Callable[[GgufVocabulary], dict[str, Any]]] = {
    "gpt2": _byte_pairs,
    "gemma4": _byte_pairs,
    "llama": _sentence_pieces,
    "bert": _word_pieces,
    "t5": _unigrams,
}
