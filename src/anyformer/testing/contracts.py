"""All contracts, the architectures that owe each, and `check`, which tests all contracts of an architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from anyformer.model import Architecture
from anyformer.testing import (
    built,
    chunks,
    decoding,
    divided,
    flops,
    learning,
    multi_token,
    opening,
    order,
    rows,
    saved,
    weights,
    work,
)
from anyformer.testing.contract import Contract
from anyformer.testing.promise import Promise, ask
from anyformer.testing.traits import (
    decodes_tokens,
    one_text,
    predicts_later,
    reads_prefix,
    recurrent,
    two_inputs,
    two_texts,
)
from anyformer.testing.twins import SublayerTwin, sublayer_equals_its_twin

WEIGHTS, FORWARD = built.declared_weights_are_the_parameters, built.forward_pass_is_computed
CAUSAL, LEARNS, FLOPS = order.no_token_sees_a_later_one, learning.every_weight_learns, flops.declared_flops_are_counted
PADDED, PACKED = rows.padded_row_equals_the_row_alone, rows.packed_documents_equal_each_alone
STATE, CACHED = decoding.state_takes_the_declared_bytes, decoding.cached_and_chunked_equal_the_whole
SEEN = opening.declared_values_are_seen
FIRST = multi_token.first_prediction_is_the_forward_pass
"""Contracts that others need, by a short name."""
LEARNING = Contract(LEARNS, needs=(FORWARD,), about="gradients")
CONTRACTS = (
    Contract(WEIGHTS, about="built"),
    Contract(built.description_survives_text),
    Contract(FORWARD, needs=(WEIGHTS,)),
    Contract(built.model_survives_pickle, needs=(WEIGHTS,)),
    Contract(built.materialised_equals_built, needs=(WEIGHTS,)),
    Contract(CAUSAL, one_text, (FORWARD,), "causal"),
    LEARNING,
    Contract(built.no_matrix_of_products_is_looked_up, needs=(FORWARD,)),
    Contract(built.kernels_agree, needs=(FORWARD,)),
    Contract(built.bf16_stays_near_fp32, needs=(FORWARD,)),
    Contract(FLOPS, needs=(LEARNS,)),
    Contract(flops.declared_flops_of_chunks_are_counted, recurrent, (FLOPS,)),
    Contract(STATE, needs=(WEIGHTS,)),
    Contract(decoding.step_reads_the_state_that_it_holds, decodes_tokens, (STATE,)),
    Contract(flops.declared_flops_of_a_decode_step_are_counted, decodes_tokens, (FLOPS, STATE)),
    Contract(flops.exact_flops_never_exceed_dense_ones, needs=(WEIGHTS,)),
    Contract(saved.saved_bytes_are_a_polynomial_of_the_length, recurrent, (LEARNS,)),
    Contract(PADDED, one_text, (CAUSAL,)),
    Contract(rows.padded_source_equals_the_source_alone, two_texts, (FORWARD,)),
    Contract(PACKED, lambda each: one_text(each) or two_texts(each), (CAUSAL,)),
    Contract(FIRST, predicts_later, (FORWARD,)),
    Contract(multi_token.no_prediction_sees_its_token, predicts_later, (FIRST, CAUSAL), "causal"),
    Contract(multi_token.packed_predictions_equal_each_alone, predicts_later, (FIRST, PACKED)),
    Contract(multi_token.predictions_in_bf16_stay_near_fp32, predicts_later, (FIRST, built.bf16_stays_near_fp32)),
    Contract(work.functions_are_declared_as_work, needs=(FORWARD,)),
    Contract(weights.weights_are_cut_as_their_roles_say, needs=(WEIGHTS,)),
    Contract(weights.what_adds_up_writes_to_the_stream, needs=(weights.weights_are_cut_as_their_roles_say,)),
    Contract(divided.parts_of_sublayers_add_up, needs=(FORWARD,)),
    Contract(divided.positions_of_sublayers_are_those_of_the_row, needs=(FORWARD,)),
    Contract(CACHED, decodes_tokens, (CAUSAL, STATE)),
    Contract(decoding.cached_target_equals_the_whole, two_inputs, (FORWARD, STATE)),
    Contract(decoding.prefix_must_come_in_one_piece, reads_prefix, (CACHED,), "cached"),
    Contract(decoding.left_padding_goes_with_a_state, decodes_tokens, (CACHED, PADDED), "cached padded"),
    Contract(decoding.right_padding_goes_with_a_state, decodes_tokens, (CACHED, PADDED), "cached padded"),
    Contract(decoding.later_padding_is_taken_or_refused, decodes_tokens, (CACHED, PADDED), "cached padded"),
    Contract(decoding.forked_state_continues_like_its_row, decodes_tokens, (CACHED,), "cached"),
    Contract(SEEN, needs=(FORWARD,), about="watch"),
    Contract(opening.watching_changes_no_bit, needs=(SEEN,)),
    Contract(opening.patched_values_are_gone_on_with, needs=(SEEN,), about="watch"),
    Contract(opening.watched_steps_are_those_of_the_whole, decodes_tokens, (SEEN, CACHED), "watch"),
    Contract(chunks.any_chunk_equals_the_default_chunk, recurrent, (LEARNS, CACHED)),
)
"""In the order in which they are asked: what a contract needs stands before it."""


class BrokenContractError(AssertionError):
    """An architecture breaks contracts; the message names each with its error."""


def owed(architecture: Architecture) -> tuple[Contract, ...]:
    """The contracts that `architecture` owes."""
    return tuple(contract for contract in CONTRACTS if contract.owed_by(architecture))


def all_of(architecture: Architecture, twins: Mapping[str, SublayerTwin] | None = None) -> tuple[Contract, ...]:
    """All contracts, whoever owes them, and those of twins of the kinds of sublayers.

    `twins`: the mathematics of kinds of sublayers again, in plain loops, which must give equal outputs and gradients; other
    kinds are not compared.
    """
    return (*CONTRACTS, *(_of_twin(kind, twin) for kind, twin in (twins or {}).items()))


def _of_twin(kind: str, twin: SublayerTwin) -> Contract:
    def holds(architecture: Architecture) -> None:
        sublayer_equals_its_twin(architecture, kind, twin)

    holds.__name__ = f"{sublayer_equals_its_twin.__name__} ({kind})"
    return Contract(holds, needs=(LEARNS, CAUSAL))


def promises(architecture: Architecture, twins: Mapping[str, SublayerTwin] | None = None) -> dict[str, Callable[[], None]]:
    """The contracts that `architecture` owes, by name: each a call that raises if the contract is broken (`twins`: see
    `all_of`)."""
    return {each.name: partial(each.holds, architecture) for each in all_of(architecture, twins) if each.owed_by(architecture)}


def broken(architecture: Architecture, twins: Mapping[str, SublayerTwin] | None = None) -> dict[str, str]:
    """The error of each broken contract, by name, those that follow from another included; empty if all hold (`twins`: see
    `all_of`).

    Take a tiny architecture: everything runs on the CPU, on rows of 11 positions.
    """
    errors = {}
    for name, holds in promises(architecture, twins).items():
        try:
            holds()
        except Exception as error:  # any exception of a part breaks the contract
            errors[name] = f"{type(error).__name__}: {error}"
    return errors


def check(architecture: Architecture, twins: Mapping[str, SublayerTwin] | None = None) -> None:
    """Test every contract that `architecture` owes; raises `BrokenContractError`, which names the broken ones, and of those
    that follow from one no more than their names."""
    errors, following = [], dict[str, list[str]]()
    owes = [each for each in all_of(architecture, twins) if each.owed_by(architecture)]
    asked = (Promise("", each.name, partial(each.holds, architecture), needs=each.presupposes) for each in owes)
    for finding in ask(asked):
        if finding.follows is not None:
            following.setdefault(finding.follows.what, []).append(finding.promise.what)
        elif finding.fails:
            errors.append(f"{finding.promise.what}: {finding.why}")
    if errors:
        left = [f"not asked, since they need {what}: {', '.join(names)}" for what, names in following.items()]
        raise BrokenContractError("\n".join(errors + left))
