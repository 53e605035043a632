"""Every contract has a wrong part, task, objective or family that it alone notices: else nobody knows that it notices any."""

from __future__ import annotations

import inspect
import sys

import pytest
from tests.testing.unloading import forgetting, page_code
from tests.testing.wrong.alone import ByRoot, Louder
from tests.testing.wrong.alone import owed as alone
from tests.testing.wrong.every import TABLES, known
from tests.testing.wrong.fading import FadingSum, fading_by_hand
from tests.testing.wrong.families import family
from tests.testing.wrong.families import owed as of_family
from tests.testing.wrong.objectives import CONTRACTS as OF_OBJECTIVES
from tests.testing.wrong.objectives import Focal
from tests.testing.wrong.objectives import owed as of_objective
from tests.testing.wrong.optimisers import SignSteps
from tests.testing.wrong.optimisers import owed as of_optimiser
from tests.testing.wrong.table import Table, broken
from tests.testing.wrong.tasks import InTurn
from tests.testing.wrong.tasks import owed as of_task

import anyformer
from anyformer.objectives import CausalObjective
from anyformer.testing import contracts, families, formulas, optimisers, plugin, runs, tasks, twins, weights, whole
from anyformer.testing.around import decoder_of
from anyformer.testing.twins import sublayer_equals_its_twin
from anyformer.training import Run

CHEAP = ("alone", "tasks", "families")
"""Tables of which all contracts are asked in every run of the tests."""
EVERY = [(table, name) for table, each in TABLES.items() for name in each.wrong]
OWED = {
    "mixers": {each.name for each in contracts.CONTRACTS} | {sublayer_equals_its_twin.__name__},
    "alone": {
        formulas.part_equals_its_formula.__name__,
        formulas.declared_work_is_that_of_its_formula.__name__,
        formulas.statistics_are_in_fp32.__name__,
        weights.axes_count_what_they_name.__name__,
        weights.weights_start_as_said.__name__,
        twins.declared_work_is_near_that_of_its_twin.__name__,
    },
    "whole": {each.name for each in whole.CONTRACTS if not each.last},
    "tasks": {each.__name__ for each in (*tasks.CONTRACTS, tasks.answers_are_those_of_its_solution)},
    "objectives": {each.__name__ for each in OF_OBJECTIVES},
    "optimisers": {
        "description_survives_text",
        *(each.__name__ for each in (*optimisers.CONTRACTS, optimisers.updates_equal_its_twin)),
        runs.loss_falls_at_some_rate.__name__,
    },
    "families": {each.__name__ for each in (*families.CONTRACTS, families.logits_are_those_of_its_reference)},
}
NOT_ALONE = {
    # What is no number equals nothing.
    "forward_pass_is_computed": "sublayer_equals_its_twin",
    # What is changed in place was seen before.
    "first_prediction_is_the_forward_pass": "declared_values_are_seen",
    # An export is refused if its configuration would be read as another architecture.
    "configuration_there_and_back": "exported_weights_are_loaded_again",
    # A run goes on from the same file.
    "state_survives_save_and_load": "killed_and_resumed_equals_never_interrupted",
    # What a part says of itself reaches a checkpoint as text; the rest, tensors by name, is the package's own work.
    "saved_and_exported_are_loaded_again": "description_survives_text",
}
"""Contracts that no wrong thing can break alone -> one that breaks with it."""
ELSEWHERE = {
    # Of transformers itself, whose import takes seconds.
    "logits_are_those_of_transformers": "test_plugins.py: test_a_family_is_held_against_transformers",
}


@pytest.fixture(autouse=True)
def _known():
    with known():
        yield


@pytest.mark.parametrize(("table", "name"), EVERY)
def test_it_breaks_the_contracts(table, name):
    wrong = TABLES[table].wrong[name]
    assert set(broken(wrong.promises(), wrong.breaks)) == set(wrong.breaks)


@pytest.mark.parametrize(
    ("table", "name"),
    [each if each[0] in CHEAP else pytest.param(*each, marks=pytest.mark.slow) for each in EVERY],
)
def test_it_breaks_no_others(table, name):
    wrong = TABLES[table].wrong[name]
    errors = broken(wrong.promises())
    assert set(errors) == set(wrong.breaks), errors


def test_the_right_ones_break_none():
    """What wrong ones differ from."""
    contracts.check(decoder_of(FadingSum()), {"fading_sum": fading_by_hand})
    assert not broken(of_task(InTurn))
    for right in (ByRoot, Louder):
        assert not broken(alone(right))
    assert not broken(of_family(family))


@pytest.mark.slow
def test_the_right_objective_and_optimiser_break_none():
    assert not broken(of_objective(CausalObjective))
    assert not broken(of_objective(Focal))
    assert not broken(of_optimiser(SignSteps))


@pytest.mark.parametrize("table", TABLES)
def test_every_contract_is_noticed_to_be_broken_alone(table):
    found = TABLES[table]
    missing = OWED[table] - found.alone() - NOT_ALONE.keys()
    assert not missing, f"no wrong thing of tests/testing/wrong/ breaks these alone: {sorted(missing)}"
    for contract in OWED[table] & NOT_ALONE.keys():
        assert any({contract, NOT_ALONE[contract]} <= set(each.breaks) for each in found.wrong.values()), contract
        assert contract not in found.alone(), f"{contract} is broken alone: take it out of NOT_ALONE"


def test_every_contract_of_a_run_is_one_of_the_table():
    asked = {name for name, each in vars(runs).items() if inspect.isfunction(each) and _is_contract(name, each)}
    assert asked <= OWED["objectives"] | OWED["optimisers"]


def _is_contract(name, function):
    takes = [each.annotation for each in inspect.signature(function).parameters.values()]
    of_runs = function.__module__ == runs.__name__ and takes == [Run.__name__]
    return of_runs and not name.startswith("_") and name not in {"short", "trainer_of"}


def test_every_contract_of_a_plugin_is_one_of_the_tables(tmp_path):
    """So that a contract that `anyformer check` learns to ask has a wrong thing too."""
    (tmp_path / "page_parts.py").write_text(page_code())
    with forgetting():
        module = anyformer.load_plugin(tmp_path / "page_parts.py")
        promised = {each.what.partition(" (")[0] for each in plugin.promises(module)}
    assert promised <= set().union(*OWED.values()) | ELSEWHERE.keys()
    assert "page_parts" not in sys.modules


def test_a_contract_without_a_wrong_thing_is_told():
    assert Table(dict).alone() == set()
    assert OWED["tasks"] - Table(dict).alone() == OWED["tasks"]
