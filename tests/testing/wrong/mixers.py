"""The table of wrong mixers: each is held to the contracts in a decoder, beside plain loops of the right mixer."""

from __future__ import annotations

from tests.testing.wrong.fading import FadingSum, fading_by_hand
from tests.testing.wrong.table import Promises, Table

from anyformer.model import Architecture
from anyformer.testing import contracts
from anyformer.testing.around import decoder_of


def owed(made: type[FadingSum] | Architecture) -> Promises:
    """The contracts of an architecture; of a class, of a decoder with one of it. The kind is left out of their names."""
    if isinstance(made, Architecture):
        return contracts.promises(made)
    found = contracts.promises(decoder_of(made()), {made.model_fields["kind"].default: fading_by_hand})
    return {name.partition(" (")[0]: holds for name, holds in found.items()}


MIXERS = Table(owed)
