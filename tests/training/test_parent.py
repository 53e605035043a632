"""A process that belongs to another one ends with it, however that one ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHILD = """
import time
from anyformer.training.parent import end_with_parent
end_with_parent()
print("ready", flush=True)
time.sleep(60)
print("left alone", flush=True)
"""
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_a_killed_parent_leaves_no_child():
    """The launcher of several processes was killed, and they trained on."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        parent.kill()
        assert parent.stdout.read() == "", "the pipe closes when the child ends"
