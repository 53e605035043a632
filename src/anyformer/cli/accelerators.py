"""`anyformer list --hardware`: every accelerator of the table, with all of its peaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from anyformer.cli.aligned import Column, table, wrapped
from anyformer.cli.screen import columns

if TYPE_CHECKING:
    from anyformer.costs.hardware import Hardware

FORMATS = ("fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")

NOTE = (
    "Formats: TFLOP/s (of int8: TOP/s) of one chip without sparsity, as its vendor prints them; fp32 is without tf32. Times "
    "are of products in fp32 or bf16, and in fp16 on a chip without bf16. The other rates are here to compare accelerators "
    "by: no time is computed from them."
)


def rows() -> list[dict[str, Any]]:
    """Every accelerator as plain data: FLOP/s, bytes and bytes/s."""
    from anyformer.costs.hardware import HARDWARE

    return [asdict(item.but(peaks=dict(item.peaks))) for item in HARDWARE.values()]


def page() -> Iterator[str]:
    """The table, and what of it times are computed from."""
    from anyformer.costs.hardware import HARDWARE

    shown: tuple[Column[Hardware], ...] = (
        ("name", lambda item: item.name),
        *((name, partial(_peak, name)) for name in FORMATS),
        ("GB/s", lambda item: f"{item.bandwidth / 1e9:,.0f}"),
        ("GiB", lambda item: f"{item.memory / 2**30:.4g}"),
        ("link GB/s", lambda item: f"{item.link / 1e9:.4g}"),
        ("network GB/s", lambda item: f"{item.network / 1e9:.4g}"),
        ("in a domain", lambda item: f"{item.domain:,}"),
        ("title", lambda item: item.title),
    )
    yield from table(shown, list(HARDWARE.values()), {head for head, _ in shown} - {"name", "title"})
    yield ""
    yield from wrapped(NOTE, columns(), hanging="")


def _peak(name: str, item: Hardware) -> str:
    return f"{item.peaks[name] / 1e12:,.4g}" if name in item.peaks else ""
