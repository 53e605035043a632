"""Hardware by its name: an accelerator of the table, or this machine as it measures itself."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from anyformer.costs.hardware import HARDWARE, HERE, Hardware
from anyformer.describe import UserError, did_you_mean

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "a100-80": "a100",
        "a100-80gb": "a100",
        "a100-40gb": "a100-40",
        "h100-sxm": "h100",
        "4090": "rtx4090",
        "rtx-4090": "rtx4090",
    }
)


def hardware_of(given: str | Hardware) -> Hardware:
    """The accelerator of a name, or the value itself; `here` measures this machine, in about five seconds."""
    if isinstance(given, Hardware):
        return given
    if given == HERE:
        from anyformer.costs.calibration import calibrated  # rarely needed

        return calibrated()
    name = ALIASES.get(given.lower(), given.lower())
    if name not in HARDWARE:
        raise UserError(f"no hardware is called {given!r}{did_you_mean(name, [*HARDWARE, *ALIASES, HERE])}")
    return HARDWARE[name]
