"""Texts under a grammar are of its language; what is allowed equals a naive twin; a grammar of everything changes nothing."""

from __future__ import annotations

import json
import re
from itertools import takewhile

import jsonschema
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from zoo import DECODERS

from anyformer.data import BytePairs, Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import UserError, change
from anyformer.generation import Beams, Decoding, Sampling, generate, generated
from anyformer.generation.prefixes import Prefixes
from anyformer.generation.processors import WithinVocabulary
from anyformer.generation.processors.grammars import Grammar
from anyformer.generation.sampling import NoChoiceError
from anyformer.model.transformer import build
from anyformer.text import Tokenizer
from data.texts import prose

LENGTH = 160


def sentencepiece():
    """A tokenizer that writes blanks as U+2581 and unknown bytes as such."""
    import tokenizers
    from tokenizers import decoders, models, normalizers

    words = [
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "</s>",
        "\u2581",
        *'{}[]":,0123456789',
        "true",
        "\u2581{",
        '":',
        "ab",
        "a",
        "b",
    ]
    inner = tokenizers.Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, [], byte_fallback=True))
    inner.normalizer = normalizers.Replace(" ", "\u2581")
    inner.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    inner.add_special_tokens(["</s>"])
    return Tokenizer.parse(inner.to_str(), {"eos_token": "</s>"})


MAKERS = {
    "bytes": lambda: make_tokenizer(Bytes(), lambda: iter(()), lambda: iter(())),
    "pairs": lambda: make_tokenizer(BytePairs(vocab=400), lambda: [prose(3, 4000)], list),
    "sentencepiece": sentencepiece,
}


@pytest.fixture(scope="module", params=MAKERS)
def speaker(request):
    tokenizer = MAKERS[request.param]()
    return build(change(DECODERS["llama"], "embedding.vocab", tokenizer.vocab_size + 3)).eval(), tokenizer


SCHEMAS = st.recursive(
    st.one_of(
        st.just({"type": "boolean"}),
        st.just({"type": "null"}),
        st.builds(
            lambda low, more: {"type": "integer", "minimum": low, "maximum": low + more},
            st.integers(-99, 99),
            st.integers(0, 99),
        ),
        st.builds(lambda most: {"type": "string", "maxLength": most}, st.integers(0, 4)),
        st.builds(lambda words: {"enum": words}, st.lists(st.text(max_size=4), min_size=1, max_size=3, unique=True)),
        st.just({"type": "string", "pattern": "^[a-c]{2,4}$"}),
    ),
    lambda inner: st.one_of(
        st.builds(lambda item, most: {"type": "array", "items": item, "maxItems": most}, inner, st.integers(0, 2)),
        st.builds(
            lambda fields, wanted: {
                "type": "object", "properties": fields, "required": [name for name in fields if name in wanted],
                "additionalProperties": False,
            },
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.sets(st.sampled_from("abc")),
        ),
        st.builds(lambda one, other: {"anyOf": [one, other]}, inner, inner),
    ),
    max_leaves=4,
)  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(schema=SCHEMAS, seed=st.integers(0, 99))
def test_every_text_under_a_schema_is_valid(speaker, schema, seed):
    model, tokenizer = speaker
    sampling = Sampling(seed=seed, processors=(Grammar(language="json_schema", text=json.dumps(schema), tokenizer=tokenizer),))
    (found,) = generated(model, tokenizer, ["x"], max_tokens=LENGTH, sampling=sampling)
    assert found.reason == "end", found
    jsonschema.validate(json.loads(found.text), schema)


def naive(words, pattern, text):
    """Which tokens may follow a text: those with which it is the beginning of one of a finite language."""
    return {number for number, word in words.items() if word and any(each.startswith(text + word) for each in pattern)}


