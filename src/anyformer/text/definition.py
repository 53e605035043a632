"""The table of a `tokenizer.json`, read together with the files beside it that say more of its tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import tokenizers

from anyformer.text.beside import CONFIG, TEMPLATE, TOKEN_MAP, TOKENIZER_CONFIG, Beside
from anyformer.text.rebuilt import AS_STORED, CLASS, UNNAMED, class_of, rebuilt
from anyformer.text.specials import END_OF_TEXT, ROLES, by_role, named

END_NAMES = (END_OF_TEXT, "<|end_of_text|>", "</s>", "<eos>", "<｜end▁of▁sentence｜>", "<|eos|>", "[EOS]", "[SEP]")
"""What tokenizers that name no end of text call it."""


def settings(beside: Beside) -> dict[str, Any]:
    """The table of `tokenizer_config.json`, with what stands in files of their own.

    As in transformers, a `special_tokens_map.json` counts where the configuration lists no `added_tokens_decoder`, a
    template's file before one in the configuration, and for some models another class of tokenizer than the one named.
    """
    table = beside.table(TOKENIZER_CONFIG)
    if "added_tokens_decoder" not in table:
        table |= {key: value for key, value in beside.table(TOKEN_MAP).items() if value is not None}
    if CLASS in table:
        table |= {CLASS: class_of(table, beside.table(CONFIG))}
    template = beside.text(TEMPLATE)
    return table if template is None else table | {"chat_template": template}


def end_of_text(table: Mapping[str, Any], config: Mapping[str, Any]) -> str | None:
    """The separator of documents: the configuration's end-of-sequence token, else a usual name."""
    tokens = {token["content"] for token in table.get("added_tokens") or ()}
    own = named(config, "eos_token")
    return own if own in {*tokens, *vocabulary(table["model"])} else next((name for name in END_NAMES if name in tokens), None)


def complete(table: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """The definition with every special token that the configuration names, each marked special.

    Some files add them as ordinary words, or name in the configuration what only the model's vocabulary has, or nothing else
    has: such a token gets the number that `added_tokens_decoder` gives it.
    """
    tokens = list(table.get("added_tokens") or ())
    added, words = {token["content"] for token in tokens}, vocabulary(table["model"])
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    taken = {token["id"] for token in tokens} | set(words.values())
    for number, token in (config.get("added_tokens_decoder") or {}).items():
        if isinstance(token, Mapping) and token["content"] not in added and int(number) not in taken:
            tokens.append({**plain, "special": False, **{key: token[key] for key in plain if key in token},
                           "id": int(number), "content": token["content"]})  # fmt: skip
            added.add(token["content"])
    for word in dict.fromkeys(named(config, role.key) for role in ROLES.values() if role.key):
        if word is not None and word not in added and word in words:
            tokens.append({"id": words[word], "content": word, **plain})
    known = _known(table, config, added)
    tokens = [token | {"special": token["special"] or token["content"] in known} for token in tokens]
    return rebuilt(table | {"added_tokens": tokens}, config)


def _known(table: Mapping[str, Any], config: Mapping[str, Any], added: set[str]) -> set[str | None]:
    """What is special though the file may not say so: what the configuration names, and usual names of what it cannot name.

    Other usual names prove something only where it names nothing at all: beside Gemma's `<bos>`, `<s>` is a tag of HTML.
    """
    keys = [role.key for role in ROLES.values() if role.key]
    own, usual = {named(config, key) for key in ("eos_token", *keys)} - {None}, by_role(config, added)
    if not own:
        return {end_of_text(table, config), *usual.values()}
    return (
        own | UNNAMED.get(config.get(CLASS, AS_STORED[0]), frozenset()) | {usual[role] for role in usual if not ROLES[role].key}
    )


def text_of(table: Mapping[str, Any]) -> str:
    """A definition as the tokenizers library reads it."""
    return json.dumps(table, ensure_ascii=False)


def library(definition: str) -> tokenizers.Tokenizer:
    """The tokenizer of the library that a definition describes, without a truncation or padding in the file: either would
    silently drop or add text."""
    inner = tokenizers.Tokenizer.from_str(definition)
    inner.no_truncation()
    inner.no_padding()
    return inner


def vocabulary(model: Mapping[str, Any]) -> dict[str, int]:
    """A model's words and their numbers; Unigram lists (piece, score)."""
    words = model["vocab"]
    return words if isinstance(words, dict) else {word: number for number, (word, _) in enumerate(words)}


def unknown(model: Mapping[str, Any]) -> int | None:
    """The number that a model gives for what it lacks."""
    found: int | None = model.get("unk_id", vocabulary(model).get(model.get("unk_token") or ""))
    return found
