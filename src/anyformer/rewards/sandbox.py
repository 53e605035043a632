"""Somebody else's Python code in a process of its own that can do nothing but compute, and what became of it."""

from __future__ import annotations

import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from anyformer.rewards.reward import RewardError

_INSIDE, _CONFINEMENT = (str(Path(__file__).with_name(name)) for name in ("confined.py", "confinement.py"))
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/etc/ld.so.cache")
"""Where shared libraries of Python's own modules are, if they are there."""
_OUTPUT = 1 << 20
"""The most bytes of output that are read; a process that writes more is ended."""
_BLOCK = 1 << 16
_STARTS, _CLOCK = 30.0, 10.0
"""Seconds of a clock that Python may take to start, and those for a second of the processor, for a busy machine."""


@dataclass(frozen=True)
class SandboxLimits:
    """Seconds of a processor, rounded up, and bytes of addresses that a process may have."""

    seconds: float
    memory: int


@dataclass(frozen=True)
class CodeOutcome:
    """What became of some code. `passed`: whether each test held; `ran`: whether the code came to its end; `output`: what it
    wrote; `ended`: in a word, `whole`, `error`, `time`, `output` or `killed`."""

    passed: tuple[bool, ...]
    ran: bool
    output: str
    ended: str


@cache
def check_sandbox() -> None:
    """`RewardError` where code cannot be held in: it says what this machine lacks, or what was not held."""
    if not sys.platform.startswith("linux"):
        raise RewardError(
            f"reward code: a sandbox needs Linux, and this is {sys.platform}: run it there, or choose another reward"
        )
    found = run_confined("", list(_TRIED.values()), SandboxLimits(5.0, 1 << 29))
    let = [name for name, held in zip(_TRIED, found.passed, strict=True) if not held]
    if let:
        raise RewardError(
            f"reward code: the sandbox does not hold on this machine ({', '.join(let)}; ended: {found.ended}): choose another "
            "reward"
        )


_REFUSED = "\ntry:\n    {}\nexcept OSError: pass\nelse: assert False"
_TRIED = {
    "computing": "assert sum(range(5)) == 10",
    "network": "import socket" + _REFUSED.format("socket.socket()"),
    "processes": "import os" + _REFUSED.format("os.fork() or os._exit(0)"),
    "files to read": _REFUSED.format("open('/etc/hostname').read()"),
    "files to write": _REFUSED.format("open('/tmp/anyformer-sandbox', 'w')"),
    "signals": "import os" + _REFUSED.format("os.kill(os.getppid(), 0)"),
}
"""What is tried before a sandbox is trusted."""


def run_confined(code: str, tests: Sequence[str], limits: SandboxLimits, given: str | None = None) -> CodeOutcome:
    """Run `code`, then each test in its names; or with `given` as its input the code alone, as a program.

    `RewardError` where the machine cannot confine it, before a line of it runs.
    """
    key = secrets.token_hex(16)
    payload = {
        "code": code, "tests": list(tests), "key": key, "whole": given is not None, "seconds": limits.seconds,
        "memory": limits.memory, "readable": _readable(),
    }  # fmt: skip
    report, inner = os.pipe()
    files = [_in_memory(json.dumps(payload)), _in_memory(given or "")]
    try:
        process = subprocess.Popen(
            [sys.executable, "-s", "-S", "-P", "-B", _INSIDE, _CONFINEMENT, str(files[0]), str(inner)],
            stdin=files[1],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(files[0], inner),
            env={"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "utf-8"},
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(inner)
        for file in files:
            os.close(file)
    assert process.stdout is not None
    with process, os.fdopen(report, "rb", buffering=0) as lines:
        try:
            pipes = (process.stdout.fileno(), lines.fileno())
            said, told, ended = _watched(pipes, key, _CLOCK * limits.seconds)
        finally:
            process.kill()
    ended = ended or ("time" if process.returncode == -signal.SIGXCPU else "")
    return _outcome(told, key, len(tests), said.decode(errors="replace"), ended)


def _in_memory(text: str) -> int:
    """An open file, at its beginning, that is on no disk."""
    file = os.memfd_create("given")
    with os.fdopen(os.dup(file), "wb") as writing:
        writing.write(text.encode(errors="replace"))
    os.lseek(file, 0, os.SEEK_SET)
    return file


@cache
def _readable() -> list[str]:
    """The places of Python's own modules and their libraries."""
    own = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(os.__file__)}
    return sorted(path for path in own | set(_LIBRARIES) if os.path.exists(path))


def _watched(pipes: tuple[int, int], key: str, seconds: float) -> tuple[bytes, bytes, str]:
    """What comes out of two pipes until both end, or the code is `seconds` old, or more came than is read."""
    found, ended = {pipe: bytearray() for pipe in pipes}, ""
    ready, until = f"{key} ready\n".encode(), time.monotonic() + _STARTS
    output, report = pipes
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        began = False
        while selector.get_map() and not ended:
            for event, _ in selector.select(max(0.0, until - time.monotonic())):
                block = os.read(event.fd, _BLOCK)
                found[event.fd] += block
                if not block:
                    selector.unregister(event.fd)
                elif len(found[event.fd]) > _OUTPUT:
                    ended = "output"
            if not began and ready in found[report]:
                began, until = True, time.monotonic() + seconds
            if not ended and time.monotonic() >= until and selector.get_map():
                ended = "time"
    return bytes(found[output]), bytes(found[report]), ended


def _outcome(report: bytes, key: str, tests: int, output: str, ended: str) -> CodeOutcome:
    """What a report and the way a process ended say; lines without the key are somebody else's."""
    lines = [line.split(" ", 1)[1] for line in report.decode(errors="replace").splitlines() if line.startswith(f"{key} ")]
    refused = next((line.removeprefix("refused ") for line in lines if line.startswith("refused ")), None)
    if refused is not None:
        raise RewardError(f"reward code: code cannot be confined on this machine: {refused}; choose another reward")
    passed = [f"test {number} 1" in lines for number in range(tests)]
    told = [line for line in lines if line.startswith("test ")]
    ran = "ran" in lines
    word = "error" if any(line.startswith("error ") for line in lines) else "killed"
    return CodeOutcome(tuple(passed), ran, output, "whole" if ran and len(told) == tests and not ended else ended or word)
