"""Memory that a process can still take."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch

GROUPS = Path("/sys/fs/cgroup")
"""The directory in which Linux describes control groups, as containers have."""
NO_LIMIT = 1 << 62


def free_memory(device: torch.device) -> int:
    """Free bytes of the accelerator, or of the machine and of the control group of the process."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    limits = [_of_the_machine(), left_to_the_group(GROUPS)]
    return min((size for size in limits if size is not None), default=NO_LIMIT)


def _of_the_machine() -> int | None:
    """Free bytes where Linux gives them, elsewhere all bytes of memory."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return None


def left_to_the_group(groups: Path) -> int | None:
    """Free bytes of a control group with a limit, of version 2 or 1; files that the system would drop count as free."""
    for limit, used in (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        try:
            most, taken = (int((groups / name).read_text(encoding="utf-8")) for name in (limit, used))
        except (OSError, ValueError):
            continue
        facts = _counters(groups / limit.rpartition("/")[0] / "memory.stat")
        dropped = facts.get("total_inactive_file", facts.get("inactive_file", 0))
        return max(most - taken + dropped, 0)
    return None


def _counters(path: Path) -> Mapping[str, int]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {name: int(number) for name, _, number in (line.partition(" ") for line in lines) if number.isdigit()}
