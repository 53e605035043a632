"""Every task: what is asked follows from what is read, the stated chance is that of the best guess, and draws are pure."""

from __future__ import annotations

import math
import re
from itertools import product

import numpy as np
import pytest
from tests.tasks.oracles import ORACLES

from anyformer.data import IGNORED
from anyformer.describe import DescriptionError, docstrings
from anyformer.tasks import Addition, Memorisation, Regression, Sorting, Task, TaskData
from anyformer.tasks.sorting import likeliest
from anyformer.testing import tasks
from anyformer.testing.tasks import drawn

SMALL = {
    "mqar": {"pairs": 4, "keys": 8, "values": 6},
    "induction": {"letters": 20},
    "copying": {"letters": 5},
    "reversal": {"letters": 5},
    "selective_copying": {"items": 4, "letters": 5},
    "needle": {"needles": 3, "keys": 5, "values": 6, "letters": 7},
    "indirect_object": {"names": 6, "letters": 3},
    "sorting": {"numbers": 9},
    "parity": {},
    "modular_addition": {"modulus": 11},
    "addition": {"digits": 2},
    "dyck": {"brackets": 3, "depth": 3},
    "fuzzy_recall": {"pairs": 3, "span": 3, "letters": 4},
    "compression": {"letters": 5, "places": 16},
    "memorisation": {"keys": 20, "values": 6},
    "regression": {"inputs": 2, "greatest": 2},
}
"""Fields under which a guess is often right, so that few rows tell its chance."""


def small(kind: str) -> Task:
    return Task.kinds[kind].parse(SMALL[kind])  # type: ignore[attr-defined,no-any-return]


def test_every_task_is_tested():
    assert SMALL.keys() == Task.kinds.keys()
    assert SMALL.keys() - ORACLES.keys() == {"memorisation"}


@pytest.mark.parametrize("kind", ORACLES)
def test_answers_are_those_of_a_plain_solution(kind):
    tasks.answers_are_those_of_its_solution(small(kind), ORACLES[kind])


@pytest.mark.parametrize("contract", tasks.CONTRACTS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("kind", SMALL)
def test_every_contract_holds(kind, contract):
    contract(small(kind))


def test_facts_are_one_table_in_training_and_test_and_another_for_another_seed():
    task = Memorisation(keys=20, values=6)
    made, other = drawn(task), drawn(task.but(table=1))
    known = dict(zip(made.tokens.ravel().tolist(), made.targets.ravel().tolist(), strict=True))
    assert len(known) == 20
    assert [known[key] for key in made.tokens.ravel().tolist()] == made.targets.ravel().tolist()
    assert max(np.bincount([value - 20 for value in known.values()])) == math.ceil(20 / 6)
    assert known != dict(zip(other.tokens.ravel().tolist(), other.targets.ravel().tolist(), strict=True))


@pytest.mark.parametrize("kind", SMALL)
def test_a_target_that_was_read_has_a_distance(kind):
    made = drawn(small(kind), 200)
    told = kind not in ("parity", "modular_addition", "addition", "memorisation", "regression")
    assert (((made.targets != IGNORED) & (made.distances > 0)).sum() == (made.targets != IGNORED).sum()) == told


@pytest.mark.parametrize("kind", SMALL)
def test_symbols_are_words_of_their_own(kind):
    tasks.symbols_are_words_of_their_own(Task.kinds[kind]())  # type: ignore[arg-type,call-arg]


@pytest.mark.parametrize("kind", SMALL)
def test_a_task_says_what_it_is(kind):
    entry = Task.kinds[kind]
    assert docstrings.first_sentence(entry)
    assert re.search(r"(arXiv )?\d{4}\.\d{5}", entry.paper)  # type: ignore[attr-defined]
    assert re.search(r"\d{4}\.\d{5}", entry.__doc__ or "")


def test_functions_are_held_out_and_not_only_rows():
    """No w that is tested is trained on: found from the rows by trying all of them."""
    data = TaskData(task=Regression(inputs=2, greatest=2), held_out=0.3)
    every = np.array(list(product(range(-2, 3), repeat=2)))
    seen = []
    for test in (False, True):
        made = data.drawn(np.arange(400), 3, 24, test=test).tokens.reshape(400, 8, 3)
        fits = (np.einsum("bnd,wd->bwn", made[..., :2] - 2, every) == made[:, None, :, 2] - 5 - 8).all(2)
        seen.append(set(fits[fits.sum(1) == 1].argmax(1).tolist()))
    assert min(map(len, seen)) > 3
    assert not seen[0] & seen[1]


def test_the_induction_head_is_not_replaced_by_a_fixed_distance():
    """How far back the piece stands differs from row to row."""
    made = drawn(small("induction"), 500)
    far = made.distances[:, -1]
    assert np.bincount(far).max() < 0.4 * len(far)


def test_the_chance_of_a_sorted_number_is_that_of_all_rows_counted():
    """All 3^4 rows of four of three numbers."""
    rows = np.sort(np.array(list(product(range(3), repeat=4))), axis=1)
    counted = [np.bincount(rows[:, place]).max() / len(rows) for place in range(4)]
    assert likeliest(3, 4) == pytest.approx(counted)
    assert Sorting(numbers=3).chance(8) == pytest.approx(np.mean(counted))


def test_nested_brackets_reach_the_greatest_depth_and_no_more():
    made = drawn(small("dyck"), 500, length=60)
    depth = np.cumsum(np.where(made.tokens == 3, -1, 1), axis=1)
    assert (depth.min(), depth.max()) == (0, 3)


def test_needles_stand_anywhere_and_none_on_another():
    made = drawn(small("needle"), 3000, length=12)
    told = made.tokens[:, :-2]
    keys = told < 5
    assert (keys.sum(1) == 3).all()
    assert keys.any(0)[:-1].all()
    rows, places = np.nonzero(keys)
    values = told[rows, places + 1]
    assert ((values >= 5) & (values < 11)).all()


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("mqar", {"pairs": 9, "keys": 8}, "pairs = 9 need as many different keys, and keys = 8"),
        ("needle", {"needles": 9, "keys": 8}, "needles = 9 need as many different keys, and keys = 8"),
        ("mqar", {"pairz": 9}, "did you mean 'pairs'"),
    ],
)
def test_fields_that_make_no_task_are_refused(kind, fields, message):
    with pytest.raises(DescriptionError, match=message):
        Task.kinds[kind].parse(fields)  # type: ignore[attr-defined]


def test_a_sum_is_held_out_in_both_orders_and_with_zeros_in_front():
    """Pairs of one digit, written with one and with two: none is on both sides."""
    data = TaskData(task=Addition(digits=2), held_out=0.4, shortest=5)
    seen = []
    for test in (False, True):
        made = data.drawn(np.arange(3000), 2, 8, test=test)
        pairs = set()
        for row, source in zip(made.tokens.tolist(), made.sources.tolist(), strict=True):
            n = source // 2
            first, second = (int("".join(map(str, digits))) for digits in (row[:n], row[n + 1 : source]))
            pairs.add(frozenset((first, second)))
        seen.append(pairs)
    assert min(map(len, seen)) > 300
    assert not seen[0] & seen[1]


def test_the_last_digit_of_a_sum_may_stand_first():
    plain, turned = (drawn(Addition(first=first), 50) for first in ("greatest", "least"))
    source = int(plain.sources[0])
    assert (plain.targets[:, source:] == turned.targets[:, source:][:, ::-1]).all()
    assert (plain.tokens[:, : source + 1] == turned.tokens[:, : source + 1]).all()
