"""Edit distances and error rates beside the recursion of their definition."""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from anyformer.text.edits import EditCounts, edit_distance

WORDS = st.lists(st.sampled_from("abc"), max_size=7)


def by_definition(said: tuple[str, ...], real: tuple[str, ...]) -> int:
    @cache
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        changed = distance(i - 1, j - 1) + (said[i - 1] != real[j - 1])
        return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1, changed)

    return distance(len(said), len(real))


@given(WORDS, WORDS)
def test_the_distance_is_that_of_its_definition(said, real):
    assert edit_distance(said, real) == by_definition(tuple(said), tuple(real))


@given(WORDS, WORDS, WORDS)
def test_it_is_a_metric(one, two, three):
    assert edit_distance(one, one) == 0
    assert edit_distance(one, two) == edit_distance(two, one)
    assert edit_distance(one, three) <= edit_distance(one, two) + edit_distance(two, three)


def test_rates_are_of_all_words_together():
    """`the cat sat` for `a cat sat down`: a substitution and a deletion; blanks between words are one."""
    one = EditCounts.of(" the  cat\nsat ", "a cat sat down")
    assert (one.word_edits, one.words, one.character_edits, one.characters) == (2, 4, 8, 14)
    both = one + EditCounts.of("yes yes yes", "yes")
    assert both.word_error_rate == 4 / 5
    assert both.character_error_rate == 16 / 17
    assert EditCounts.of("one", "").word_error_rate == 1.0
    assert EditCounts.of("", "").word_error_rate == 0.0
