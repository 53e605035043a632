"""What every part and every architecture owes (`anyformer.testing`), over the whole zoo."""

from __future__ import annotations

import naive
import pytest
from zoo import DECODERS, ENCODERS, LIMITED, PAIRS, PROMPTED_DECODERS, SOURCES, ZOO

from anyformer.testing import flops, learning, whole
from anyformer.testing.contracts import CONTRACTS, LEARNING, owed
from anyformer.testing.traits import decodes_tokens, encodes_tokens, limits, reads_prefix, recurrent, two_inputs, two_texts
from covering import cover


def pairs():
    """Every contract that every architecture owes; of an architecture one after the other, which share its model."""
    chosen = cover(ZOO)
    for name, architecture in ZOO.items():
        marks = () if name in chosen else pytest.mark.slow
        yield from (pytest.param(name, each, id=f"{name}-{each.name}", marks=marks) for each in owed(architecture))


@pytest.mark.parametrize(("name", "contract"), list(pairs()))
def test_the_zoo_keeps_every_contract(name, contract):
    if contract is LEARNING:
        learning.every_weight_learns(ZOO[name], naive.predictions)
    else:
        contract.holds(ZOO[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_flops_of_attention_written_out_are_counted_too(name):
    flops.declared_flops_are_counted(ZOO[name], "plain")


def test_contracts_find_architectures_by_what_they_are():
    """The tables of the zoo say the same by hand."""
    decoders, encoders = DECODERS | LIMITED | PROMPTED_DECODERS, [*ENCODERS, "convolutional_positions"]
    by_hand = {decodes_tokens: decoders, encodes_tokens: encoders, two_texts: PAIRS, two_inputs: PAIRS | SOURCES}
    for trait, table in by_hand.items():
        assert {name for name, each in ZOO.items() if trait(each)} == set(table), trait.__name__
    assert {"delta", "lightning", "linear_elu", "gated_convolution", "pair_recurrent"} <= {n for n in ZOO if recurrent(ZOO[n])}
    assert {"prefix", "prefix_or_window", "prompt"} == {name for name, each in ZOO.items() if reads_prefix(each)}


def test_every_contract_is_owed_by_some_architecture_and_every_limit_is_met():
    assert {contract for each in ZOO.values() for contract in owed(each)} == set(CONTRACTS)
    for contract in ("causal", "packed", "padded", "cached", "chunked"):
        assert any(limits(each, contract) for each in ZOO.values()), contract


def test_what_a_contract_needs_is_asked_before_it():
    before = set()
    for contract in (*CONTRACTS, *whole.CONTRACTS):
        assert set(contract.presupposes) <= before, contract.name
        before.add(contract.name)
