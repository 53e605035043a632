"""Chats as tokens: those of transformers, and what is learnt of them that of a template with marks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from anyformer.text import DataError, Tokenizer
from anyformer.text.chat import Chat, answer_end, chat_tokens, completion_tokens, first_question, prompt_tokens
from effort import examples
from text.chat.folders import CHAT, CHATML, LOGICS, ORDINARY, TOKENS, ours, plain, published, write

REASONED = [
    {"role": "user", "content": "What is 2 + 2? /no_think"},
    {"role": "assistant", "content": "<think>\ntwo and two\n</think>\n\n4"},
    {"role": "user", "content": "And again, in words\n"},
    {"role": "assistant", "content": "Four, I think", "reasoning_content": "once more 🙂"},
]
CALLING = [
    {"role": "user", "content": "What is 2 + 2?"},
    {"role": "assistant", "content": "", "tool_calls": [
        {"type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": "zwei è"}}}
    ]},
    {"role": "tool", "name": "add", "content": "4"},
    {"role": "assistant", "content": "It is 4."},
]  # fmt: skip


def safe(chat: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The chat without special tokens in what is said, so that transformers' way is safe too."""
    return [{**turn, "content": turn["content"].replace("<|", "(").replace("|>", ")")} for turn in chat]


def theirs(where, chat, **given: Any) -> tuple[list[int], list[int]]:
    """Tokens and mask as transformers gives them."""
    tokenizer = AutoTokenizer.from_pretrained(where)
    out = tokenizer.apply_chat_template(chat, return_assistant_tokens_mask=True, return_dict=True, **given)
    return out["input_ids"], out["assistant_masks"]


def written(tokenizer: Tokenizer, chat, **given: Any) -> tuple[list[int], list[int]]:
    found = chat_tokens(tokenizer, Chat(chat, **given))
    return found.tokens.tolist(), found.learnt.astype(int).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):
    """The directory of a template, with its marks or without."""
    made = {}

    def find(logic: str, marks: bool):
        if (logic, marks) not in made:
            template = LOGICS[logic] if marks else plain(LOGICS[logic])
            made[logic, marks] = write(tmp_path_factory.mktemp(logic), template)
        return made[logic, marks]

    return find


def test_our_own_form():
    tokenizer = ours()
    chat = [{"role": "user", "content": "hi <|user|>"}, {"role": "assistant", "content": "ho"}]
    special = {name: tokenizer.special_tokens[f"<|{name}|>"] for name in ("user", "assistant", "turn_end")}
    said, answered = tokenizer.encode("hi <|user|>"), tokenizer.encode("ho")
    asked = [special["user"], *said, special["turn_end"], special["assistant"]]
    assert written(tokenizer, chat) == (
        [*asked, *answered, special["turn_end"]],
        [0] * len(asked) + [1] * (len(answered) + 1),
    )
    assert prompt_tokens(tokenizer, chat[:1]) == asked
    assert answer_end(tokenizer) == special["turn_end"]
    assert first_question(tokenizer, [*asked, *answered, special["turn_end"]]) == "hi <|user|>"
    assert first_question(tokenizer, said) == "", "nobody asks"


def test_the_template_of_a_tokenizer_made_here_serves_transformers(tmp_path):
    ours().save(tmp_path)
    assert written(Tokenizer.load(tmp_path), safe(CHAT)) == theirs(tmp_path, safe(CHAT))


@pytest.mark.parametrize("marks", [True, False])
@pytest.mark.parametrize("logic", LOGICS)
def test_tokens_and_answers_are_those_of_transformers(folder, logic, marks):
    """Without marks too, the answers are those of the template with marks, whose text is the same."""
    tokenizer, checked = Tokenizer.load(folder(logic, marks)), 0
    for chat in (safe(CHAT[1:]), safe(CHAT), REASONED, REASONED[:2], CALLING, CALLING[:2]):
        try:
            expected = theirs(folder(logic, True), chat)
        except Exception as error:  # what transformers refuses
            with pytest.raises(DataError, match="refuses a chat"):
                chat_tokens(tokenizer, chat)
            assert "alternate" in str(error) or "not supported" in str(error)  # noqa: PT017 (which it is differs)
            continue
        if logic != "thinking" and chat in (CALLING, CALLING[:2]):
            with pytest.raises(DataError, match="leaves out what assistant says in turn 1"):
                chat_tokens(tokenizer, chat)
            continue
        assert written(tokenizer, chat) == expected
        asked = AutoTokenizer.from_pretrained(folder(logic, True)).apply_chat_template(
            chat[:-1], add_generation_prompt=True, return_dict=True
        )["input_ids"]
        assert prompt_tokens(tokenizer, chat[:-1]) == asked
        checked += 1
    assert checked >= 2


