"""The tokens at which llama.cpp ends a text: those with keys of their own, and those that it knows by their text."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from anyformer.huggingface.gguf.vocabulary.value import GgufVocabulary, TokenType

ENDS = frozenset(
    ("<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
     "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>",
     "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[")
)  # fmt: skip
"""Texts of tokens that end a text whatever the keys say."""
FIM: Mapping[str, tuple[str, ...]] = {
    "fim_pre": ("<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
                "<|code_prefix|>", "<|prefix|>"),
    "fim_suf": ("<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
                "<|code_suffix|>", "<|suffix|>"),
    "fim_mid": ("<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>",
                "<|code_middle|>", "<|middle|>"),
    "fim_pad": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "fim_rep": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep": ("<|file_sep|>",),
}  # fmt: skip
"""Roles in filling in the middle -> texts of tokens that have them."""
_TURN = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "_<EOT>", "[EOT]",
    "<｜end▁of▁sentence｜>", "<end_of_utterance>",
)  # fmt: skip
_SHOWN = frozenset(("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"))
KNOWN = ENDS | _SHOWN | frozenset(text for texts in FIM.values() for text in texts)
"""Texts of tokens that are special to llama.cpp whatever their type."""
_STOPPING_ROLES = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")
_DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "llama": {"bos": 1, "eos": 2, "unk": 0}, "gpt2": {"bos": 11, "eos": 11}, "t5": {"eos": 1, "unk": 2, "pad": 0},
    "bert": {"bos": 101, "unk": 100, "sep": 102, "pad": 0, "mask": 103},
}  # fmt: skip
"""The numbers of special tokens where a file has no keys for them."""


def special_ids(vocabulary: GgufVocabulary) -> dict[str, int]:
    """The special tokens as llama.cpp has them: by keys, by their usual numbers, by their texts."""
    size, numbers = len(vocabulary.tokens), vocabulary.numbers
    usual = {role: number for role, number in _DEFAULTS.get(vocabulary.model, {}).items() if number < size}
    found = usual | dict(vocabulary.ids)
    by_text = {**FIM, "eot": _TURN, "eom": ("<|eom_id|>",)}
    for role, texts in by_text.items():
        first = next((numbers[text] for text in texts if text in numbers), None)
        if first is not None:
            found.setdefault(role, first)
    return found


def stops(vocabulary: GgufVocabulary) -> frozenset[int]:
    """The tokens at which llama.cpp ends a text."""
    numbers, ids = vocabulary.numbers, special_ids(vocabulary)
    ending = {numbers[text] for text in ENDS if text in numbers} | {ids[role] for role in _STOPPING_ROLES if role in ids}
    kept = {vocabulary.tokens[number] for number in ending} - _going_on(numbers)
    return frozenset(number for number in ending if vocabulary.tokens[number] in kept)


def known_texts(words: Collection[str]) -> set[str]:
    """Which of a vocabulary's words are special to llama.cpp whatever their type."""
    return {text for text in KNOWN if text in words} - _going_on(words)


def _going_on(words: Collection[str]) -> set[str]:
    """Texts of ends that end nothing beside others: in gpt-oss and Solar `<|end|>`, in Gemma 4 and PLaMo `</s>`."""
    calls = "<|call|>" in words or "<|calls|>" in words
    found = {"<|end|>"} if calls and ("<|return|>" in words or "<|flush|>" in words) else set()
    return found | ({"</s>"} if "<|tool_response>" in words or "<|plamo:eos|>" in words else set())


def type_of(vocabulary: GgufVocabulary, number: int, stopping: frozenset[int]) -> int:
    """What a token is to llama.cpp: one that it knows by its text is special, whatever the file says."""
    text, kind = vocabulary.tokens[number], vocabulary.types[number]
    if text in _SHOWN:
        return TokenType.USER_DEFINED
    if text in ENDS and number not in stopping:
        return TokenType.USER_DEFINED if text == "<|end|>" else TokenType.NORMAL
    return TokenType.CONTROL if text in KNOWN else kind
