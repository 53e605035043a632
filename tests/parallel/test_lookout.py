"""The lookout of a process outlives the store of the others without a word."""

from __future__ import annotations

PROCESS = """
import os, select, signal, threading
from torch._C._distributed_c10d import TCPStore
from anyformer.training.parallel import lookout

reading, writing = os.pipe()
other = os.fork()
if not other:
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    os.write(writing, f"{store.port}\\n".encode())
    signal.pause()
os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": os.read(reading, 100).decode().strip()}
looks = []
enough = threading.Event()

def looked(*given):
    # The store ends between two questions, and not within one.
    looks.append(1)
    if len(looks) == 3:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
    if len(looks) == 8:
        enough.set()
    return select.select(*given)

lookout.select, lookout.PERIOD = looked, 0.02
lookout.look_out("a meeting", belongs=False)
assert enough.wait(60), "it goes on to look for signals"
"""


def test_the_end_of_the_store_is_not_told(start, tmp_path):
    program = tmp_path / "looking.py"
    program.write_text(PROCESS, encoding="utf-8")
    found = start(1, program)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