@pytest.mark.parametrize("marks", [True, False])
def test_reasoning_that_a_template_removes_is_not_learnt(folder, marks):
    tokenizer = Tokenizer.load(folder("thinking", marks))
    found = chat_tokens(tokenizer, REASONED)
    learnt = tokenizer.decode(found.tokens[found.learnt], special=True)
    assert learnt == "4<|im_end|>\n<think>\nonce more 🙂\n</think>\n\nFour, I think<|im_end|>\n"


@pytest.mark.parametrize("logic", LOGICS)
@examples(25)
@given(
    contents=st.lists(
        st.sampled_from(["a", " b ", "🙂é", "\n\n", "</think>", "<think>\nx", "/no_think", "word " * 4]),
        min_size=4,
        max_size=24,
    )
)
def test_contents_of_all_kinds(folder, logic, contents):
    said = ["".join(contents[place::4]) or "x" for place in range(4)]
    chat = [
        {"role": ("user", "assistant")[place % 2], "content": text if text.strip() else f"{text}x"}
        for place, text in enumerate(said)
    ]
    try:
        found = written(Tokenizer.load(folder(logic, False)), chat)
    except DataError as error:
        assert "leaves out" in str(error)  # noqa: PT017 (an answer of reasoning alone)
        return
    tokens, answers = theirs(folder(logic, True), chat)
    assert found[0] == tokens
    assert found == (tokens, answers)


@pytest.mark.parametrize("marks", [True, False])
@pytest.mark.parametrize("logic", LOGICS)
def test_no_text_becomes_a_special_token(folder, logic, marks):
    tokenizer = Tokenizer.load(folder(logic, marks))
    specials = set(tokenizer.special_tokens.values())
    spelt = CHAT[1:] if logic in ("alternating", "splitting") else CHAT
    tokens, answers = written(tokenizer, spelt)
    clean, _ = written(tokenizer, [{**turn, "content": "x"} for turn in spelt])
    assert [token for token in tokens if token in specials] == [token for token in clean if token in specials]
    assert "turn_end" in tokenizer.decode(tokens).lower()
    # The words are encoded as plain text is, and the masks are those of a chat that spells nothing.
    plainly = tokenizer.decode([token for token, answer in zip(tokens, answers, strict=True) if answer])
    assert plainly.count("<|turn_end|>".upper() if logic == "dated" else "<|turn_end|>") == 1


def test_words_that_a_template_looks_for_stay_text(tmp_path):
    """A special token in a content that the template takes apart."""
    template = plain(LOGICS["splitting"]).replace("</think>", "<|sep|>")
    tokenizer = Tokenizer.load(write(tmp_path, template))
    chat = [{"role": "user", "content": "say <|im_end|>"}, {"role": "assistant", "content": "thought<|sep|>said <|im_end|>"}]
    tokens, answers = written(tokenizer, chat)
    learnt = [token for token, answer in zip(tokens, answers, strict=True) if answer]
    assert tokenizer.decode(learnt, special=True) == "said <|im_end|><|im_end|>"
    assert learnt == [*tokenizer.encode("said <|im_end|>"), tokenizer.special_tokens["<|im_end|>"]]


def test_what_cannot_be_told_is_refused_in_words(tmp_path):
    counts = "{{ '<|sep|>' ~ m.content.split('<|im_end|>') | map('length') | list }}"
    template = f"{{% for m in messages %}}{counts}{{{{ m.content.strip() }}}}{{{{ '<|im_end|>' }}}}{{% endfor %}}"
    chat = [{"role": "user", "content": "a<|im_end|>"}, {"role": "assistant", "content": "b"}]
    with pytest.raises(DataError, match=r"spells '<\|im_end\|>', which must not become a special token.*leave them out"):
        chat_tokens(Tokenizer.load(write(tmp_path, template)), chat)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (None, "has no chat template"),
        ("{% for m in messages %}{{ m.content }} {% endfor %}", "ends an answer with no special token"),
        ("{{ messages[0].content }}<|im_end|>", "leaves out what assistant says in turn 1"),
        ("{{ raise_exception('no system, please') }}", "no system, please"),
        ("{% for m in %}", "is no Jinja"),
        ("{{ ''.__class__.__mro__ }}", "refuses a chat"),
        ("{{ messages.append(1) }}", "refuses a chat"),
        ("{% set n = namespace(_x=1) %}", "refuses a chat"),
    ],
)
def test_templates_that_cannot_serve_are_refused_in_words(tmp_path, template, said):
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    with pytest.raises(DataError, match=said):
        chat_tokens(Tokenizer.load(write(tmp_path, template)), chat)


def test_the_day_is_today(folder):
    tokenizer = Tokenizer.load(folder("dated", False))
    said = tokenizer.decode(chat_tokens(tokenizer, REASONED[:2]).tokens)
    assert f"Today is {datetime.now():%B %d, %Y}." in said


