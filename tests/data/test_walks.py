"""Questions about walks: every question another one, and what is preferred is what fits."""

from __future__ import annotations

from anyformer.data.builtin import SOURCES
from anyformer.data.builtin.walks import ANIMALS, COUNT, QUESTIONS, THINGS, fitting, question_of


def records(word):
    (source,) = SOURCES[word].sources()
    return [row.values for row in SOURCES[word].rows(source)]


def test_every_question_is_another_one_and_some_are_in_no_records():
    assert len({question_of(number) for number in range(QUESTIONS)}) == QUESTIONS > COUNT + 512
    asked = {row["prompt"] for row in records("walk-answers")}
    assert not asked & {question_of(number) for number in range(COUNT, QUESTIONS)}
    words = {word for question in asked for word in question.split()}
    assert {word for number in range(COUNT, QUESTIONS) for word in question_of(number).split()} <= words


def test_words_for_animals_fit():
    assert fitting(" cat dog cup hen") == 0.75
    assert fitting(" cat") == 0.25, "fewer words are no better"
    assert fitting(" cat cat cat cat cup") == 0.8, "nor are more"
    assert fitting(" cathedral") == 0
    assert len({*ANIMALS, *THINGS}) == 32


def test_the_chosen_answer_fits_better_and_the_desirable_one_by_half():
    pairs, judged = records("walk-preferences"), records("walk-judgements")
    assert len(pairs) > COUNT / 2
    assert all(fitting(row["chosen"]) > fitting(row["rejected"]) for row in pairs)
    assert all(row["label"] == (fitting(row["completion"]) >= 0.5) for row in judged)
    assert 0.4 < sum(row["label"] for row in judged) / len(judged) < 0.8
