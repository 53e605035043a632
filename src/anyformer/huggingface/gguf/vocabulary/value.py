"""`GgufVocabulary`: what a GGUF file says of a tokenizer, under `tokenizer.ggml.*`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

PREFIX = "tokenizer.ggml."
TEMPLATE = "tokenizer.chat_template"
TEMPLATE_NAMES = "tokenizer.chat_templates"
USUAL = "default"
"""The name of the template that has a key of its own."""
MODEL, PRE, TOKENS, TYPES, SCORES, MERGES, CHARSMAP = (
    f"{PREFIX}{name}" for name in ("model", "pre", "tokens", "token_type", "scores", "merges", "precompiled_charsmap")
)
IDS: Mapping[str, str] = {
    role: f"{PREFIX}{name}_token_id"
    for role, name in {
        "bos": "bos", "eos": "eos", "eot": "eot", "eom": "eom", "unk": "unknown", "sep": "seperator", "pad": "padding",
        "cls": "cls", "mask": "mask", "fim_pre": "fim_pre", "fim_suf": "fim_suf", "fim_mid": "fim_mid", "fim_pad": "fim_pad",
        "fim_rep": "fim_rep", "fim_sep": "fim_sep",
    }.items()
}  # fmt: skip
"""Role of a special token -> key of its number."""
FLAGS: Mapping[str, str] = {
    name: f"{PREFIX}{name}"
    for name in (
        "add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix", "remove_extra_whitespaces",
        "normalizer.lowercase", "normalizer.strip_accents",
    )
}  # fmt: skip
"""What is done to every text -> its key."""


class TokenType(IntEnum):
    """What a token is, as numbers in the file."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class GgufVocabulary:
    """`model`: `gpt2` (byte pairs), `llama` (SentencePiece's byte pairs), `t5` (Unigram), `bert` (WordPiece), `gemma4`.

    `tokens`, `types`, `scores`: one per row of the embedding; `templates`: of chats by name.
    """

    model: str
    tokens: tuple[str, ...] = field(repr=False)
    types: tuple[int, ...] = field(repr=False)
    pre: str = "default"
    scores: tuple[float, ...] = field(default=(), repr=False)
    merges: tuple[str, ...] = field(default=(), repr=False)
    ids: Mapping[str, int] = field(default_factory=dict)
    flags: Mapping[str, bool] = field(default_factory=dict)
    charsmap: bytes = field(default=b"", repr=False)
    templates: Mapping[str, str] = field(default_factory=dict, repr=False)

    def keys(self) -> dict[str, Any]:
        """The metadata: numbers are uint32, in lists int32 and float32, and bytes an array of uint8."""
        named = {name: text for name, text in self.templates.items() if name != USUAL}
        found: dict[str, Any] = {MODEL: self.model, PRE: self.pre, TOKENS: list(self.tokens), TYPES: list(map(int, self.types))}
        lists = {SCORES: list(self.scores), MERGES: list(self.merges), CHARSMAP: self.charsmap, TEMPLATE_NAMES: list(named)}
        found |= {key: value for key, value in lists.items() if value}
        found |= {IDS[role]: number for role, number in self.ids.items()}
        found |= {FLAGS[name]: value for name, value in self.flags.items()}
        if USUAL in self.templates:
            found[TEMPLATE] = self.templates[USUAL]
        return found | {f"{TEMPLATE}.{name}": text for name, text in named.items()}

    @classmethod
    def of(cls, value: Callable[[str], Any]) -> GgufVocabulary:
        """From metadata: `value` gives what stands under a key, None where nothing does. `ValueError` for a damaged one."""
        tokens = tuple(value(TOKENS) or ())
        counts = {key: len(found) for key in (TYPES, SCORES) if (found := value(key)) is not None}
        if wrong := {key: count for key, count in counts.items() if count != len(tokens)}:
            raise ValueError(f"it has {len(tokens)} tokens and {wrong}")
        names = {USUAL: TEMPLATE, **{name: f"{TEMPLATE}.{name}" for name in value(TEMPLATE_NAMES) or ()}}
        return cls(
            model=value(MODEL),
            tokens=tuple(str(token) or f"[EMPTY_{number}]" for number, token in enumerate(tokens)),
            types=tuple(value(TYPES) or (TokenType.NORMAL,) * len(tokens)),
            pre=value(PRE) or "default",
            scores=tuple(map(float, value(SCORES) or ())),
            merges=tuple(map(str, value(MERGES) or ())),
            ids={role: found for role, key in IDS.items() if isinstance(found := value(key), int) and 0 <= found < len(tokens)},
            flags={name: bool(value(key)) for name, key in FLAGS.items() if value(key) is not None},
            charsmap=bytes(byte % 256 for byte in value(CHARSMAP) or ()),
            templates={name: text for name, key in names.items() if (text := value(key)) is not None},
        )

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Text of a token -> its number."""
        return {token: number for number, token in enumerate(self.tokens)}

    def padding(self, number: int) -> bool:
        """Whether a token only fills a row of the embedding."""
        return self.types[number] == TokenType.UNUSED and self.tokens[number] == padding(number)


def padding(number: int) -> str:
    """The text of a token that only fills a row."""
    return f"[PAD{number}]"