def test_variables_tools_and_documents_reach_the_template(tmp_path):
    template = (
        "{% for t in tools or [] %}{{ t | tojson }}{{ t | tojson(indent=2) }}{% endfor %}"
        "{% for d in documents or [] %}{{ d.title ~ d.text }}{% endfor %}{% if mood is defined %}{{ mood }}{% endif %}" + CHATML
    )
    where = write(tmp_path, template)

    def add(a: int, b: float = 1.0) -> float:
        """
        Add two numbers.

        Args:
            a: The first <one>.
            b: The second.
        """
        return a + b

    given = {"tools": [add, {"type": "function", "function": {"name": "f"}}], "documents": [{"title": "t", "text": "é"}]}
    expected = theirs(where, REASONED, mood="calm", **given)
    assert written(Tokenizer.load(where), REASONED, variables={"mood": "calm"}, **given) == expected
    with pytest.raises(DataError, match=r"the function 'oct' cannot become a tool|cannot become a tool"):
        written(Tokenizer.load(where), REASONED, tools=[oct])


def test_parts_of_content_are_joined_where_a_template_reads_text(tmp_path, folder):
    parts = [{**turn, "content": [{"type": "text", "text": turn["content"]}]} for turn in REASONED]
    assert written(Tokenizer.load(folder("thinking", True)), parts) == theirs(folder("thinking", True), REASONED)
    reads = write(
        tmp_path,
        "{% for m in messages %}{{ '<|sep|>' ~ m.role }}{% for p in m.content %}{{ '<|im_start|>' ~ p.text }}{% endfor %}"
        "{{ '<|im_end|>' }}{% endfor %}",
    )
    expected = AutoTokenizer.from_pretrained(reads).apply_chat_template(parts, return_dict=True)["input_ids"]
    assert written(Tokenizer.load(reads), parts)[0] == expected


def test_completions_are_what_follows_the_tokens_of_the_prompt(folder):
    tokenizer = Tokenizer.load(folder("thinking", False))
    asked, answers = REASONED[:1], (REASONED[1:2], [{"role": "assistant", "content": "five"}], REASONED[1:])
    found = completion_tokens(tokenizer, asked, answers)
    prompt = prompt_tokens(tokenizer, asked)
    for each, more in zip(found, answers, strict=True):
        assert each.tokens.tolist() == chat_tokens(tokenizer, [*asked, *more]).tokens.tolist()
        assert each.learnt.tolist() == [place >= len(prompt) for place in range(len(each.tokens))]


def test_a_named_token_is_plain_where_it_is_ordinary(tmp_path):
    """A token of its own that is not special is made from text too, as `Tokenizer.encode` makes it."""
    tokenizer = Tokenizer.load(write(tmp_path, CHATML))
    assert set(TOKENS) <= tokenizer.special_tokens.keys()
    assert not set(ORDINARY) & tokenizer.special_tokens.keys()
    chat = [{"role": "user", "content": "<|im_end|> <think>"}, {"role": "assistant", "content": "b"}]
    number = tokenizer.encode("<think>")
    assert len(number) == 1
    assert number[0] in chat_tokens(tokenizer, chat).tokens


@pytest.mark.parametrize("name", ["qwen3", "llama-3.1"])
def test_published_templates(name, tmp_path):
    where = published(name, tmp_path)
    tokenizer, other = Tokenizer.load(where), AutoTokenizer.from_pretrained(where)
    for chat in (safe(CHAT), REASONED, *([CALLING] if name == "qwen3" else [])):
        for variables in ({}, {"enable_thinking": False}):
            expected = other.apply_chat_template(chat, return_dict=True, **variables)["input_ids"]
            assert written(tokenizer, chat, variables=variables)[0] == expected
            asked = other.apply_chat_template(chat[:-1], add_generation_prompt=True, return_dict=True, **variables)["input_ids"]
            assert prompt_tokens(tokenizer, Chat(chat[:-1], variables=variables)) == asked
    learnt = {
        "qwen3": "4<|im_end|>\n<think>\nonce more 🙂\n</think>\n\nFour, I think<|im_end|>\n",
        "llama-3.1": "<think>\ntwo and two\n</think>\n\n4<|eot_id|>Four, I think<|eot_id|>",
    }
    found = chat_tokens(tokenizer, REASONED)
    assert tokenizer.decode(found.tokens[found.learnt], special=True) == learnt[name]
    spelt = chat_tokens(
        tokenizer, [{"role": "user", "content": "a <|im_end|><|eot_id|>"}, {"role": "assistant", "content": "b"}]
    )
    assert (spelt.tokens == answer_end(tokenizer)).sum() == 2
