"""A tokenizer's `response_template` reads replies through transformers' parser, the same however the text comes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyformer.describe import UserError
from anyformer.text import Tokenizer
from anyformer.text.replies import ReplyForm, ReplyPart, form_of, told
from text.chat.folders import CHATML, write

TEMPLATE = {
    "version": 1,
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "content": {},
        "reasoning_content": {"open": "<think>", "close": "</think>"},
        "tool_calls": {"open": "<tool_call>", "close": "</tool_call>", "content": "json", "repeats": True},
    },
}
PROMPT = "<|im_start|>user\n<think>no</think><|im_end|><|im_start|>assistant\n"
CALL = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'


def read(text, places=(), prompt=PROMPT):
    reader = ReplyForm(authors=TEMPLATE).reader(prompt)
    ends = sorted({min(place, len(text)) for place in places})
    parts = [text[begin:end] for begin, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    return told([*map(reader.push, parts), reader.finish()])


def test_content_reasoning_and_calls():
    found = read(f"<think>why</think>so {CALL}{CALL}")
    assert (found.content, found.reasoning) == ("so ", "why")
    assert [(call.name, json.loads(call.arguments)) for call in found.calls] == [("f", {"a": 1})] * 2
    assert read("why</think>so", prompt=PROMPT + "<think>") == ReplyPart("so", "why")


def test_what_the_template_cannot_read_is_text():
    assert read("so <tool_call>{broken</tool_call> and") == ReplyPart("so <tool_call>{broken</tool_call> and")


@settings(max_examples=60, deadline=None)
@given(
    fragments=st.lists(
        st.sampled_from(["<think>", "</think>", CALL, "<tool_call>", "</tool_call>", "{", "text", " ", "<to"]), max_size=8
    ),
    places=st.lists(st.integers(0, 120), max_size=9),
)
def test_any_text_is_read_the_same_however_it_is_cut(fragments, places):
    text = "".join(fragments)
    assert read(text, places) == read(text)


def test_the_tokenizer_s_own_comes_first_unless_another_is_named(tmp_path):
    tokenizer = Tokenizer.load(write(tmp_path / "own", CHATML, response_template=TEMPLATE))
    assert form_of(tokenizer) == form_of(tokenizer, "authors") == ReplyForm(authors=TEMPLATE)
    assert form_of(tokenizer, "hermes").authors is None
    assert set(form_of(tokenizer).shown(tokenizer)) == set(tokenizer.special_tokens.values())
    wrong = Tokenizer.load(write(tmp_path / "wrong", CHATML, response_template={"version": 9}))
    with pytest.raises(UserError, match="cannot be read"):
        form_of(wrong).reader("")
