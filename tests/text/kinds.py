"""Small tokenizers of every kind that models are published with."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers

from huggingface.layouts import TEXT
from text.odd import SCRIPTS

SPECIALS = ["<unk>", "<s>", "</s>", "<pad>"]
LEARNT = [TEXT, *SCRIPTS, "don't can't it's we've", "unbelievable unrelated underneath 1234 5678"] * 2
MARKS = (decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse())
SENTENCEPIECE = decoders.Sequence([*MARKS, decoders.Strip(" ", left=1)])
CHARACTERS = {
    "ﬁ": "fi",
    "ﬂ": "fl",
    "Ａ": "A",
    "\u3000": " ",
    "\u00a0": " ",
    "½": "1/2",
    "e\u0301": "é",
    "\u200b": "",
    "™": "TM",
}


def byte_level(space: bool = False) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=space), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIALS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    inner.train_from_iterator(LEARNT, trainer)
    return _framed(inner, processors.ByteLevel(trim_offsets=space))


def byte_fallback(prefix: bool = True) -> tokenizers.Tokenizer:
    """As Llama's and, without a prefix, as Gemma's: a mark for blanks, bytes for what it lacks."""
    inner = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    marks: list[normalizers.Normalizer] = [normalizers.Replace(" ", "▁")]
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), *marks] if prefix else marks)
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=520, special_tokens=[*SPECIALS, *bytes_], limit_alphabet=80, show_progress=False)
    inner.train_from_iterator([TEXT] * 3, trainer)
    inner.decoder = SENTENCEPIECE if prefix else decoders.Sequence([*MARKS])
    return _framed(_ordinary(inner, bytes_))


def metaspace() -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
    inner.pre_tokenizer, inner.decoder = (
        pre_tokenizers.Metaspace(prepend_scheme="first"),
        decoders.Metaspace(prepend_scheme="first"),
    )
    inner.train_from_iterator([TEXT] * 3, trainers.BpeTrainer(vocab_size=200, special_tokens=SPECIALS, show_progress=False))
    return _framed(inner)


def unigram() -> tokenizers.Tokenizer:
    """As T5's: pieces with scores, behind a normaliser that is a table of characters."""
    inner = tokenizers.Tokenizer(models.Unigram())
    inner.normalizer = normalizers.Sequence(
        [normalizers.Precompiled(charsmap(CHARACTERS)), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
    )
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=240, special_tokens=SPECIALS, unk_token="<unk>", show_progress=False)
    inner.train_from_iterator([TEXT] * 3, trainer)
    return _framed(inner)


def word_piece() -> tokenizers.Tokenizer:
    """As BERT's: small letters without accents, pieces of words."""
    inner = tokenizers.Tokenizer(models.WordPiece(unk_token="<unk>", max_input_chars_per_word=100))
    inner.normalizer, inner.pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece(cleanup=False)
    inner.train_from_iterator(LEARNT, trainers.WordPieceTrainer(vocab_size=500, special_tokens=SPECIALS, show_progress=False))
    return _framed(inner)


def words() -> tokenizers.Tokenizer:
    """Whole words, and no decoder."""
    inner = tokenizers.Tokenizer(models.WordLevel(unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.train_from_iterator(LEARNT, trainers.WordLevelTrainer(vocab_size=100, special_tokens=SPECIALS, show_progress=False))
    return _framed(inner)


def ends_of_words() -> tokenizers.Tokenizer:
    """As the first GPT's: a mark behind each word."""
    inner = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    inner.normalizer, inner.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.BPEDecoder(suffix="</w>")
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIALS, end_of_word_suffix="</w>", show_progress=False)
    inner.train_from_iterator(LEARNT, trainer)
    return _framed(inner)


FAST: Mapping[str, Any] = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
}
KINDS: Mapping[str, tuple[Callable[[], tokenizers.Tokenizer], Mapping[str, Any]]] = {
    "byte level": (byte_level, FAST),
    "byte level, prefix space": (lambda: byte_level(space=True), FAST | {"add_prefix_space": True}),
    "byte fallback": (byte_fallback, FAST),
    "byte fallback, of Llama's class": (byte_fallback, FAST | {"tokenizer_class": "LlamaTokenizer", "legacy": False}),
    "byte fallback, of Llama's older class": (byte_fallback, FAST | {"tokenizer_class": "LlamaTokenizerFast", "legacy": True}),
    "byte fallback, no prefix": (lambda: byte_fallback(prefix=False), FAST),
    "metaspace": (metaspace, FAST),
    "unigram": (unigram, FAST),
    "word pieces": (word_piece, FAST),
    "word pieces, cleaned": (word_piece, FAST | {"clean_up_tokenization_spaces": True}),
    "words": (words, FAST),
    "ends of words": (ends_of_words, FAST),
}


def charsmap(table: Mapping[str, str]) -> bytes:
    """SentencePiece's compiled table of characters: a double array of their bytes, and the texts that replace them."""
    blob, places = b"", {}
    for key, text in table.items():
        places[key.encode()] = len(blob)
        blob += text.encode() + b"\0"
    units = {0: 0}
    _place(units, 0, dict(places), set())
    array = [units.get(place, 0) for place in range(max(units) + 257)]
    packed = struct.pack(f"<{len(array)}I", *array)
    return struct.pack("<I", len(packed)) + packed + blob


def _place(units: dict[int, int], at: int, keys: Mapping[bytes, int], bases: set[int]) -> None:
    """Write the children of the unit `at`: of each first byte one unit, and the value of the empty key."""
    groups: dict[int, dict[bytes, int]] = {}
    for key, value in keys.items():
        groups.setdefault(key[0] if key else 0, {})[key[1:]] = value
    base = next(base for base in range(1, 1 << 20) if base not in bases and all(base ^ byte not in units for byte in groups))
    bases.add(base)
    units[at] |= (at ^ base) << 10 | (0 in groups) << 8
    for byte, rest in groups.items():
        units[base ^ byte] = rest[b""] | 1 << 31 if byte == 0 else byte
    for byte, rest in groups.items():
        if byte:
            _place(units, base ^ byte, rest, bases)


def _ordinary(inner: tokenizers.Tokenizer, words: list[str]) -> tokenizers.Tokenizer:
    """With some of its special tokens as words of the model alone, as bytes are."""
    table = json.loads(inner.to_str())
    table["added_tokens"] = [token for token in table["added_tokens"] if token["content"] not in words]
    return tokenizers.Tokenizer.from_str(json.dumps(table))


def _framed(inner: tokenizers.Tokenizer, before: processors.PostProcessor | None = None) -> tokenizers.Tokenizer:
    """With `<s>` before a text and `</s>` behind it, and an added token that takes the blanks before it."""
    inner.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    inner.add_tokens([AddedToken("<think>", special=False, normalized=False)])
    tokens = [(name, inner.token_to_id(name)) for name in ("<s>", "</s>")]
    frame = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=tokens)
    inner.post_processor = frame if before is None else processors.Sequence([before, frame])
    return inner
