"""The lookout of a process outlives the store of the others without a word."""

from __future__ import annotations

import os
import subprocess
import sys

STORE = """
from torch._C._distributed_c10d import TCPStore
store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
input()
"""
PROCESS = f"""
import os, select, subprocess, sys, threading
from anyformer.training.parallel import lookout

other = subprocess.Popen([sys.executable, "-c", {STORE!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
os.environ |= {{"MASTER_ADDR": "localhost", "MASTER_PORT": other.stdout.readline().strip()}}
looks = []
enough = threading.Event()

def looked(*given):
    # The store ends between two questions, and not within one.
    looks.append(1)
    if len(looks) == 3:
        other.kill()
        other.wait()
    if len(looks) == 8:
        enough.set()
    return select.select(*given)

lookout.select, lookout.PERIOD = looked, 0.02
lookout.look_out("a meeting", belongs=False)
assert enough.wait(60), "it goes on to look for signals"
"""


def test_the_end_of_the_store_is_not_told():
    found = subprocess.run(
        [sys.executable, "-c", PROCESS], capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
