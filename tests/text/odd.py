"""Some 300 odd strings, on which tokenizers are held against transformers."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

SCRIPTS = (
    "Быстрая лиса перепрыгнула", "η γρήγορη καφέ αλεπού", "السلام عليكم ورحمة الله", "שלום עולם, מה שלומך?",
    "नमस्ते दुनिया क्षत्रिय", "বাংলা ভাষা", "ਸਤ ਸ੍ਰੀ ਅਕਾਲ", "ગુજરાતી", "தமிழ் மொழி", "తెలుగు లిపి", "ಕನ್ನಡ", "മലയാളം",
    "සිංහල", "สวัสดีชาวโลก", "ພາສາລາວ", "བོད་སྐད་", "မြန်မာဘာသာ", "ქართული ენა", "Հայերեն լեզու", "አማርኛ ቋንቋ",
    "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ", "ភាសាខ្មែរ", "ᠮᠣᠩᠭᠣᠯ", "日本語のテキストです。", "カタカナ ﾊﾝｶｸ",
    "中文字符，测试。", "繁體中文", "한국어 문장입니다", "가각", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𝟘𝟙𝟚", "𐍈𐌰𐍂𐌹", "𓀀𓂀", "𠜎𠜱𠝹",
    "ꙮ", "Ĳsselmeer", "ǆ ǅ Ǆ", "ﬁ ﬂ ﬀ ﬃ", "ﷺ", "㎏ ㏒ ™ ℃", "½ ⅓ ²³ ₁₂", "Ｆｕｌｌ　ｗｉｄｔｈ", "ⓐⓑⓒ ⒈⒉",
    "İstanbul ıi", "Straße STRASSE ẞ", "naïve café résumé", "Ångström ÅÄÖ", "Tiếng Việt đẹp", "čeština žluťoučký",
    "łódź źrebię", "þæð ÞÆÐ", "œuvre", "mixed русский and 中文 and العربية text", "english עברית english",
    "a\u0301e\u0308", "q\u0307\u0323", "\u1e9b\u0323", "Å Å Å",
)  # fmt: skip
EMOJI = (
    "🙂", "🙂🙂🙂", "👩‍👩‍👧‍👦", "👨🏿‍🚀", "🏳️‍🌈", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "🇩🇪🇫🇷", "❤️ ❤", "☺︎ ☺️",
    "1️⃣ #️⃣", "👍🏻👍🏽👍🏿", "text🙂text", " 🙂 ", "🙂\u200d", "\u200d🙂", "\ufe0f", "🤷‍♀️ shrug", "🫠🫡🩷",
    "¯\\_(ツ)_/¯", "(╯°□°)╯︵ ┻━┻", "→ ← ⇒ ∀x∈ℝ ∑∫√", "█▓▒░", "♠♥♦♣",
)  # fmt: skip
CONTROLS = (
    "\x00", "a\x00b", "\x01\x02\x03", "\x07bell", "back\x08space", "\x1b[31mred\x1b[0m", "\x7f", "\x80\x81\x9f",
    "soft\xadhyphen", "\u200bzero\u200bwidth", "\u200e\u200f marks", "\u202a\u202b\u202c\u202d\u202e",
    "\u2060joiner\u2060", "\ufeffbom", "in\ufeffside", "\ufffd", "\ufffd\ufffd replaced \ufffd", "\ue000\uf8ff private",
    "\U000f0000", "\U0010ffff", "\ufdd0 non-character \uffff", "\ufff9a\ufffab\ufffb", "\U000e0001\U000e0041",
    "\u0085next", "a\x0bb\x0cc", "\x1c\x1d\x1e\x1f",
)  # fmt: skip
BLANKS = (
    "", " ", "  ", "   ", "    ", " " * 7, " " * 16, " " * 33, "\t", "\t\t", " \t ", "\n", "\n\n", "\n\n\n", "\r", "\r\n",
    "\r\n\r\n", " \n", "\n ", " \n \n ", "a b", " a", "a ", " a ", "a  b", "a   b", "  a  b  ", "a\tb", "\ta", "a\n",
    "\na", "a\n b", "a \nb", "a\r\nb", "a\n\n\nb", "a\u00a0b", "\u00a0", "a\u3000b", "\u3000", "a\u2003b\u2009c",
    "\u2028line\u2029paragraph", "a\u1680b", "\u205f\u202f", "\u180e", "tabs\tand  blanks \t mixed\n\n\tend",
    "trailing   ", "   leading", "new line at the end\n", "\n\nnew lines first", "a . b", "do n't",
    "it 's I 'm we 've they 're", "what ? yes ! no , so .", "a ' b ' c", " .", " , , ,", "..", " . . . ",
)  # fmt: skip
SPELT = (
    "<s>", "</s>", "<unk>", "<pad>", "<mask>", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]", "<|endoftext|>",
    "<|im_start|>user\nhi<|im_end|>", "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>system<|end_header_id|>",
    "<bos>", "<eos>", "<start_of_turn>user", "<end_of_turn>", "<|end|>", "<|return|>", "<|channel|>final<|message|>",
    "<think>", "</think>", "<think>\nso\n</think>\n\n4", "<tool_call>\n{}\n</tool_call>", "[INST] hi [/INST]", "<<SYS>>",
    "<0x0A>", "<0x00><0xFF>", "<extra_id_0>", "<unused0>", "<|fim_prefix|>", "<|startoftranscript|>",
    "<｜begin▁of▁sentence｜>", "<｜User｜>", "a<s>b", " <s> ", "<s><s>", "</s></s>", "< s >", "<s", "s>", "<|", "|>",
    "<||>", "<|endoftext", "endoftext|>", "x</s>y z", "[ MASK ]", "[mask]", "<S>", "</S>", "▁", "▁▁", "a▁b", "▁a",
    "Ġ", "Ġa", "Ċ", "##ing", "a ##ing", "@@", "Ã©", "</w>", "a</w>b", "\u2581\u2581word",
)  # fmt: skip
NUMBERS = (
    "0", "7", "12", "123", "1234", "12345", "1234567890", "3.14159", "-1", "+1", "1e10", "1,000,000", "1.000.000,00",
    "0x1F", "0b1010", "1/2", "50%", "$9.99", "€5", "٣٤٥", "१२३", "四十二", "2026-11-27", "12:34:56", "192.168.0.1",
    "+49 30 123456", "1 2 3 4", "1\n2", "007", "1st 2nd 3rd", "v1.2.3-rc4", "9" * 40, "III IV", "x1y22z333", "１２３",
)  # fmt: skip
CODE = (
    "def f(x):\n    return x**2\n", "\tif (a && b) {\n\t\treturn;\n\t}", "for(int i=0;i<n;++i){a[i]+=1;}",
    "<div class=\"a\">&nbsp;</div>", "SELECT * FROM t WHERE a='b';", "{\"key\": [1, null, true]}",
    "https://example.com/a?b=c&d=e#f", "user.name+tag@example.com", "C:\\Users\\x", "../a/b.py", "#!/bin/sh",
    "a = b  # comment", "camelCaseName snake_case_name CONSTANT_NAME", "λx.x", "f\"{x!r:>10}\"", "/* c */ // d",
    "$\\frac{a}{b}$", "```python\nx\n```", "| a | b |\n|---|---|", "- item\n  - nested", "**bold** _it_ `code`",
    "r'\\d+\\s*'", "\\n is not \n", "&lt;&amp;", "0;\n\n\n}", "a->b::c<d>", "x" + ")" * 12, "=" * 40, "-" * 17, "_" * 9,
    "!?!?!?", "...", "…", "--- ---", "\"quoted\" 'single' “curly” ‘q’ «g»", "don't can't I'll you're we'd it's",
    "DON'T IT'S", "rock'n'roll", "e.g. i.e. etc.", "A.B.C.", "hyphen-ated en–dash em—dash",
)  # fmt: skip
WORDS = (
    "word", "Word", "WORD", "wOrD", "The quick brown fox jumps over the lazy dog.", "the of and", "of the model is",
    "antidisestablishmentarianism", "Donaudampfschifffahrtsgesellschaftskapitän", "a", "A", "é", "e\u0301",
    "Hello, world!", "hello,world", "Hello  ,  world", "aaaaaaaaaaaaaaaaaaaaaaaa", "abababababababababab", "a" * 120,
    "x" * 600, "ab" * 300, "very" + "long" * 80, "日" * 70, "é" * 90, "🙂" * 30, " a" * 40, "a " * 40, "a\n" * 20,
    "The model reads what its authors wrote, token for token. " * 4, "Once upon a time", "two and two are four",
    "It is forty-two!", "unbelievable unrelated underneath", "RÉSUMÉ Ünïcödé", "mañana", "a·b•c", "\\", "/", "'", "\"",
    "`", "~", "^", "@", "#",
)  # fmt: skip
HALVES = ("\ud800", "a\udfffb", "\ud83d", "\ude42\ud83d")
"""Halves of surrogate pairs, which are no text."""


def odd() -> tuple[str, ...]:
    """The strings, each once, and those with accents and ligatures in Unicode's other forms too."""
    return tuple(dict.fromkeys(_all()))


def _all() -> Iterator[str]:
    for text in (*BLANKS, *WORDS, *SCRIPTS, *EMOJI, *CONTROLS, *SPELT, *NUMBERS, *CODE):
        yield text
        if text in SCRIPTS[30:]:
            yield from (unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC"))
