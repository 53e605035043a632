"""What an architecture promises: every contract that it owes, and what is done with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from anyformer.model import Architecture
from anyformer.testing import contracts, whole
from anyformer.testing.promise import Promise
from anyformer.testing.twins import SublayerTwin


def promises(
    of: str,
    architecture: Architecture,
    twins: Mapping[str, SublayerTwin] | None = None,
    *,
    used: bool = True,
    only: str = "",
    inside: tuple[str, ...] = (),
    number: int = 0,
) -> Iterator[Promise]:
    """The promises of `architecture`, of those that `only` matches, in the order in which they are asked.

    `used`: whether it is priced, drawn, saved and trained too. `inside`: the things of a plug-in that stand in it.
    """
    before: list[str] = []
    for contract in (*contracts.all_of(architecture, twins), *(whole.CONTRACTS if used else ())):
        needs = tuple(before) if contract.last else contract.presupposes
        holds = partial(contract.holds, architecture)
        promise = Promise(of, contract.name, holds, needs=needs, inside=inside, number=number, about=contract.about)
        if promise.matches(only) and contract.owed_by(architecture):
            before.append(contract.name)
            yield promise
