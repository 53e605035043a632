"""This machine as hardware, measured once and remembered in the user's cache directory."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch

from anyformer.costs.calibration import calibrated
from anyformer.costs.hardware import Efficiency, Hardware
from anyformer.files import default_cache


def remembered(device: torch.device) -> Hardware | None:
    """What was measured here before; None where it never was, or with another torch, other threads or another device."""
    try:
        found = json.loads(_path(device).read_text(encoding="utf-8"))
        if found.pop("measured_on") != _machine(device):
            return None
        shares = {each.name: found["efficiency"][each.name] for each in fields(Efficiency)}
        return Hardware(**{**found, "efficiency": Efficiency(**shares)})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def known(device: torch.device) -> Hardware:
    """What is remembered, else measured now, in about five seconds, and remembered."""
    return remembered(device) or calibrated_now(device)


def calibrated_now(device: torch.device) -> Hardware:
    """Measured in this process, and remembered."""
    found = calibrated(device=device.type)
    remember(found, device)
    return found


def remember(hardware: Hardware, device: torch.device) -> None:
    """For the next time; a cache that cannot be written is none."""
    figures = {**vars(hardware), "peaks": dict(hardware.peaks), "efficiency": asdict(hardware.efficiency)}
    facts = {**figures, "measured_on": _machine(device)}
    try:
        path = _path(device)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError:
        return


def _path(device: torch.device) -> Path:
    return default_cache() / f"calibration-{device.type}.json"


def _machine(device: torch.device) -> dict[str, Any]:
    """What the figures depend on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {"node": platform.node(), "device": name, "threads": torch.get_num_threads(), "torch": torch.__version__}