@settings(max_examples=30, deadline=None)
@example(language=["11ab"], place=(0, 2))
@given(
    language=st.lists(st.text("abc1{", min_size=1, max_size=5), min_size=1, max_size=5, unique=True),
    place=st.tuples(st.integers(0, 4), st.integers(0, 5)),
)
def test_what_is_allowed_equals_a_naive_twin(speaker, language, place):
    _, tokenizer = speaker
    size = tokenizer.vocab_size + 3
    text = language[place[0] % len(language)][: place[1]]
    special = set(tokenizer.special_tokens.values())
    words = {number: tokenizer.decode([number]) for number in range(tokenizer.vocab_size) if number not in special}
    begun = tokenizer.encode(text)
    wanted = {words[token] for token in naive(words, language, text)}
    rests = [each[len(text) :] for each in language if each.startswith(text)]
    sure = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(min(rests), max(rests), strict=False)))
    own = {words[token] for token in tokenizer.encode(sure)[:1]}
    texts = Prefixes.of([[1, 2]], ends=tokenizer.ends, most=9)
    for token in begun:
        texts.add(torch.tensor([token]))
    spelt = {"lark": "start: " + " | ".join(map(json.dumps, language)), "regex": "|".join(map(re.escape, language))}
    for kind, written in spelt.items():
        scores = Grammar(language=kind, text=written, tokenizer=tokenizer).apply(torch.zeros(1, size), texts)
        allowed = {number for number in range(size) if scores[0, number] == 0}
        # Of tokens that spell the same one alone is left, and of what must come next the tokenizer's own first token may be.
        assert {words[number] for number in allowed - {*tokenizer.ends}} in (wanted, own if sure else wanted)
        assert allowed.isdisjoint(tokenizer.ends) == (text not in language)
        assert naive(words, language, text) >= allowed - {*tokenizer.ends}


@pytest.mark.parametrize("how", [{}, {"answers": 2}, {"beams": Beams(count=3)}])
def test_a_grammar_of_every_token_changes_nothing(speaker, how):
    model, tokenizer = speaker
    count, (end,) = tokenizer.vocab_size, tokenizer.ends
    spans = [f"<[{begin}-{last}]>" for begin, last in ((0, end - 1), (end + 1, count - 1)) if begin <= last]
    every = Grammar(language="lark", text=f"start: ({' | '.join(spans)})*", tokenizer=tokenizer)
    plain = Sampling(temperature=0 if "beams" in how else 1, seed=3)
    free, held = plain.with_parts(WithinVocabulary(size=count)), plain.with_parts(every)
    wanted = generate(model, tokenizer, ["def ", "a"], max_tokens=24, sampling=free, **how)
    assert generate(model, tokenizer, ["def ", "a"], max_tokens=24, sampling=held, **how) == wanted


def test_the_choice_in_words_names_the_grammar_and_no_tokenizer(speaker):
    grammar = Grammar(language="regex", text="a+", tokenizer=speaker[1])
    assert str(Decoding(sampling=Sampling(processors=(grammar,)))).endswith("grammar regex a+")


def test_rows_and_beams_each_keep_to_it(speaker):
    model, tokenizer = speaker
    grammar = Grammar(language="regex", text="(ab|ba){2}1?", tokenizer=tokenizer)
    drawn, likeliest = Sampling(processors=(grammar,)), Sampling(temperature=0, processors=(grammar,))
    found = generate(model, tokenizer, ["a", "b", "c"], max_tokens=9, answers=3, sampling=drawn)
    searched = generate(model, tokenizer, ["a"], max_tokens=9, beams=Beams(count=3), sampling=likeliest)
    assert all(re.fullmatch("(ab|ba){2}1?", text) for text in [*(text for texts in found for text in texts), *searched])


def test_what_cannot_be_followed_is_refused(speaker):
    model, tokenizer = speaker
    for language, text, said in (
        ("regex", "(", "unclosed group"), ("json_schema", "{", "is no JSON"), ("json_schema", "[]", "should be an object"),
        ("json_schema", '{"not": {}}', "Unimplemented keys"), ("lark", "start: other", "other"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=re.escape(said)):
            Grammar(language=language, text=text, tokenizer=tokenizer).places(tokenizer.vocab_size, tokenizer.ends)
    grammar = Grammar(language="regex", text="a", tokenizer=tokenizer)
    with pytest.raises(NoChoiceError, match="a token that ends it"):
        generate(model, tokenizer, "a", ends=(), sampling=Sampling(processors=(grammar,)))
