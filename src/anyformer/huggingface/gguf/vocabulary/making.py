"""What a tokenizer can be in a GGUF file: a vocabulary for each way in which llama.cpp might split text as it does."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.vocabulary.ends import ENDS, FIM, special_ids, stops
from anyformer.huggingface.gguf.vocabulary.expressions import PRE_TOKENIZERS
from anyformer.huggingface.gguf.vocabulary.fitting import Stage, stages
from anyformer.huggingface.gguf.vocabulary.value import GgufVocabulary, TokenType, padding
from anyformer.text import Tokenizer
from anyformer.text.beside import TOKENIZER
from anyformer.text.chat import templates

BLANK = "▁"
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_NEVER = -1e6
"""The score of a token of several characters that no merge makes."""


def candidates(tokenizer: Tokenizer, table: Stage, rows: int) -> Iterator[GgufVocabulary]:
    """Vocabularies of `rows` tokens; `table`: the tokenizer's definition, `fitted`. Raises `HuggingFaceError` for a tokenizer
    that can be none."""
    kind = table["model"].get("type")
    if kind not in _KINDS:
        raise HuggingFaceError(
            f"{where(tokenizer)}: a tokenizer of kind {kind!r} is none of llama.cpp's; write the model without it, or take one "
            f"of {', '.join(sorted(_KINDS))}"
        )
    if rows < tokenizer.vocab_size:
        raise HuggingFaceError(
            f"{where(tokenizer)}: has {tokenizer.vocab_size:,} tokens and the model's table {rows:,} rows; give the model as "
            "many rows as its tokenizer has tokens"
        )
    base = _base(tokenizer, table, rows)
    return _KINDS[kind](base, table)


def _base(tokenizer: Tokenizer, table: Stage, rows: int) -> GgufVocabulary:
    """Tokens as they are spelt, their types, special tokens and templates."""
    added = {token["id"]: token for token in table["added_tokens"]}
    unknown = table["model"].get("unk_token")
    blanks = any(step["type"] == "Replace" and step["content"] == BLANK for step in stages(table["normalizer"]))
    tokens, types = [], []
    for number in range(rows):
        word = tokenizer.token(number)
        if word is None:
            tokens.append(padding(number))
            types.append(TokenType.UNUSED)
        elif number in added:
            token = added[number]
            tokens.append(word.replace(BLANK, " ") if token["normalized"] and blanks else word)
            types.append(TokenType.CONTROL if token["special"] else TokenType.USER_DEFINED)
        else:
            tokens.append(word)
            types.append(TokenType.UNKNOWN if word == unknown else TokenType.NORMAL)
    if len(set(tokens)) < rows:
        twice = next(token for number, token in enumerate(tokens) if token in tokens[:number])
        raise HuggingFaceError(f"{where(tokenizer)}: two tokens are spelt {twice!r} in a GGUF file, where texts are unique")
    bare = GgufVocabulary(model="", tokens=tuple(tokens), types=tuple(types), templates=dict(templates(tokenizer)))
    return _with_specials(tokenizer, bare)


def _with_specials(tokenizer: Tokenizer, bare: GgufVocabulary) -> GgufVocabulary:
    single, pair = tokenizer.frame.single, tokenizer.frame.pair
    before, behind = single.before, single.behind
    if len(before) > 1 or len(behind) > 1:
        raise HuggingFaceError(
            f"{where(tokenizer)}: puts {len(before)} tokens before a text and {len(behind)} behind it, and llama.cpp at most "
            "one each; write the model without its tokenizer"
        )
    named = {role: tokenizer.named(f"{role}_token") for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")}
    ids = {role: number for role, word in named.items() if word and (number := tokenizer.number(word)) is not None}
    conventions = tokenizer.conventions
    usual = {"bos": conventions.begin, "pad": conventions.pad, "eos": next(iter(tokenizer.ends), None)}
    ids = {role: number for role, number in usual.items() if number is not None and number < len(bare.tokens)} | ids
    if ids.get("eos") not in tokenizer.ends and tokenizer.ends:
        ids["eos"] = tokenizer.ends[0]
    ids |= {"bos": before[0]} if before else {}
    ids |= {"eos": behind[0]} if behind else {}
    ids |= {role: number for role, number in special_ids(bare).items() if role in FIM}
    between = tuple(number for number, _ in pair.parts[1])
    parted = between[: len(behind)] == behind and between[len(behind) :] == (ids.get("sep"),)
    flags = {"add_bos_token": bool(before), "add_eos_token": bool(behind), "add_sep_token": parted}
    return replace(bare, ids=ids, flags=flags)


def with_ends(vocabulary: GgufVocabulary, tokenizer: Tokenizer) -> GgufVocabulary:
    """With a key for every end that llama.cpp does not know by its text. Raises `HuggingFaceError` if they are too many."""
    if "eos" not in vocabulary.ids and "eos" in special_ids(vocabulary):
        raise HuggingFaceError(
            f"{where(tokenizer)}: no token ends a text, and llama.cpp would end one at token {special_ids(vocabulary)['eos']}; "
            "name the end as eos_token in tokenizer_config.json"
        )
    lacking = [end for end in tokenizer.ends if end < len(vocabulary.tokens) and end not in stops(vocabulary)]
    free = [role for role in ("eot", "eom") if role not in vocabulary.ids]
    made = replace(vocabulary, ids={**vocabulary.ids, **dict(zip(free, lacking, strict=False))})
    if lost := [made.tokens[end] for end in lacking if end not in stops(made)]:
        raise HuggingFaceError(
            f"{where(tokenizer)}: {', '.join(map(repr, lost))} would not end a text in llama.cpp, which has three keys of ends "
            f"and knows {len(ENDS)} by their texts; leave out ends in generation_config.json"
        )
    return made


def where(tokenizer: Tokenizer) -> str:
    """What errors call a tokenizer."""
    return str(Path(tokenizer.beside.where) / TOKENIZER)


def _byte_pairs(base: GgufVocabulary, table: Stage) -> Iterator[GgufVocabulary]:
    pairs = [merge.split(" ", 1) if isinstance(merge, str) else merge for merge in table["model"]["merges"]]
    types = {step["type"] for step in stages(table["pre_tokenizer"])}
    if "ByteLevel" in types:
        merges = tuple(" ".join(pair) for pair in pairs) or _none(base)
        for pre in PRE_TOKENIZERS:
            if pre.letters:
                yield replace(base, model="gpt2", pre=pre.names[0], merges=merges)
        return
    spelt = tuple(
        TokenType.BYTE if kind == TokenType.NORMAL and _BYTE.fullmatch(token) else kind
        for token, kind in zip(base.tokens, base.types, strict=True)
    )
    base = replace(base, types=spelt)
    if table["model"].get("byte_fallback"):
        ranks = {left + right: place for place, (left, right) in reversed(list(enumerate(pairs)))}
        scores = tuple(
            -float(ranks[token]) if token in ranks else 0.0 if len(token) == 1 or kind != TokenType.NORMAL else _NEVER
            for token, kind in zip(base.tokens, base.types, strict=True)
        )
        prefix = any(step["type"] == "Prepend" for step in stages(table["normalizer"]))
        yield replace(base, model="llama", scores=scores, flags={**base.flags, "add_space_prefix": prefix})
    merges = tuple(" ".join(pair) for pair in pairs) or _none(base)
    blank = tuple(BLANK if token == " " and BLANK not in base.tokens else token for token in base.tokens)
    if base.flags["add_bos_token"]:
        yield replace(base, model="gemma4", pre="gemma4", merges=merges, tokens=blank)
    yield replace(base, model="gpt2", pre="sarvam-moe", merges=merges, tokens=blank)


def _none(base: GgufVocabulary) -> tuple[str, ...]:
    """A merge that never happens: a file without any is refused."""
    longest = max(base.tokens, key=len).replace(" ", "")
    return (f"{longest} {longest}",)


def _word_pieces(base: GgufVocabulary, table: Stage) -> Iterator[GgufVocabulary]:
    normal, prefix = TokenType.NORMAL, table["model"].get("continuing_subword_prefix", "##")
    types = tuple(TokenType.CONTROL if kind == TokenType.UNKNOWN else kind for kind in base.types)
    tokens = tuple(
        token if kind != normal else token.removeprefix(prefix) if token.startswith(prefix) else BLANK + token
        for token, kind in zip(base.tokens, types, strict=True)
    )
    steps = list(stages(table["normalizer"]))
    lower = any(step.get("lowercase") for step in steps)
    accents = any(step["type"] == "NFD" for step in steps)
    ids = {**base.ids, "unk": base.ids.get("unk", base.tokens.index(table["model"]["unk_token"]))}
    if "eos" in ids:
        ids["sep"] = ids["eos"]
    flags = {**base.flags, "normalizer.lowercase": lower, "normalizer.strip_accents": accents}
    yield replace(base, model="bert", tokens=tokens, types=types, ids=ids, flags=flags)


def _unigrams(base: GgufVocabulary, table: Stage) -> Iterator[GgufVocabulary]:
    scored = dict(enumerate(score for _, score in table["model"]["vocab"]))
    unknown = table["model"].get("unk_id")
    types = [
        TokenType.BYTE if kind == TokenType.NORMAL and _BYTE.fullmatch(token) else kind
        for token, kind in zip(base.tokens, base.types, strict=True)
    ]
    ids = dict(base.ids)
    if unknown is not None:
        types[unknown] = TokenType.UNKNOWN
        ids["unk"] = unknown
    scores = tuple(float(scored.get(number, 0.0)) for number in range(len(base.tokens)))
    step = next((step for step in stages(table["normalizer"]) if step["type"] == "Precompiled"), None)
    charsmap = base64.b64decode(step["precompiled_charsmap"]) if step else b""
    for merged, prefix in ((True, True), (False, True), (False, False)):
        flags = {**base.flags, "add_space_prefix": prefix, "remove_extra_whitespaces": merged}
        yield replace(base, model="t5", types=tuple(types), scores=scores, ids=ids, flags=flags, charsmap=charsmap)


_KINDS: Mapping[str, Callable[[GgufVocabulary, Stage], Iterator[GgufVocabulary]]] = {
    "BPE": _byte_pairs,
    "WordPiece": _word_pieces,
    "Unigram": _unigrams,
}
