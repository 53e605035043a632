"""The costs of one changed value: a base entry priced before and after, when a page asks."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from anyformer.atlas.source import SentenceSource
from anyformer.atlas.topic import PricedChange
from anyformer.catalogue import architecture, listed
from anyformer.costs.difference import Change, difference
from anyformer.describe import UserError, change_all, parse_assignment

LENGTH = 4096
LEAST = 0.001
"""The share of a cost below which a sentence leaves a change out."""
SHOWN = ("parameters", "FLOPs of prefill per token", "decode state")


@dataclass(frozen=True)
class Priced(SentenceSource):
    """A base entry with one value changed, its costs against those of the base."""

    kind: ClassVar[str] = "computed"
    base: str
    change: PricedChange

    @property
    def costs(self) -> tuple[Change, ...]:
        """Quantities of the base and of the changed one, `SHOWN` of them."""
        return _costs(self.base, self.change.set)

    @property
    def says(self) -> str:
        moved = [
            f"{each.what} {each.left} to {each.right} ({each.ratio - 1:+.1%})"
            for each in self.costs
            if each.ratio is not None and abs(each.ratio - 1) >= LEAST
        ]
        return f"{self.change.said}: {'; '.join(moved) if moved else 'none of these costs moves by a thousandth'}."

    @property
    def cited(self) -> str:
        return f"{self.base}, priced at {LENGTH:,} tokens in bf16"

    @property
    def command(self) -> str:
        return shlex.join(
            ["anyformer", "diff", self.base, self.base, *(word for each in self.change.set for word in ("--set", each))]
        )

    def problem(self) -> str | None:
        if listed(self.base) is None:
            return f"no entry of the catalogue is called {self.base!r}"
        try:
            return None if self.costs else f"{self.command} has no costs"
        except UserError as error:
            return f"{self.command}: {error}"


@cache
def _costs(base: str, changes: tuple[str, ...]) -> tuple[Change, ...]:
    before = architecture(base)
    after = change_all(before, dict(map(parse_assignment, changes)))
    return tuple(each for each in difference(before, after, length=LENGTH).costs if each.what in SHOWN)
