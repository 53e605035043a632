"""How many bad records are put up with, and what was wrong with them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from anyformer.data.row import BadRecord
from anyformer.text.errors import DataError

_FIRST = 5


@dataclass
class Skips:
    """Counts bad records. A whole `limit` is a number of records, a fraction below 1.0 the share of all of them."""

    limit: int | float = 0
    count: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """How often each reason was given."""
    first: list[BadRecord] = field(default_factory=list)
    """The first few."""

    def __post_init__(self) -> None:
        share = isinstance(self.limit, float)
        if isinstance(self.limit, bool) or self.limit < 0 or (share and self.limit >= 1.0):
            raise DataError(f"skip_bad = {self.limit} should be a number of records (0, 10, ...), or a share such as 0.01")

    def add(self, error: BadRecord) -> None:
        """Leave out a record; `DataError` with the first few if that is more than a number allows."""
        self.count += 1
        self.reasons[error.reason] += 1
        if len(self.first) < _FIRST:
            self.first.append(error)
        if isinstance(self.limit, int) and self.count > self.limit:
            raise self._too_many(f"more than skip_bad = {self.limit:,} records") from None

    def finish(self, records: int) -> None:
        """After all `records`, the bad ones among them: `DataError` if they are more than a share allows."""
        if isinstance(self.limit, float) and self.count > self.limit * records:
            raise self._too_many(f"{self.count:,} of {records:,} records, more than skip_bad = {self.limit} of them,")

    def report(self) -> list[str]:
        """The reasons, the most frequent first, with their counts."""
        ordered = sorted(self.reasons.items(), key=lambda item: (-item[1], item[0]))
        return [f"{count:,} record{'' if count == 1 else 's'}: {reason}" for reason, count in ordered]

    def _too_many(self, what: str) -> DataError:
        if self.limit == 0 and self.first:
            return DataError(f"{self.first[0]}; or set skip_bad to the number or share of such records to leave out")
        lines = "\n".join(f"  {error}" for error in self.first)
        return DataError(f"{what} cannot be used; the first of them:\n{lines}\nmend them, or allow more with skip_bad")
