"""Which pre-tokenizers llama.cpp has: names under `tokenizer.ggml.pre`, and the expressions by which each splits text.

Facts of its `llama-vocab.cpp`, each expression as what its matcher does: there letters of both cases are one category, and
case is told apart for ASCII alone.
"""

from __future__ import annotations

from dataclasses import dataclass

_CLITICS = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_ASCII_SIGNS = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
_HAN_KANA = "[一-龥぀-ゟ゠-ヿ]+"
_HAN_HANGUL = "[一-龥ࠀ-一가-퟿]+"
_CASED_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376"
    "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"
    "\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4"
    "\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"
    "\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
"""Letters of scripts that have capitals."""


def _words(digits: str, clitics: str = f"{_CLITICS}|") -> str:
    return rf"{clitics}{_LETTERS}|\p{{N}}{digits}|{_SIGNS}|{_BLANKS}"


def _cased(letter: str, digits: str, clitics: str) -> str:
    """Words that end where a capital begins."""
    upper, lower = rf"(?:(?={letter})[^a-z])", rf"(?:(?={letter})[^A-Z])"
    before = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{before}{upper}*{lower}+{clitics}|{before}{upper}+{lower}*{clitics}|\p{{N}}{digits}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_BLANKS}"
    )


@dataclass(frozen=True)
class PreTokenizer:
    """`names`: the first is the one that is written; `patterns`: text is split by one after another, what none matches stays.

    `whole_words`: a word that is a token is that token, whatever its merges make of it. `letters`: bytes are spelt in GPT-2's
    letters, else text stays as it is, with `▁` for a blank.
    """

    names: tuple[str, ...]
    patterns: tuple[str, ...]
    whole_words: bool = False
    letters: bool = True


_DEEPSEEK = (r"\p{N}{1,3}", _HAN_KANA, rf"{_ASCII_SIGNS}| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_BLANKS}")
_NEWLINES = (r"[^\n]+|[\n]+",)
_BLOOM = " ?[^(\\s|.,!?…。，、।۔،)]+"
PRE_TOKENIZERS = (
    PreTokenizer(
        ("gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "modern-bert",
         "exaone4", "mpt", "olmo", "jais", "trillion", "granite-docling", "jina-v1-en", "jina-v2-code", "roberta-bpe"),
        (_GPT2,),
    ),
    PreTokenizer(
        ("qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"),
        (_words(""),),
    ),
    PreTokenizer(
        ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano",
         "glm4", "glm5"),
        (_words("{1,3}"),),
        whole_words=True,
    ),
    PreTokenizer(("smaug-bpe", "dbrx", "chatglm-bpe"), (_words("{1,3}"),)),
    PreTokenizer(("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"), (_cased(r"\p{L}", "{1,3}", f"{_CLITICS}?"),)),
    PreTokenizer(
        ("granite-embed-multi-97m",), (_cased(r"[\p{L}\p{M}]", "{1,3}", f"{_CLITICS}?"),), whole_words=True,
    ),
    PreTokenizer(("tekken",), (_cased(r"\p{L}", "", ""),), whole_words=True),
    PreTokenizer(("deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"), _DEEPSEEK),
    PreTokenizer(
        ("deepseek-llm",),
        (r"[\r\n]", rf"\s?[{_CASED_LETTERS}]+",
         "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3001-\u3002]+", r"\s+$", _HAN_HANGUL, r"\p{N}+"),
    ),
    PreTokenizer(("deepseek-coder",), (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _HAN_HANGUL, r"\p{N}")),
    PreTokenizer(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"),
                 (r"\p{N}", _GPT2)),
    PreTokenizer(("falcon",), (r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, r"[0-9][0-9][0-9]")),
    PreTokenizer(
        ("qwen35",),
        (rf"{_CLITICS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_BLANKS}",),
    ),
    PreTokenizer(("ufakzeka",), (_words("", ""),)),
    PreTokenizer(
        ("bailingmoe", "bailingmoe2", "llada-moe"),
        (rf"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|{_LETTERS}|\p{{N}}|{_SIGNS}|\s*[\r\n]|\s+(?!\S)|\s+",),
    ),
    PreTokenizer(("seed-coder",), (rf"{_CLITICS}|{_LETTERS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_BLANKS}",)),
    PreTokenizer(("minicpm5",), (r"\p{N}{1,3}", _words("+")), whole_words=True),
    PreTokenizer(("laguna",), (*_NEWLINES, _words(""))),
    PreTokenizer(
        ("exaone-moe",),
        (rf"{_CLITICS}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]?"
         r"|\s*[\r\n]|\s+(?!\S)|\s+",),
    ),
    PreTokenizer(
        ("jais-2",),
        (rf"{_CLITICS}|{_LETTERS}|\p{{N}}{{1,3}}|{_SIGNS}|\s*[\r\n]+|"
         + "|".join(rf"\s{{{run}}}(?!\S)" for run in ("512", "256", "128", "64", "32", "16", "8", "4", "1,2")) + r"|\s{1}",),
    ),
    PreTokenizer(
        ("spark2_5",),
        (r"\p{N}{1,3}", _HAN_KANA, rf"{_ASCII_SIGNS}| ?[\p{{P}}\p{{S}}]+|[\r\n]|\s+(?!\S)|\s+", r"\p{N}"),
    ),
    PreTokenizer(
        ("youtu",),
        ("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + _HAN_KANA,
         rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+{_CLITICS}?|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_BLANKS}"),
        whole_words=True,
    ),
    PreTokenizer(
        ("tiny_aya", "cohere2moe"),
        (r"\p{N}{1,2}(?=(?:\p{N}{3})+(?!\p{N}))|\p{N}{3}(?=(?:\p{N}{3})*(?!\p{N}))|\p{N}{1,2}(?!\p{N})",
         rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+{_CLITICS}?|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_BLANKS}"),
    ),
    PreTokenizer(("viking",), (_BLOOM, r"\p{N}")),
    PreTokenizer(("bloom", "poro-chat", "gpt3-finnish"), (_BLOOM,)),
    PreTokenizer(("default", ""), (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
    PreTokenizer(("gemma4", "granite-embed-multi-311m"), _NEWLINES, letters=False),
    PreTokenizer(("sarvam-moe",), _NEWLINES, letters=False),
)  # fmt: skip
"""Of those that split alike the first is written."""
BY_NAME = {name: each for each in PRE_TOKENIZERS for name in each.names}
