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

DEVICES: Mapping[str, str] = MappingProxyType(
    {
        "Tesla V100-SXM2-16GB": "v100",
        "Tesla V100-SXM2-32GB": "v100",
        "Tesla T4": "t4",
        "NVIDIA A100-SXM4-40GB": "a100-40",
        "NVIDIA A100-SXM4-80GB": "a100",
        "NVIDIA A100-PCIE-40GB": "a100-pcie",
        "NVIDIA A100 80GB PCIe": "a100-pcie",
        "NVIDIA H100 80GB HBM3": "h100",
        "NVIDIA H800": "h800",
        "NVIDIA H200": "h200",
        "NVIDIA B200": "b200",
        "NVIDIA GB200": "gb200",
        "NVIDIA GB300": "gb300",
        "AMD Instinct MI300X": "mi300x",
        "NVIDIA L40S": "l40s",
        "NVIDIA GeForce RTX 4090": "rtx4090",
    }
)
"""What drivers call accelerators of the table, whole: other forms of the same chip have other peaks."""


def recognised(device: str) -> Hardware | None:
    """The accelerator that a driver calls so; None for one that is not in the table."""
    return HARDWARE[DEVICES[device]] if device in DEVICES else None


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
