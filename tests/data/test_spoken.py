"""Chats, prompts, completions and preferences in records: which turns they are, and which tokens are learnt."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer

from anyformer.data import Bytes, Chats, Completions, Corpus, Judgements, Preferences, Prompts, TokenizerFile, prepare
from anyformer.text import DataError, Tokenizer
from anyformer.text.chat import chat_tokens
from text.chat.folders import CHAT, CHATML, LOGICS, plain, write

QUESTION, GOOD, BAD = "What is 2 + 2?", "4, of course.", "5"


def lines(path: Path, rows: list[object]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def prepared(tmp_path: Path, data: type, rows: list[Any], **fields: Any) -> Corpus:
    """The records of a kind, all but one of them to train on, in the tokenizer of a directory or in bytes."""
    path = lines(tmp_path / "rows.jsonl", [*rows, *rows[:1]] if len(rows) == 1 else rows)
    given = {"tokenizer": Bytes(), "validation": 0.5, **fields}
    return prepare(data(paths=(path,), **given), tmp_path / "cache", 1, progress=False)


def only(tmp_path: Path, where: Path, data: type, row: dict[str, Any], **fields: Any) -> dict[str, list[int]]:
    """The numbers of one record."""
    tokenizer = TokenizerFile(path=str(where))
    corpus = prepared(tmp_path, data, [row], tokenizer=tokenizer, validation=0.0, **fields)
    return {name: values.tolist() for name, values in corpus.train[0].items()}


def test_chats_become_columns(tmp_path):
    rows = [{"messages": [{**turn, "content": f"{turn['content']} {n}"} for turn in CHAT]} for n in range(30)]
    corpus = prepared(tmp_path, Chats, rows, validation=0.2)
    record = corpus.train[0]
    assert corpus.tokenizer.special_tokens.keys() >= {"<|user|>", "<|assistant|>", "<|system|>", "<|turn_end|>"}
    assert len(record["tokens"]) == len(record["answers"])
    text = corpus.tokenizer.decode(record["tokens"][record["answers"] == 1].tolist(), special=True)
    assert text.startswith("4, of course. ")
    assert text.count("<|turn_end|>") == 3  # two ends of turns, and one that was said
    assert int(np.isin(record["tokens"][record["answers"] == 1], [corpus.tokenizer.special("turn_end")]).sum()) == 2


def test_pairs_are_chats_of_one_question(tmp_path):
    rows = [{"source": f"q{n}", "target": f"a{n}"} for n in range(30)]
    corpus = prepared(tmp_path, Prompts, rows, validation=0.2, prompt="source", answer="target")
    tokens, answers = corpus.train[0]["tokens"], corpus.train[0]["answers"]
    text = corpus.tokenizer.decode(tokens.tolist(), special=True)
    number = text.removeprefix("<|user|>q").split("<")[0]
    assert text == f"<|user|>q{number}<|turn_end|><|assistant|>a{number}<|turn_end|>"
    assert corpus.tokenizer.decode(tokens[answers == 1].tolist(), special=True) == f"a{number}<|turn_end|>"


SAME = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": GOOD}]
ALPACA = {"prompt": "instruction", "input": "input", "answer": "output"}
SHAREGPT = [{"from": "human", "value": QUESTION}, {"from": "gpt", "value": GOOD}]


@pytest.mark.parametrize(
    ("data", "row", "fields"),
    [
        (Chats, {"messages": SAME}, {}),
        (Chats, {"messages": json.dumps(SAME)}, {}),
        (Chats, {"conversations": SHAREGPT}, {"messages": "conversations"}),
        (Chats, {"messages": [{**SAME[0], "tool_calls": None, "content": [{"type": "text", "text": QUESTION}]}, SAME[1]]}, {}),
        (Prompts, {"prompt": QUESTION, "answer": GOOD}, {}),
        (Prompts, {"instruction": "What is", "input": "2 + 2?", "output": GOOD}, {**ALPACA, "glued": True}),
        (Prompts, {"instruction": QUESTION, "input": "", "output": GOOD}, ALPACA),
        (Completions, {"prompt": SAME[:1], "completion": SAME[1:]}, {}),
        (Completions, {"prompt": QUESTION, "completion": GOOD}, {"turns": True}),
    ],
)  # fmt: skip
def test_one_chat_in_many_forms(tmp_path, data, row, fields):
    where = write(tmp_path / "model", CHATML)
    chat = SAME
    fields = dict(fields)
    if fields.pop("glued", False):
        chat = [{"role": "user", "content": "What is\n2 + 2?"}, SAME[1]]
    expected = AutoTokenizer.from_pretrained(where).apply_chat_template(
        chat, return_assistant_tokens_mask=True, return_dict=True
    )
    found = only(tmp_path, where, data, row, **fields)
    assert found["tokens"] == expected["input_ids"]
    learnt = expected["assistant_masks"]
    # A completion is learnt to the end of what the template writes, as TRL does, and not only to the end of the marks.
    begin = learnt.index(1)
    assert found["answers"] == (learnt if data is not Completions else [int(n >= begin) for n in range(len(learnt))])


def test_completions_in_turns_are_learnt_alone(tmp_path):
    """No earlier answer of the prompt's, and every turn of the completion."""
    where = write(tmp_path / "model", plain(CHATML))
    row = {"prompt": [*SAME, {"role": "user", "content": "And?"}], "completion": [SAME[1], *SAME]}
    found = only(tmp_path, where, Completions, row)
    tokenizer = AutoTokenizer.from_pretrained(where)
    asked = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=True)["input_ids"]
    whole = tokenizer.apply_chat_template([*row["prompt"], *row["completion"]], return_dict=True)["input_ids"]
    assert found["tokens"] == whole
    assert found["answers"] == [int(n >= len(asked)) for n in range(len(whole))]


