"""No body makes the server fail: whatever comes is answered, or refused in the protocol's form."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anyformer.catalogue import architecture
from anyformer.describe import change
from anyformer.model.transformer import build
from anyformer.serving.bodies import REFUSED, ChatBody, CompletionBody
from serving.service import LENGTH, running, service
from text.chat.folders import ours

ADDRESSES = ("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/detokenize")
FIELDS = sorted({*CompletionBody.model_fields, *ChatBody.model_fields, *REFUSED, "input", "tokens", "encoding_format"} - {"n"})
TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
NUMBER = st.one_of(st.integers(-3, 300), st.integers(), st.floats(), st.sampled_from([1e-320, 1e300, 2**63, -(2**64)]))
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBER, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
WORDS = st.text(max_size=6)
TOKENS = st.lists(st.integers(0, 255), min_size=1, max_size=6)
TURN = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool"]), "content": WORDS})
FEW = st.integers(1, 5)
NEEDED = {
    "/v1/completions": {"prompt": st.one_of(WORDS, TOKENS, st.lists(WORDS, min_size=1, max_size=3)), "max_tokens": FEW},
    "/v1/chat/completions": {"messages": st.lists(TURN, min_size=1, max_size=3), "max_completion_tokens": FEW},
    "/v1/embeddings": {"input": st.one_of(WORDS, st.lists(WORDS, min_size=1, max_size=2))},
    "/tokenize": {"prompt": WORDS},
    "/detokenize": {"tokens": TOKENS},
}
"""What a body at each address has."""
USUAL = {
    "temperature": st.floats(0, 3), "seed": st.integers(0, 2**40), "stop": st.lists(st.text(min_size=1), max_size=2),
    "stream": st.booleans(), "top_p": st.floats(0.1, 1), "top_k": st.integers(-1, 9), "presence_penalty": st.floats(-2, 2),
    "logit_bias": st.dictionaries(st.integers(0, 250).map(str), st.floats(-100, 100), max_size=2), "n": st.integers(1, 3),
    "min_tokens": st.integers(0, 3), "ignore_eos": st.booleans(), "user": TEXT, "return_tokens_as_token_ids": st.booleans(),
}  # fmt: skip
"""What a body of a text may have."""


@st.composite
def requests(draw):
    """An address and a body for it, in which a field or two may be anything."""
    address = draw(st.sampled_from(ADDRESSES))
    if draw(st.integers(0, 19)) == 0:
        return address, draw(PLAIN)
    usual = draw(st.lists(st.sampled_from(sorted(USUAL)), max_size=4, unique=True)) if "completions" in address else []
    body = {name: draw(each) for name, each in {**NEEDED[address], **{name: USUAL[name] for name in usual}}.items()}
    if draw(st.integers(0, 2)) == 0:
        body |= draw(st.dictionaries(st.sampled_from(FIELDS), PLAIN, max_size=2))
    return address, body


@pytest.fixture(scope="module")
def client():
    tokenizer = ours()
    tiny = change(architecture("llama-12m", tiny=True), "embedding.vocab", tokenizer.vocab_size)
    with running(service(build(tiny, seed=3).eval(), tokenizer)) as made:
        yield made


def answered(client, address, body):
    answer = client.post(address, content=json.dumps(body).encode(), headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400, 404), (answer.status_code, answer.text)
    if answer.status_code != 200:
        error = answer.json()["error"]
        assert error["message"]
        assert (error["type"], error["code"]) == (
            "not_found_error" if answer.status_code == 404 else "invalid_request_error", answer.status_code,
        )  # fmt: skip
    assert "Traceback" not in answer.text
    return answer.status_code


def fuzz(client, count):
    how = settings(max_examples=count, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    counts = Counter()

    def asked(request):
        counts[answered(client, *request)] += 1

    how(given(requests())(asked))()
    assert min(counts[200], counts[400]) > count // 10, counts


def test_no_body_makes_the_server_fail(client):
    fuzz(client, 80)
    assert client.get("/health").json() == {"status": "ok"}


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_ten_thousand_bodies(client):
    fuzz(client, 10_000)


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "a", "temperature": 1e-320},
        {"prompt": "a", "\ud800": 1},
        {"prompt": "\ud800"},
        {"prompt": "a", "model": "\ud800"},
        {"prompt": "a", "logit_bias": {str(token): -100 for token in range(300)}, "max_tokens": 2},
        {"prompt": [2**62]},
        {"prompt": [[]]},
        {"prompt": "a", "max_tokens": 2**62},
        {"prompt": "a" * (LENGTH + 1)},
    ],
)
def test_bodies_at_edges(client, body):
    answered(client, "/v1/completions", body)
