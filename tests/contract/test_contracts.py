"""What every part and every architecture owes (`anyformer.testing`), over the whole zoo."""

from __future__ import annotations

from functools import cache

import naive
import pytest
from zoo import DECODERS, ENCODERS, LIMITED, PAIRS, PROMPTED_DECODERS, SOURCES, ZOO

import effort
from anyformer.parts.sublayer import Sublayer
from anyformer.testing import built, chunks, decoding, divided, flops, learning, opening, saved, whole
from anyformer.testing.contracts import CONTRACTS, LEARNING, owed
from anyformer.testing.traits import decodes_tokens, encodes_tokens, limits, reads_prefix, recurrent, two_inputs, two_texts
from covering import cover, fields_in, kinds, kinds_of, remembering

OF_FIELDS = {
    built.declared_weights_are_the_parameters,
    built.description_survives_text,
    learning.every_weight_learns,
    flops.declared_flops_are_counted,
}
"""What any field of a part can break: asked with every field and what it holds. The others follow the kind of a part."""
OF_MIXING = {decoding.cached_and_chunked_equal_the_whole, decoding.later_padding_is_taken_or_refused}
"""What any field can break of a part that takes one position to another: asked with every kind of part, and these fields."""
mixing = fields_in("attention", "masks", "positions", "recurrence")
OF_STATES = {
    chunks.any_chunk_equals_the_default_chunk,
    decoding.forked_state_continues_like_its_row,
    decoding.left_padding_goes_with_a_state,
    decoding.right_padding_goes_with_a_state,
    flops.declared_flops_of_a_decode_step_are_counted,
    flops.declared_flops_of_chunks_are_counted,
    opening.watched_steps_are_those_of_the_whole,
    saved.saved_bytes_are_a_polynomial_of_the_length,
}
"""What follows what a state depends on, whatever else an architecture has."""
OF_SUBLAYERS = {divided.parts_of_sublayers_add_up, divided.positions_of_sublayers_are_those_of_the_row}
"""What is asked of each kind of sublayer by itself."""
COVERS = ((OF_MIXING, mixing), (OF_STATES, remembering), (OF_SUBLAYERS, kinds_of(Sublayer)))
"""Which architectures are asked in each run: those that together have all of this."""


@cache
def few(of, *names):
    """Some of these architectures, which have every kind of part of them."""
    return cover({name: ZOO[name] for name in names}, of)


def asked(contract):
    """Of the architectures that owe a contract those that are asked in each run."""
    if contract.holds in OF_FIELDS:
        return cover(ZOO)
    owing = (name for name, each in ZOO.items() if contract.owed_by(each))
    return few(next((of for those, of in COVERS if contract.holds in those), kinds), *owing)


def pairs():
    """Every contract that every architecture owes; of an architecture one after the other, which share its model."""
    in_each_run = {contract: asked(contract) for contract in CONTRACTS}
    for name, architecture in ZOO.items():
        for each in owed(architecture):
            if name in in_each_run[each]:
                yield pytest.param(name, each, id=f"{name}-{each.name}")
            elif effort.slow_too:
                yield pytest.param(name, each, id=f"{name}-{each.name}", marks=pytest.mark.slow)


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
    decoders, encoders = (
        [*DECODERS, *LIMITED, *PROMPTED_DECODERS, "dictionaries_in_a_decoder"],
        [*ENCODERS, "convolutional_positions"],
    )
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
