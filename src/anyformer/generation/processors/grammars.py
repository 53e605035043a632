"""Texts that follow a JSON schema, a regular expression or a grammar: by llguidance, which says what may come next."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field, InstanceOf
from torch import Tensor

from anyformer.generation.prefixes import Prefixes
from anyformer.generation.processors.base import NEVER, NoChoiceError, Processor
from anyformer.text import Tokenizer
from anyformer.text.replies.grammar import WRITTEN
from anyformer.text.token_bytes import token_bytes

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

Language = Literal["json_schema", "regex", "lark"]
REMEMBERED = 256
"""Texts of one grammar whose places in it are remembered."""


class GrammarError(NoChoiceError):
    """A grammar that cannot be followed."""


class Grammar(Processor):
    """Leaves the tokens with which a text can still become one of a language; a token that ends it where it is one.

    `language`: a `json_schema` (one that is `{}` is any JSON), a `regex` in the syntax of Rust's, anchored at both ends, or a
    context-free grammar in the form of `lark` (https://github.com/guidance-ai/llguidance). A text that ends for its length is
    the beginning of one. The tokens are exact: those after which some text of the language can still come; of several that
    spell the same bytes, one; where the next bytes are sure, the tokenizer's own way to write them may be the one that is left.
    """

    language: Language
    text: str
    tokenizer: Annotated[Tokenizer, InstanceOf(), Field(repr=False)]

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        places = self.places(scores_BV.shape[-1], texts.ends)
        allowed = [places.allowed(_made(texts, row)) for row in range(len(scores_BV))]
        allowed_BV = torch.from_numpy(np.stack(allowed)).to(scores_BV.device)
        return scores_BV.masked_fill(~allowed_BV, NEVER)

    def places(self, size: int, ends: Sequence[int]) -> GrammarPlaces:
        """Its places for logits of so many tokens, some of which end a text. Raises `GrammarError` where it cannot be followed,
        and always where llguidance is not installed."""
        known = tuple(end for end in ends if 0 <= end < size)
        if not known:
            raise GrammarError("a grammar says where a text ends by a token that ends it, and there is none: name one")
        return _places(self.language, self.text, self.tokenizer, self.tokenizer.completed, size, known)


@dataclass
class GrammarPlaces:
    """The places of texts in a grammar. One that goes on from a text that was asked for before is found at once; any other is
    read again."""

    begin: LLMatcher
    size: int
    _known: OrderedDict[tuple[int, ...], LLMatcher] = field(default_factory=OrderedDict)

    def allowed(self, tokens: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """(V,): which token may come behind some."""
        matcher = self._at(tokens)
        bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        if matcher.is_error():
            raise GrammarError(f"the grammar cannot be followed further: {matcher.get_error().strip()[:300]}")
        found = np.unpackbits(bits, bitorder="little")[: self.size].astype(bool)
        return np.pad(found, (0, self.size - len(found)))

    def _at(self, tokens: tuple[int, ...]) -> LLMatcher:
        matcher = self._known.pop(tokens, None)
        if matcher is None and tokens:
            matcher = self._known.pop(tokens[:-1], None)
            if matcher is not None:
                matcher.consume_token(tokens[-1])
        if matcher is None:
            matcher = self.begin.deep_copy()
            matcher.consume_tokens(list(tokens))
        self._known[tokens] = matcher
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return matcher


def _made(texts: Prefixes, row: int) -> tuple[int, ...]:
    """The tokens of a row behind its prompt, up to one that ends it."""
    made = texts.tokens[row, texts.prompts[row] : texts.lengths[row]].tolist()
    cut = next((place for place, token in enumerate(made) if token in texts.ends), len(made))
    return tuple(made[:cut])


@lru_cache(maxsize=256)
def _places(
    language: Language, text: str, tokenizer: Tokenizer, definition: str, size: int, ends: tuple[int, ...]
) -> GrammarPlaces:
    if find_spec("llguidance") is None:
        raise GrammarError("grammars are followed by llguidance, not installed here: pip install 'anyformer[grammars]'")
    from llguidance import LLMatcher

    vocabulary, compiled = _vocabulary(tokenizer, definition, size, ends), _compiled(language, text)
    wrong, said = LLMatcher.validate_grammar_with_warnings(compiled, vocabulary)
    begin = LLMatcher(vocabulary, compiled, log_level=0)
    if wrong or begin.is_error():
        raise GrammarError(f"{language}: {(said[0] if wrong else begin.get_error()).strip()[:400]}")
    return GrammarPlaces(begin, size)


def _compiled(language: Language, text: str) -> str:
    from llguidance import LLMatcher

    if language == "regex":
        return LLMatcher.grammar_from_regex(text)
    if language == "lark":
        return LLMatcher.grammar_from_lark(text)
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GrammarError(f"json_schema: is no JSON ({error})") from None
    if not isinstance(schema, dict):
        raise GrammarError(f"json_schema: is a {type(schema).__name__}, and should be an object")
    return LLMatcher.grammar_from_json_schema({**schema, "x-guidance": WRITTEN})


class _Vocabulary:
    """A tokenizer in the form that llguidance asks for: what it reads of a `tokenizer.json` itself takes some ordinary tokens
    for special ones."""

    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, ends: tuple[int, ...]) -> None:
        self.tokens, self.eos_token_id = token_bytes(tokenizer), ends[0]
        self.special_token_ids = sorted(tokenizer.special_tokens.values())
        self._tokenizer = tokenizer

    def __call__(self, text: str) -> list[int]:
        return self._tokenizer.encode(text)


@lru_cache(maxsize=8)
def _vocabulary(tokenizer: Tokenizer, definition: str, size: int, ends: tuple[int, ...]) -> LLTokenizer:
    """A tokenizer for logits of so many tokens. `definition`: its whole one, by which equal ones are told apart."""
    from llguidance import LLTokenizer, TokenizerWrapper

    return LLTokenizer(TokenizerWrapper(_Vocabulary(tokenizer, ends)), n_vocab=size, eos_token=list(ends))
