"""Memory that was freed is given back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

HELD = """
from anyformer.training.allocator import give_back, keep_large_apart
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
if {apart}:
    keep_large_apart()
before = resident()
held = [bytearray(2**21) for _ in range(64)]  # each of which would let the next size be taken from the heap
small = []
for place in range(64):
    small.append(bytearray(600))
    held[place] = None
    held[place] = bytearray(2**21)
    small.append(bytearray(600))
held.clear()
{after}
print(resident() - before)
"""


def grown(apart, after):
    """Bytes that a process has more behind large pieces between small ones, which are all freed."""
    said = subprocess.run(
        [sys.executable, "-c", HELD.format(apart=apart, after=after)], capture_output=True, text=True, check=True
    )
    return int(said.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="GNU's C library alone has it")
def test_large_pieces_go_back_when_they_are_freed():
    assert grown(False, "") > 32 * 2**20, "else this shows nothing"
    assert grown(True, "") < 8 * 2**20
    assert grown(False, "give_back()") < 8 * 2**20
