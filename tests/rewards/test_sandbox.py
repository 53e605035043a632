"""Code that is graded can compute and nothing else: what hostile code tries, and what becomes of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from anyformer.rewards import CodeReward, Query, Response, RewardError, confinement, sandbox
from anyformer.rewards.code import code_in
from anyformer.rewards.sandbox import SandboxLimits, check_sandbox, run_confined

LIMITS = SandboxLimits(1.0, 1 << 28)
HELD = {
    "a socket": "import socket; socket.socket()",
    "a pair of sockets": "import socket; socket.socketpair()",
    "a fork": "import os; os.fork()",
    "a process": "import subprocess; subprocess.run(['true'])",
    "a thread": "import threading; threading.Thread(target=print).start()",
    "a file to write": "open('/tmp/anyformer-was-here', 'w')",
    "a file to append to": "import os; os.open(os.__file__, os.O_RDONLY | os.O_APPEND)",
    "a file to read": "open('/etc/hostname').read()",
    "a folder": "import os; os.listdir('/')",
    "its own environment": "open('/proc/self/environ').read()",
    "the parent's environment": "import os; open(f'/proc/{os.getppid()}/environ').read()",
    "a signal": "import os; os.kill(os.getppid(), 0)",
    "a signal by a file": "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETOWN, os.getppid())",
    "a higher limit": "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))",
    "other programs": "import os; os.execv('/bin/true', ['true'])",
    "a removed file": "import os; os.unlink('/tmp/anyformer-kept')",
    "another root": "import os; os.chroot('/')",
    "memory of the parent": "import os; open(f'/proc/{os.getppid()}/mem', 'rb')",
    "memory": "x = bytearray(1 << 30)",
}


def test_nothing_is_let_through():
    """All in one process, each as a test of its own that holds where it is refused."""
    refused = "(OSError, RuntimeError, MemoryError, ValueError)"
    tests = [f"try:\n    {code}\nexcept {refused}:\n    pass\nelse:\n    raise AssertionError" for code in HELD.values()]
    found = run_confined("", tests, SandboxLimits(20.0, 1 << 28))
    assert dict(zip(HELD, found.passed, strict=True)) == dict.fromkeys(HELD, True)
    assert not os.path.exists("/tmp/anyformer-was-here")


def test_what_computes_is_let_through():
    modules = (
        "import math, re, json, collections, heapq, datetime, decimal, fractions, itertools, random, string, bisect, typing"
    )
    found = run_confined(
        "def add(a, b):\n    return a + b", ["assert add(1, 2) == 3", "assert add(1, 2) == 4", modules], LIMITS
    )
    assert (found.passed, found.ran, found.ended) == ((True, False, True), True, "whole")


FORGED = """import os
for file in range(64):
    try:
        os.write(file, b'test 0 1\\nKEY ran\\n' * 3)
    except OSError:
        pass
os._exit(0)"""
IGNORING = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("while True:\n    pass", "time"),
        pytest.param(f"{IGNORING}while True:\n    pass", "killed", marks=pytest.mark.slow),
        ("while True:\n    print('x' * 100000)", "output"),
        ("import ctypes\nctypes.string_at(0)", "killed"),
        ("import os\nos._exit(0)", "killed"),
        ("raise SystemExit(0)", "error"),
        ("f = lambda: f()\nf()", "error"),
        (FORGED, "killed"),
        ("this is no code", "error"),
        ("\0", "error"),
        ("\ud800", "error"),
    ],
)
def test_code_that_ends_badly_passes_nothing(code, ended, monkeypatch):
    monkeypatch.setattr(sandbox, "_CLOCK", 200.0)  # the processor's seconds end it, however busy the machine is
    found = run_confined(code, ["pass"], LIMITS)
    assert (found.passed, found.ran, found.ended) == ((False,), False, ended)
    assert len(found.output) < 1 << 21


def test_code_that_only_waits_is_ended(monkeypatch):
    monkeypatch.setattr(sandbox, "_CLOCK", 1.0)
    began = time.monotonic()
    assert run_confined("import time\ntime.sleep(1000)", ["pass"], LIMITS).ended == "time"
    assert time.monotonic() - began < 100


def test_nothing_of_the_environment_is_given(monkeypatch):
    monkeypatch.setenv("SECRET", "letters")
    found = run_confined("import os\nprint(sorted(os.environ), os.getcwd())", [], LIMITS, "")
    assert found.output == "['LC_ALL', 'PYTHONHASHSEED', 'PYTHONIOENCODING'] /\n"


def test_tests_that_passed_before_the_end_count_as_a_share():
    query = Query("?", {"tests": ["assert f(1) == 1", "assert f(2) == 4", "f(0)"]})
    code = "def f(x):\n    while not x:\n        pass\n    return x * x"
    grade = CodeReward(counts="share", seconds=1.0).grade(query, Response(code))
    assert grade.total == 2 / 3
    assert grade.parts == {"passed": 0.0, "share": 2 / 3, "ran": 1.0, "in_time": 0.0}


def test_a_program_is_graded_by_what_it_writes():
    query = Query("?", {"tests": [{"input": "2\n", "output": "4"}, {"input": "3", "output": "9\n"}]})
    right, forged = "n = int(input())\nprint(n * n, ' ')\nraise SystemExit", "print(4)"
    grades = CodeReward(counts="share", workers=2).grades([(query, Response(code)) for code in (right, forged)])
    assert [grade.total for grade in grades] == [1.0, 0.5]


def test_the_last_block_of_an_answer_is_its_code():
    assert code_in("First\n```\na\n```\nthen\n```python\nb\nc\n```\nso.") == "b\nc\n"
    assert code_in("a = 1") == "a = 1"


@pytest.mark.parametrize("tests", ["", [], [1], [{"input": "1"}], {"a": "b"}, ["a", {"input": "", "output": ""}]])
def test_tests_that_are_none_are_named(tests):
    if tests == "":
        assert CodeReward().grade(Query("?", {"tests": tests}), Response("")).total == 1
        return
    with pytest.raises(RewardError, match="those of the prompt 'why'"):
        CodeReward().grade(Query("why", {"tests": tests}), Response(""))


def test_a_machine_that_cannot_confine_is_refused_with_the_reason(monkeypatch, tmp_path):
    """The file that confines says that this kernel has no Landlock; nothing of the code runs."""
    broken = tmp_path / "confinement.py"
    broken.write_text(Path(confinement.__file__).read_text().replace("_PATH_BENEATH = 444", "_PATH_BENEATH = 9999"))
    monkeypatch.setattr(sandbox, "_CONFINEMENT", str(broken))
    check_sandbox.cache_clear()
    with pytest.raises(RewardError, match="cannot be confined"):
        CodeReward().grades([(Query("?", {"tests": "pass"}), Response("pass"))])
    with pytest.raises(
        RewardError, match=r"cannot be confined on this machine: this kernel has no Landlock .*; choose another"
    ):
        CodeReward().check()
    check_sandbox.cache_clear()


def test_a_sandbox_that_holds_nothing_is_found_out(monkeypatch, tmp_path):
    open_ = tmp_path / "confinement.py"
    open_.write_text("def confine(seconds, memory, readable):\n    pass\n")
    monkeypatch.setattr(sandbox, "_CONFINEMENT", str(open_))
    monkeypatch.setattr(sandbox, "_TRIED", {"files to read": sandbox._TRIED["files to read"], "computing": "pass"})
    check_sandbox.cache_clear()
    with pytest.raises(RewardError, match=r"does not hold on this machine \(files to read; ended"):
        CodeReward().check()
    check_sandbox.cache_clear()
