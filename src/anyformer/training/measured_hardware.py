"""This machine's measured peaks and bandwidths as `Hardware`, remembered in the user's cache directory."""

from __future__ import annotations

import json
import platform
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch

from anyformer.costs.calibration import calibrated
from anyformer.costs.hardware import Efficiency, Hardware
from anyformer.describe import read_json
from anyformer.files import PlaceError, default_cache, write_text


def remembered(device: torch.device) -> Hardware | None:
    """The remembered measurement; None if there is none, or if torch, the threads or the device differ from then."""
    try:
        facts = read_json(_path(device))
        if facts.pop("measured_on") != _machine(device):
            return None
        shares = {share.name: facts["efficiency"][share.name] for share in fields(Efficiency)}
        return Hardware(**{**facts, "efficiency": Efficiency(**shares)})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def known(device: torch.device) -> Hardware:
    """The remembered measurement, else one made now in about five seconds."""
    return remembered(device) or calibrated_now(device)


def calibrated_now(device: torch.device) -> Hardware:
    """This machine, measured in this process; the measurement is remembered."""
    hardware = calibrated(device=device.type)
    remember(hardware, device)
    return hardware


def remember(hardware: Hardware, device: torch.device) -> None:
    """Write a measurement to the cache, if it can be written."""
    figures = {**vars(hardware), "peaks": dict(hardware.peaks), "efficiency": asdict(hardware.efficiency)}
    facts = {**figures, "measured_on": _machine(device)}
    with suppress(OSError, PlaceError):
        _path(device).parent.mkdir(parents=True, exist_ok=True)
        write_text(_path(device), json.dumps(facts, indent=2) + "\n")


def _path(device: torch.device) -> Path:
    return default_cache() / f"calibration-{device.type}.json"


def _machine(device: torch.device) -> dict[str, Any]:
    """The facts that the figures depend on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {"node": platform.node(), "device": name, "threads": torch.get_num_threads(), "torch": torch.__version__}
