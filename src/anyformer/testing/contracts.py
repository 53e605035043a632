"""All contracts, the architectures that owe each, and `check`, which tests all contracts of an architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from anyformer.model import Architecture
from anyformer.testing import built, chunks, decoding, divided, flops, learning, multi_token, order, rows, saved
from anyformer.testing.traits import (
    anything,
    decodes_tokens,
    one_text,
    predicts_later,
    reads_prefix,
    recurrent,
    two_inputs,
    two_texts,
)
from anyformer.testing.twins import SublayerTwin, sublayer_equals_its_twin


@dataclass(frozen=True)
class Contract:
    """A contract: `holds` raises if an architecture breaks it; `owed_by` tells whether an architecture owes it."""

    holds: Callable[[Architecture], None]
    owed_by: Callable[[Architecture], bool] = anything

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.holds.__name__


LEARNING = Contract(learning.every_weight_learns)
CONTRACTS = (
    Contract(built.declared_weights_are_the_parameters),
    Contract(built.no_matrix_of_products_is_looked_up),
    Contract(built.description_survives_text),
    Contract(built.model_survives_pickle),
    Contract(built.materialised_equals_built),
    Contract(built.kernels_agree),
    Contract(built.bf16_stays_near_fp32),
    LEARNING,
    Contract(flops.declared_flops_are_counted),
    Contract(flops.declared_flops_of_chunks_are_counted, recurrent),
    Contract(flops.declared_flops_of_a_decode_step_are_counted, decodes_tokens),
    Contract(flops.exact_flops_never_exceed_dense_ones),
    Contract(saved.saved_bytes_are_a_polynomial_of_the_length, recurrent),
    Contract(order.no_token_sees_a_later_one, one_text),
    Contract(multi_token.first_prediction_is_the_forward_pass, predicts_later),
    Contract(multi_token.no_prediction_sees_its_token, predicts_later),
    Contract(multi_token.packed_predictions_equal_each_alone, predicts_later),
    Contract(multi_token.predictions_in_bf16_stay_near_fp32, predicts_later),
    Contract(chunks.any_chunk_equals_the_default_chunk, recurrent),
    Contract(rows.padded_row_equals_the_row_alone, one_text),
    Contract(rows.padded_source_equals_the_source_alone, two_texts),
    Contract(rows.packed_documents_equal_each_alone, lambda each: one_text(each) or two_texts(each)),
    Contract(divided.parts_of_sublayers_add_up),
    Contract(divided.positions_of_sublayers_are_those_of_the_row),
    Contract(decoding.state_takes_the_declared_bytes),
    Contract(decoding.cached_and_chunked_equal_the_whole, decodes_tokens),
    Contract(decoding.cached_target_equals_the_whole, two_inputs),
    Contract(decoding.prefix_must_come_in_one_piece, reads_prefix),
    Contract(decoding.left_padding_goes_with_a_state, decodes_tokens),
    Contract(decoding.right_padding_goes_with_a_state, decodes_tokens),
    Contract(decoding.later_padding_is_taken_or_refused, decodes_tokens),
    Contract(decoding.forked_state_continues_like_its_row, decodes_tokens),
)


class BrokenContractError(AssertionError):
    """An architecture breaks contracts; the message names each with its error."""


def owed(architecture: Architecture) -> tuple[Contract, ...]:
    """The contracts that `architecture` owes."""
    return tuple(contract for contract in CONTRACTS if contract.owed_by(architecture))


def promises(architecture: Architecture, twins: Mapping[str, SublayerTwin] | None = None) -> dict[str, Callable[[], None]]:
    """The contracts that `architecture` owes, by name: each a call that raises if the contract is broken.

    `twins`: the mathematics of kinds of sublayers again, in plain loops, which must give equal outputs and gradients; other
    kinds are not compared.
    """
    calls: dict[str, Callable[[], None]] = {owe.name: partial(owe.holds, architecture) for owe in owed(architecture)}
    for kind, twin in (twins or {}).items():
        calls[f"{sublayer_equals_its_twin.__name__} ({kind})"] = partial(sublayer_equals_its_twin, architecture, kind, twin)
    return calls


def broken(architecture: Architecture, twins: Mapping[str, SublayerTwin] | None = None) -> dict[str, str]:
    """The error of each broken contract, by name; empty if all hold (`twins`: see `promises`).

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
    """Test every contract that `architecture` owes; raises `BrokenContractError`, which names all broken ones."""
    errors = broken(architecture, twins)
    if errors:
        raise BrokenContractError("\n".join(f"{name}: {error}" for name, error in errors.items()))
