"""The order of classes: that of a model's configuration, wherever its names or numbers are meant."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyformer.data.labels import ordered, place_of
from anyformer.text import DataError

NAMES = ("pos", "neg", "none")
GENERIC = ("LABEL_0", "LABEL_1", "LABEL_2")


@pytest.mark.parametrize(
    ("found", "model", "wanted"),
    [
        ({"neg", "pos"}, NAMES, NAMES),
        ({"NEG", "Pos"}, NAMES, NAMES),
        ({"0", "2"}, NAMES, NAMES),
        ({"LABEL_1"}, NAMES, NAMES),
        ({"0", "1"}, GENERIC, ("0", "1", "2")),
        ({"LABEL_2", "LABEL_0"}, GENERIC, GENERIC),
        ({"b", "a"}, GENERIC, ("a", "b")),
        ({"b", "a"}, (), ("a", "b")),
        ({"0", "10", "9"}, (), ("0", "10", "9")),
    ],
)
def test_classes_are_in_the_order_of_the_model_that_names_them(found, model, wanted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ordered("label", found, (), model) == wanted
    for name in found:
        assert place_of(name, wanted) is not None


def test_names_that_are_none_of_the_models_are_numbered_anew_and_it_is_said():
    with pytest.warns(UserWarning, match=r"label: none of the data's classes \(ham, spam\) is one of the model's \(pos, neg"):
        assert ordered("label", {"spam", "ham"}, (), NAMES) == ("ham", "spam")


def test_names_of_which_some_are_the_models_are_refused():
    with pytest.raises(DataError, match=r"label: the data has the class 'mixed', and the model's classes are pos, neg, none"):
        ordered("label", {"pos", "mixed"}, (), NAMES)


def test_a_described_order_counts_before_the_models():
    assert ordered("label", {"neg"}, ("none", "neg", "pos"), NAMES) == ("none", "neg", "pos")
    with pytest.raises(DataError, match=r"the data has the class 'mixed', and data.labels are a, b"):
        ordered("label", {"mixed"}, ("a", "b"))


@given(st.lists(st.text(min_size=1), unique=True, min_size=1))
def test_every_class_is_found_at_its_own_place(names):
    assert [place_of(name, tuple(names)) for name in names] == list(range(len(names)))