FRAME = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<|sep|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {},
}


@pytest.mark.parametrize("ended", [False, True])
def test_two_texts_are_one_with_the_frame_and_the_end(tmp_path, ended):
    """As TRL: `tokenizer(prompt + completion + eos)`, of which what `tokenizer(prompt)` has is not learnt."""
    where = write(tmp_path / "model", None)
    table = json.loads((where / "tokenizer.json").read_text())
    number = Tokenizer.load(where).special_tokens["<|sep|>"]
    frame = {**FRAME, "special_tokens": {"<|sep|>": {"id": "<|sep|>", "ids": [number], "tokens": ["<|sep|>"]}}}
    (where / "tokenizer.json").write_text(json.dumps({**table, "post_processor": frame}))
    row = {"prompt": "What is 2 + 2? It", "completion": "'s 4" + ("<|im_end|>" if ended else "")}
    found = only(tmp_path, where, Completions, row)
    theirs = AutoTokenizer.from_pretrained(where)
    alone, whole = theirs(row["prompt"])["input_ids"], theirs("What is 2 + 2? It's 4<|im_end|>")["input_ids"]
    shared = next((n for n, (a, b) in enumerate(zip(alone, whole, strict=False)) if a != b), len(alone))
    assert alone[0] == number
    assert found == {"tokens": whole, "answers": [int(n >= shared) for n in range(len(whole))]}


TURN = {"role": "user", "content": QUESTION}


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": [TURN], "chosen": [SAME[1]], "rejected": [{"role": "assistant", "content": BAD}]},
        {"prompt": [TURN], "chosen": SAME, "rejected": [TURN, {"role": "assistant", "content": BAD}]},
        {"chosen": SAME, "rejected": [TURN, {"role": "assistant", "content": BAD}]},
    ],
)
def test_preferences_in_turns(tmp_path, row):
    where = write(tmp_path / "model", plain(LOGICS["thinking"]))
    found, tokenizer = only(tmp_path, where, Preferences, row), Tokenizer.load(where)
    for name, answer in (("chosen", GOOD), ("rejected", BAD)):
        whole = chat_tokens(tokenizer, [TURN, {"role": "assistant", "content": answer}])
        assert found[name] == whole.tokens.tolist()
        assert found[f"{name}_answers"] == whole.learnt.astype(int).tolist()


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "It", "chosen": " is 4", "rejected": " is 5"},
        {"chosen": "It is 4", "rejected": "It is 5"},
    ],
)
def test_preferences_in_texts(tmp_path, row):
    where = write(tmp_path / "model", None)
    found, tokenizer = only(tmp_path, where, Preferences, row), Tokenizer.load(where)
    prompt = row.get("prompt", "It is")
    for name, text in (("chosen", "It is 4"), ("rejected", "It is 5")):
        tokens = [*tokenizer.encode(text), tokenizer.end]
        assert found[name] == tokens
        assert found[f"{name}_answers"] == [int(n >= len(tokenizer.encode(prompt))) for n in range(len(tokens))]


