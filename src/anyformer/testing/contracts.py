"""Every contract, who owes it, and `check`, which holds an architecture to all that it owes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from anyformer.model import Architecture
from anyformer.testing import built, chunks, decoding, flops, learning, order, rows, saved
from anyformer.testing.traits import (
    anything,
    decodes_tokens,
    one_text,
    reads_prefix,
    recurrent,
    two_inputs,
    two_texts,
)
from anyformer.testing.twins import SublayerTwin, sublayer_equals_its_twin


@dataclass(frozen=True)
class Contract:
    """A promise: `holds` raises where an architecture breaks it, and `owed_by` says which architectures it is asked of."""

    holds: Callable[[Architecture], None]
    owed_by: Callable[[Architecture], bool] = anything

    @property
    def name(self) -> str:
        """As its function is called."""
        return self.holds.__name__


LEARNING = Contract(learning.every_weight_learns)
CONTRACTS = (
    Contract(built.declared_weights_are_the_parameters),
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
    Contract(chunks.any_chunk_equals_the_default_chunk, recurrent),
    Contract(rows.padded_row_equals_the_row_alone, one_text),
    Contract(rows.padded_source_equals_the_source_alone, two_texts),
    Contract(rows.packed_documents_equal_each_alone, lambda each: one_text(each) or two_texts(each)),
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
    """An architecture breaks what it owes; the message names each contract and what was found."""


def owed(architecture: Architecture) -> tuple[Contract, ...]:
    """The contracts that are asked of `architecture`."""
    return tuple(contract for contract in CONTRACTS if contract.owed_by(architecture))


def promises(architecture: Architecture, twins: Mapping[str, SublayerTwin] | None = None) -> dict[str, Callable[[], None]]:
    """Each contract that `architecture` owes, by name: a call that raises where it is broken.

    `twins`: by kind of sublayer, the same mathematics in plain loops, which its outputs and gradients have to equal; other
    kinds are compared with nothing.
    """
    asked: dict[str, Callable[[], None]] = {each.name: partial(each.holds, architecture) for each in owed(architecture)}
    for kind, twin in (twins or {}).items():
        asked[f"{sublayer_equals_its_twin.__name__} ({kind})"] = partial(sublayer_equals_its_twin, architecture, kind, twin)
    return asked


def broken(architecture: Architecture, twins: Mapping[str, SublayerTwin] | None = None) -> dict[str, str]:
    """Each broken contract by name, and what was found; empty where all hold (`twins`: see `promises`).

    A tiny architecture is enough, and should be: everything runs on the CPU, on rows of 11 positions.
    """
    found = {}
    for name, holds in promises(architecture, twins).items():
        try:
            holds()
        except Exception as error:  # whatever a part raises here, the contract is broken
            found[name] = f"{type(error).__name__}: {error}"
    return found


def check(architecture: Architecture, twins: Mapping[str, SublayerTwin] | None = None) -> None:
    """Hold `architecture` to every contract that it owes; raises `BrokenContractError`, which names all that are broken."""
    found = broken(architecture, twins)
    if found:
        raise BrokenContractError("\n".join(f"{name}: {what}" for name, what in found.items()))
