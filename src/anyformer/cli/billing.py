"""Days and dollars of a whole training run in `anyformer plan`, with the rate that they are computed with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyformer.cli.forecasts import lasting

if TYPE_CHECKING:
    from anyformer.planning.bill import RunBill


@dataclass(frozen=True)
class WholeRun:
    """What so many `tokens` take; `assumed`: whether nobody gave the rate, `failing`: whether failures are counted."""

    bill: RunBill
    tokens: int
    assumed: bool
    failing: bool

    @property
    def said(self) -> str:
        """A sentence."""
        bill = self.bill
        without = "" if self.failing else ", if nothing fails (--mtbf)"
        return (
            f"The whole run, {self.tokens / 1e12:,.6g} trillion tokens: {lasting(bill.wall)}{without}; {bill.hours:,.0f} "
            f"accelerator-hours; ${bill.price:,.0f} at {at(bill.rate, self.assumed)}."
        )

    @property
    def data(self) -> dict[str, Any]:
        """The same for JSON: seconds, hours, dollars."""
        return {
            "tokens": self.tokens, "with_failures": self.failing, "wall": self.bill.wall,
            "accelerator_hours": self.bill.hours, "rate": self.bill.rate, "rate_assumed": self.assumed,
            "dollars": self.bill.price,
        }  # fmt: skip


def at(rate: float, assumed: bool) -> str:
    """A rate as it stands beside a price."""
    return f"${rate:,.2f} per accelerator-hour{' (assumed: give yours with --rate)' if assumed else ''}"
