"""Choices by log-likelihood: those of a loop over whole texts."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from anyformer.data.row import BadRecord
from anyformer.evaluation import ChoiceQuestion, ChoiceResults, answer, better, open_subject, read_questions
from anyformer.evaluation.choices import Answered
from huggingface.layouts import LAYOUTS, write

QUESTIONS = [
    ChoiceQuestion("def f1(x):\n    return x", ("+ 1", "- something long", "\t* 2"), 0),
    ChoiceQuestion("x = ", ("1", "12345"), 1),
    ChoiceQuestion("", ("def", "return x"), 0),
    ChoiceQuestion("long " * 12, ("one", "other"), 1),
]


@torch.no_grad()
def naive(subject, text, choice):
    """The log-likelihood of the last tokens of a text, one call for each."""
    tokenizer, total = subject.tokenizer, 0.0
    joined = text + choice if not text or text[-1].isspace() or choice[0].isspace() else f"{text} {choice}"
    tokens = tokenizer.encode(joined) if text else [tokenizer.end, *tokenizer.encode(choice)]
    first = len(tokenizer.encode(text.rstrip())) or 1
    start = max(0, len(tokens) - subject.length - 1)
    for place in range(first, len(tokens)):
        logs = subject.model(torch.tensor([tokens[start:place]]))[0, -1].double().log_softmax(-1)
        total += float(logs[tokens[place]])
    return total


def test_choices_are_those_of_a_loop(first):
    subject = open_subject(first)
    found = answer(subject, QUESTIONS)
    for question, each in zip(QUESTIONS, found.answered, strict=True):
        expected = [naive(subject, question.context, choice) for choice in question.choices]
        assert each.log_likelihoods == pytest.approx(expected, rel=1e-5)
        assert each.chosen == expected.index(max(expected))
        by_character = [total / len(choice) for total, choice in zip(expected, question.choices, strict=True)]
        assert each.chosen_by_character == by_character.index(max(by_character))
    assert found.chance == pytest.approx((1 / 3 + 3 / 2) / 4)


def test_accuracies_count_right_answers():
    question = ChoiceQuestion("", ("ab", "c" * 10), 1)
    long_one = Answered(question, (-5.0, -6.0))
    found = ChoiceResults((long_one, Answered(question, (-5.0, -4.0)), Answered(question, (-1.0, -90.0))))
    assert (found.right, found.right_by_character) == ((False, True, False), (True, True, False))
    assert found.accuracy.value == pytest.approx(1 / 3)
    assert found.accuracy_by_character.value == pytest.approx(2 / 3)
    worst = ChoiceResults(tuple(Answered(question, (-1.0, -90.0)) for _ in range(40)))
    best = ChoiceResults(tuple(Answered(question, (-90.0, -1.0)) for _ in range(40)))
    assert (better(best, worst).verdict, better(worst, best).verdict) == ("better", "worse")
    assert better(best, best).verdict == "cannot tell"


def test_questions_are_read_by_number_or_text(tmp_path):
    rows = [
        {"question": "a", "choices": ["x", "y"], "answer": 1},
        {"context": "b", "question": "not this", "choices": ["x", "y"], "answer": "x"},
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_questions(path) == [ChoiceQuestion("a", ("x", "y"), 1), ChoiceQuestion("b", ("x", "y"), 0)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "a", "choices": ["x", "y"], "answer": 2}, r":1: field 'answer' is 2 .*from 0 to 1"),
        ({"question": "a", "choices": ["x", "y"], "answer": True}, r"field 'answer' is True"),
        ({"question": "a", "choices": ["x", "y"], "answer": "z"}, r"field 'answer' is 'z'"),
        ({"question": "a", "choices": ["x"], "answer": 0}, r"two or more texts"),
        ({"question": "a", "choices": ["x", "x"], "answer": 0}, r"'x' \(str\) twice"),
        ({"question": "a", "choices": ["x", ""], "answer": 0}, r"two or more texts"),
        ({"choices": ["x", "y"], "answer": 0}, r"no field 'question'"),
    ],
)
def test_questions_that_cannot_be_asked_are_named(tmp_path, row, message):
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(BadRecord, match=message):
        read_questions(path)
    path.write_text("\n")
    with pytest.raises(BadRecord, match="holds no question"):
        read_questions(path)


@pytest.mark.parametrize("name", ["T5", "BART"])
def test_choices_of_a_model_with_a_source_are_its_targets(tmp_path, name):
    """As in transformers with the choice as labels, and as lm-evaluation-harness asks: the blank goes to the choice."""
    write(LAYOUTS[name], tmp_path)
    tokenizer, model = AutoTokenizer.from_pretrained(tmp_path), AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    questions = [
        ChoiceQuestion("two and two are", ("four", "not three"), 0),
        ChoiceQuestion("What ", ("is", "model"), 1),
        ChoiceQuestion("", ("a",), 0),
    ]
    found = answer(open_subject(tmp_path), questions)
    for question, each in zip(questions, found.answered, strict=True):
        bare = question.context.rstrip()
        source = tokenizer(bare)["input_ids"] if bare else [tokenizer.bos_token_id]
        for choice, ours in zip(question.choices, each.log_likelihoods, strict=True):
            labels = tokenizer(f" {choice}" if bare else choice, add_special_tokens=False)["input_ids"]
            with torch.no_grad():
                loss = model(input_ids=torch.tensor([source]), labels=torch.tensor([labels])).loss
            assert ours == pytest.approx(-float(loss) * len(labels), rel=1e-5)