def test_preferences_in_texts_may_be_turns(tmp_path):
    asked = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "old"}, {"role": "user", "content": "r"}]
    rows = [
        {"prompt": "p", "chosen": f"good {n}", "rejected": "bad"} if n % 2 else
        {"prompt": asked, "chosen": [*asked, {"role": "assistant", "content": f"good {n}"}], "rejected": "bad"}
        for n in range(30)
    ]  # fmt: skip
    corpus = prepared(tmp_path, Preferences, rows, validation=0.2, turns=True)
    seen = set()
    for number in range(len(corpus.train)):
        record = corpus.train[number]
        chosen, rejected = record["chosen"], record["rejected"]
        seen.add(corpus.tokenizer.decode(rejected.tolist(), special=True))
        assert corpus.tokenizer.decode(chosen[record["chosen_answers"] == 1].tolist()).startswith("good ")
        # The assistant's turn in the prompt is none of what was preferred.
        assert corpus.tokenizer.decode(rejected[record["rejected_answers"] == 1].tolist(), special=True) == "bad<|turn_end|>"
    assert seen == {
        "<|user|>p<|turn_end|><|assistant|>bad<|turn_end|>",
        "<|user|>q<|turn_end|><|assistant|>old<|turn_end|><|user|>r<|turn_end|><|assistant|>bad<|turn_end|>",
    }


def test_tools_and_variables_of_a_record_reach_the_template(tmp_path):
    template = "{{ tools | tojson }}{{ mood ~ day }}" + plain(LOGICS["thinking"])
    where = write(tmp_path / "model", template)
    tools = [{"type": "function", "function": {"name": "f"}}]
    row = {"messages": SAME, "tools": json.dumps(tools), "chat_template_kwargs": {"mood": "calm"}}
    found = only(tmp_path, where, Chats, row, template_set={"mood": "dull", "day": 3})
    expected = AutoTokenizer.from_pretrained(where).apply_chat_template(SAME, tools=tools, mood="calm", day=3, return_dict=True)
    assert found["tokens"] == expected["input_ids"]


def test_another_template_is_named_and_makes_the_corpus_again(tmp_path):
    where = write(tmp_path / "model", CHATML)
    found = {}
    for name in ("alternating", "thinking"):
        (tmp_path / "own.jinja").write_text(LOGICS[name])
        found[name] = only(tmp_path, where, Chats, {"messages": SAME}, template=str(tmp_path / "own.jinja"))["tokens"]
        expected = AutoTokenizer.from_pretrained(where).apply_chat_template(SAME, chat_template=LOGICS[name], return_dict=True)
        assert found[name] == expected["input_ids"]
    assert found["alternating"] != found["thinking"]


def test_another_template_of_the_tokenizer_makes_the_corpus_again(tmp_path):
    rows = [{"messages": [{"role": "user", "content": f"{n}"}, {"role": "assistant", "content": "b"}]} for n in range(20)]
    lengths = []
    for template in (CHATML, LOGICS["splitting"]):
        tokenizer = TokenizerFile(path=str(write(tmp_path / "model", template)))
        lengths.append(int(prepared(tmp_path, Chats, rows, tokenizer=tokenizer).train.lengths("tokens").sum()))
    assert lengths[0] != lengths[1]


@pytest.mark.parametrize(
    ("data", "row", "said"),
    [
        (Chats, {"messages": [{"role": "user", "content": "a"}]}, "no turn of the assistant"),
        (Chats, {"messages": [{"role": "assistant", "content": " "}]}, "an empty answer"),
        (Chats, {"messages": [{"role": 1, "content": "a"}]}, "should have a text as role and as content"),
        (Chats, {"messages": [{"role": "user"}]}, "should have a text as role and as content"),
        (Chats, {"messages": [{"role": "tool", "content": "a"}, *SAME]}, "role is 'tool'.*name one of system, user, assistant"),
        (Chats, {"messages": SAME, "tools": "{"}, "field 'tools' is no JSON"),
        (Prompts, {"prompt": "a", "answer": ""}, "an empty answer"),
        (Prompts, {"question": "a", "answer": "b"}, "no field 'prompt'"),
        (Completions, {"prompt": "a", "completion": ""}, "'completion' is empty"),
        (Judgements, {"prompt": "a", "completion": "b"}, "no field 'label'"),
        (Judgements, {"prompt": "a", "completion": "b", "label": "good"}, "should be true or false, got 'good'"),
        (Judgements, {"prompt": "a", "completion": "", "label": 1}, "'completion' is empty"),
        (Preferences, {"prompt": "a", "chosen": "b", "rejected": "b"}, "are the same"),
        (Preferences, {"prompt": "a", "chosen": "b", "rejected": " "}, "an empty answer"),
        (partial(Preferences, margin="by"), {"prompt": "a", "chosen": "b", "rejected": "c"}, "no field 'by'"),
        (partial(Preferences, agreement="by"), {"prompt": "a", "chosen": "b", "rejected": "c", "by": 2}, "from 0 to 1, got 2"),
        (Preferences, {"prompt": "a", "chosen": "b", "rejected": [{"role": "user", "content": "c"}]}, "does not end with"),
    ],
)
def test_bad_records_are_named_by_line(tmp_path, data, row, said):
    with pytest.raises(DataError, match=said) as error:
        prepared(tmp_path, data, [row])
    assert "rows.jsonl:1" in str(error.value)
