"""Memory that was freed is given back to the system."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest

HELD = """
import os, sys
from anyformer.training.allocator import give_back, keep_large_apart
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
def grown(first, last):
    first()
    before = resident()
    held = [bytearray(2**21) for _ in range(64)]  # each of which would let the next size be taken from the heap
    small = []
    for place in range(64):
        small.append(bytearray(600))
        held[place] = None
        held[place] = bytearray(2**21)
        small.append(bytearray(600))
    held.clear()
    last()
    return resident() - before
nothing = lambda: None
found = []
for first, last in ((nothing, nothing), (keep_large_apart, nothing), (nothing, give_back)):
    read, write = os.pipe()
    if not os.fork():
        os.write(write, str(grown(first, last)).encode())
        os._exit(0)
    os.wait()
    found.append(int(os.read(read, 99)))
print(found)
"""
"""Bytes that a process has more behind large pieces between small ones, which are all freed: in three processes, forked from
one that has imported the package."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="GNU's C library alone has it")
def test_large_pieces_go_back_when_they_are_freed():
    said = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, check=True)
    usual, apart, given_back = json.loads(said.stdout)
    assert usual > 32 * 2**20, "else this shows nothing"
    assert apart < 8 * 2**20
    assert given_back < 8 * 2**20
