"""What every part and every architecture owes (`anyformer.testing`), over the whole zoo."""

from __future__ import annotations

import naive
import pytest
from zoo import DECODERS, ENCODERS, LIMITED, PAIRS, PROMPTED_DECODERS, SOURCES, ZOO

from anyformer.testing import flops, learning
from anyformer.testing.contracts import CONTRACTS, LEARNING, owed
from anyformer.testing.traits import decodes_tokens, encodes_tokens, limits, reads_prefix, recurrent, two_inputs, two_texts
from covering import others_slow


@pytest.mark.parametrize("name", others_slow(ZOO))
def test_the_zoo_keeps_every_contract(name):
    """All contracts are tried before the broken ones are told, each with its own traceback."""
    errors = []
    for contract in owed(ZOO[name]):
        try:
            if contract is LEARNING:
                learning.every_weight_learns(ZOO[name], naive.predictions)
            else:
                contract.holds(ZOO[name])
        except Exception as error:
            error.add_note(f"the contract: {contract.name}")
            errors.append(error)
    if errors:
        raise ExceptionGroup(f"{name} breaks contracts", errors)


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_flops_of_attention_written_out_are_counted_too(name):
    flops.declared_flops_are_counted(ZOO[name], "plain")


def test_contracts_find_architectures_by_what_they_are():
    """The tables of the zoo say the same by hand."""
    decoders = DECODERS | LIMITED | PROMPTED_DECODERS
    by_hand = {decodes_tokens: decoders, encodes_tokens: ENCODERS, two_texts: PAIRS, two_inputs: PAIRS | SOURCES}
    for trait, table in by_hand.items():
        assert {name for name, each in ZOO.items() if trait(each)} == set(table), trait.__name__
    assert {"delta", "lightning", "linear_elu", "gated_convolution", "pair_recurrent"} <= {n for n in ZOO if recurrent(ZOO[n])}
    assert {"prefix", "prefix_or_window", "prompt"} == {name for name, each in ZOO.items() if reads_prefix(each)}


def test_every_contract_is_owed_by_some_architecture_and_every_limit_is_met():
    assert {contract for each in ZOO.values() for contract in owed(each)} == set(CONTRACTS)
    for contract in ("causal", "packed", "padded", "cached", "chunked"):
        assert any(limits(each, contract) for each in ZOO.values()), contract
