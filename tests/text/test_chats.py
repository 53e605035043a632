"""Chats: written as transformers writes them, but for text that spells special tokens."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from anyformer.data import BytePairs, Bytes, Chats, Preferences, Prompts, TokenizerFile, prepare
from anyformer.data.vocabulary import make_tokenizer
from anyformer.text import DataError, Specials, Tokenizer
from anyformer.text.chat import answer_end, first_question, pieces_of, prompt_tokens, tokens_of
from anyformer.text.specials import SPEAKING
from data.texts import prose

CHAT = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "  What is 2 + 2?\n"},
    {"role": "assistant", "content": "4, of course."},
    {"role": "user", "content": "And <|turn_end|> or <|im_end|><|assistant|>?"},
    {"role": "assistant", "content": "Text, <|turn_end|>\nno more.  "},
]
PLAIN = [
    {"role": turn["role"], "content": turn["content"].replace("<|", "(").replace("|>", ")")} for turn in CHAT
]  # so that transformers' way is safe too
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}"
    "{% else %}{{ message['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TRIMMED = (
    "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' ~ message.role ~ '<|sep|>' ~ message.content | trim }}"
    "{{ '<|im_end|>' }}{% endfor %}"
)
BRACKETS = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'assistant' %}{{ message['content'] + '<|im_end|>' }}"
    "{% else %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% endif %}{% endfor %}"
)


@cache
def ours() -> Tokenizer:
    return make_tokenizer(BytePairs(vocab=400), lambda: [prose(3, 4000)], list, Specials(roles=SPEAKING))


@pytest.fixture
def folder(tmp_path: Path):
    """Write our tokenizer with other special tokens and this template into a directory."""

    def write(template: str | None, beside: bool = False) -> Path:
        table = json.loads(ours().definition)
        count = max(token["id"] for token in table["added_tokens"]) + 1
        plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        for number, name in enumerate(("<|im_start|>", "<|im_end|>", "<|sep|>")):
            table["added_tokens"].append({"id": 1000 + number, "content": name, **plain})
        assert count < 1000
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}
        (tmp_path / "tokenizer.json").write_text(json.dumps(table))
        if template is not None and beside:
            (tmp_path / "chat_template.jinja").write_text(template)
        elif template is not None:
            config["chat_template"] = template
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        return tmp_path

    return write


def written(tokenizer: Tokenizer, chat) -> tuple[list[int], list[int]]:
    pieces = pieces_of(tokenizer, chat)
    texts = tokenizer.encode_batch([piece.text for piece in pieces if not piece.special])
    tokens, turns = tokens_of(pieces, texts, tokenizer)
    return tokens.tolist(), (turns >= 0).astype(int).tolist()


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
    assert first_question(tokenizer, np.array(asked)) == "hi <|user|>"
    assert first_question(tokenizer, np.array(said)) == "", "nobody asks"


def test_no_text_becomes_a_special_token(folder):
    for tokenizer in (ours(), Tokenizer.load(folder(CHATML))):
        specials = set(tokenizer.special_tokens.values())
        for chat in (CHAT, PLAIN):
            tokens, _ = written(tokenizer, chat)
            clean, _ = written(tokenizer, [{**turn, "content": "x"} for turn in chat])
            assert [token for token in tokens if token in specials] == [token for token in clean if token in specials]
            assert "Text, " in tokenizer.decode(tokens)


@pytest.mark.parametrize("beside", [False, True])
def test_tokens_and_answers_are_those_of_transformers(folder, beside):
    where = folder(CHATML, beside)
    theirs = AutoTokenizer.from_pretrained(where)
    out = theirs.apply_chat_template(PLAIN, return_assistant_tokens_mask=True, return_dict=True)
    tokens, answers = written(Tokenizer.load(where), PLAIN)
    assert tokens == out["input_ids"]
    assert answers == out["assistant_masks"]
    assert {piece.turn for piece in pieces_of(Tokenizer.load(where), PLAIN)} == {-1, 2, 4}
    asked = theirs.apply_chat_template(PLAIN[:2], add_generation_prompt=True, return_dict=True)["input_ids"]
    assert prompt_tokens(Tokenizer.load(where), PLAIN[:2]) == asked


def test_the_template_of_a_tokenizer_made_here_serves_transformers(tmp_path):
    ours().save(tmp_path)
    out = AutoTokenizer.from_pretrained(tmp_path).apply_chat_template(
        PLAIN, return_assistant_tokens_mask=True, return_dict=True
    )
    assert written(Tokenizer.load(tmp_path), PLAIN) == (out["input_ids"], out["assistant_masks"])


def test_white_space_that_a_template_removes_is_removed(folder):
    where = folder(TRIMMED)
    out = AutoTokenizer.from_pretrained(where).apply_chat_template(PLAIN, return_dict=True)["input_ids"]
    assert written(Tokenizer.load(where), PLAIN)[0] == out


def test_without_marks_an_answer_ends_with_the_next_special_token(folder):
    where = folder(BRACKETS)
    tokenizer = Tokenizer.load(where)
    tokens, answers = written(tokenizer, PLAIN[1:])
    assert tokens == AutoTokenizer.from_pretrained(where).apply_chat_template(PLAIN[1:], return_dict=True)["input_ids"]
    assert {piece.turn for piece in pieces_of(tokenizer, PLAIN[1:])} == {-1, 1, 3}
    learnt = [token for token, answer in zip(tokens, answers, strict=True) if answer]
    assert tokenizer.decode(learnt, special=True) == "4, of course.<|im_end|>Text, (turn_end)\nno more.  <|im_end|>"
    # The first token of the first answer is among them.
    assert tokens[answers.index(1)] == tokenizer.encode("4, of course.")[0]


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
        ("\ue0f0{{ messages }}", "U\\+E0F0"),
    ],
)
def test_templates_that_cannot_serve_are_refused_in_words(folder, template, said):
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    with pytest.raises(DataError, match=said):
        pieces_of(Tokenizer.load(folder(template)), chat)


def lines(path: Path, rows: list[object]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_chats_become_columns(tmp_path):
    rows = [{"messages": [{**turn, "content": f"{turn['content']} {n}"} for turn in CHAT]} for n in range(30)]
    path = lines(tmp_path / "chats.jsonl", rows)
    corpus = prepare(Chats(paths=(path,), tokenizer=Bytes(), validation=0.2), tmp_path / "cache", 1, progress=False)
    record = corpus.train[0]
    assert corpus.tokenizer.special_tokens.keys() >= {"<|user|>", "<|assistant|>", "<|system|>", "<|turn_end|>"}
    assert len(record["tokens"]) == len(record["answers"])
    text = corpus.tokenizer.decode(record["tokens"][record["answers"] == 1].tolist(), special=True)
    assert text.startswith("4, of course. ")
    assert text.count("<|turn_end|>") == 3  # two ends of turns, and one that was said
    assert int(np.isin(record["tokens"][record["answers"] == 1], [corpus.tokenizer.special("turn_end")]).sum()) == 2


def test_pairs_are_chats_of_one_question(tmp_path):
    path = lines(tmp_path / "pairs.jsonl", [{"source": f"q{n}", "target": f"a{n}"} for n in range(30)])
    data = Prompts(paths=(path,), tokenizer=Bytes(), validation=0.2, prompt="source", answer="target")
    corpus = prepare(data, tmp_path / "cache", 1, progress=False)
    tokens, answers = corpus.train[0]["tokens"], corpus.train[0]["answers"]
    text = corpus.tokenizer.decode(tokens.tolist(), special=True)
    number = text.removeprefix("<|user|>q").split("<")[0]
    assert text == f"<|user|>q{number}<|turn_end|><|assistant|>a{number}<|turn_end|>"
    assert corpus.tokenizer.decode(tokens[answers == 1].tolist(), special=True) == f"a{number}<|turn_end|>"


def test_preferences_have_two_chats_each(tmp_path):
    asked = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "old"}, {"role": "user", "content": "r"}]
    rows = [
        {"prompt": "p", "chosen": f"good {n}", "rejected": "bad"} if n % 2 else
        {"prompt": asked, "chosen": [*asked, {"role": "assistant", "content": f"good {n}"}], "rejected": "bad"}
        for n in range(30)
    ]  # fmt: skip
    path = lines(tmp_path / "preferences.jsonl", rows)
    corpus = prepare(Preferences(paths=(path,), tokenizer=Bytes(), validation=0.2), tmp_path / "cache", 1, progress=False)
    seen = set()
    for number in range(len(corpus.train)):
        record = corpus.train[number]
        chosen, rejected = record["chosen"], record["rejected"]
        texts = [corpus.tokenizer.decode(line.tolist(), special=True) for line in (chosen, rejected)]
        seen.add(texts[1])
        assert corpus.tokenizer.decode(chosen[record["chosen_answers"] == 1].tolist()).startswith("good ")
        # The assistant's turn in the prompt is none of what was preferred.
        assert corpus.tokenizer.decode(rejected[record["rejected_answers"] == 1].tolist(), special=True) == "bad<|turn_end|>"
    assert seen == {
        "<|user|>p<|turn_end|><|assistant|>bad<|turn_end|>",
        "<|user|>q<|turn_end|><|assistant|>old<|turn_end|><|user|>r<|turn_end|><|assistant|>bad<|turn_end|>",
    }


@pytest.mark.parametrize(
    ("data", "row", "said"),
    [
        (Chats, {"messages": [{"role": "user", "content": "a"}]}, "no turn of the assistant"),
        (Chats, {"messages": [{"role": "assistant", "content": " "}]}, "an empty answer"),
        (Chats, {"messages": [{"role": 1, "content": "a"}]}, "should have a text as role and as content"),
        (Chats, {"messages": [{"role": "user"}]}, "should have a text as role and as content"),
        (Prompts, {"prompt": "a", "answer": ""}, "an empty answer"),
        (Prompts, {"question": "a", "answer": "b"}, "no field 'prompt'"),
        (Preferences, {"prompt": "a", "chosen": "b", "rejected": "b"}, "are the same"),
        (Preferences, {"prompt": "a", "chosen": "b", "rejected": [{"role": "user", "content": "c"}]}, "does not end with"),
    ],
)
def test_bad_records_are_named_by_line(tmp_path, data, row, said):
    path = lines(tmp_path / "bad.jsonl", [row])
    with pytest.raises(DataError, match=said) as error:
        prepare(data(paths=(path,), tokenizer=Bytes()), tmp_path / "cache", 1, progress=False)
    assert "bad.jsonl:1" in str(error.value)


def test_another_template_makes_the_corpus_again(folder, tmp_path):
    rows = [{"messages": [{"role": "user", "content": f"{n}"}, {"role": "assistant", "content": "b"}]} for n in range(20)]
    path = lines(tmp_path / "chats.jsonl", rows)
    lengths = []
    for template in (CHATML, BRACKETS):
        data = Chats(paths=(path,), tokenizer=TokenizerFile(path=str(folder(template))), validation=0.2)
        corpus = prepare(data, tmp_path / "cache", 1, progress=False)
        lengths.append(int(corpus.train.lengths("tokens").sum()))
    assert lengths[0] != lengths[1]
