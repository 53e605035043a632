"""Trusted functions in a process beside this one, where what hangs or crashes is ended and named, and nothing else is lost."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from typing import IO, Any

from anyformer.rewards.reward import RewardError

_STARTS = 120.0
"""Seconds in which the process has to be ready: it may import much."""
_BLOCK = 1 << 16
_LOOK, _CLOCK = 0.05, 10.0
"""Seconds between two looks at what a call has taken, and those of a clock for a second of the processor."""


class AsideError(Exception):
    """A function gave no answer: it raised, hung, or its process ended. The message says which."""


class Aside:
    """A process that calls functions by their names: `module:function`, of plain data to plain data.

    It is started at the first call, and again after one that hung. Several threads may call; one call is made at a time.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._replies, self._prepared = bytearray(), set[str]()

    def call(self, function: str, arguments: Sequence[Any], seconds: float, prepare: str) -> Any:
        """What the function gives, as JSON has it, within so many seconds of a processor. `AsideError` says why there is
        nothing. `prepare`: a function without arguments that is called once before, and may take long."""
        with self._lock:
            if prepare not in self._prepared:
                try:
                    self._answer(prepare, [], _STARTS)
                except AsideError as error:
                    raise RewardError(f"the process that grades cannot begin: {error}; is what it imports installed?") from None
                self._prepared.add(prepare)
            return self._answer(function, arguments, seconds)

    def _answer(self, function: str, arguments: Sequence[Any], seconds: float) -> Any:
        line = json.dumps([function, list(arguments)], default=_refused).encode() + b"\n"
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(line)
            process.stdin.flush()
        except BrokenPipeError:
            raise AsideError(self._ended("its process ended")) from None
        reply = self._reply(process, seconds)
        if "error" in reply:
            raise AsideError(reply["error"])
        return reply["value"]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            _end(self._process)
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            # Where this process finds its modules, the other one does.
            paths = os.pathsep.join(path for path in sys.path if path)
            self._replies.clear()
            self._prepared.clear()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "anyformer.rewards.beside"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": paths},
                start_new_session=True,
            )
            weakref.finalize(self, _end, self._process)
            ready = self._reply(self._process, _STARTS)
            if "error" in ready:
                raise AsideError(self._ended(ready["error"]))
        return self._process

    def _reply(self, process: subprocess.Popen[bytes], seconds: float) -> dict[str, Any]:
        """The next line that the process writes."""
        pipe: IO[bytes] | None = process.stdout
        assert pipe is not None
        began, used = time.monotonic(), _processor(process.pid)
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._replies:
                if not selector.select(_LOOK):
                    clock = time.monotonic() - began
                    if _processor(process.pid) - used > seconds or clock > _CLOCK * seconds:
                        raise AsideError(self._ended(f"no answer within {seconds:g} s"))
                    continue
                block = os.read(pipe.fileno(), _BLOCK)
                if not block:
                    raise AsideError(self._ended(f"its process ended, with the exit code {process.wait()}"))
                self._replies += block
        line, _, rest = bytes(self._replies).partition(b"\n")
        self._replies[:] = rest
        found: dict[str, Any] = json.loads(line)
        return found

    def _ended(self, why: str) -> str:
        self.close()
        return why


def _processor(process: int) -> float:
    """Seconds of a processor that a process has taken; 0 where the system does not tell (clock_getcpuclockid(3))."""
    try:
        return time.clock_gettime((~process << 3) | 2)
    except OSError:
        return 0.0


def _refused(value: object) -> Any:
    raise AsideError(f"the record holds a {type(value).__name__}, which is no plain data")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue


_ASIDE: dict[int, Aside] = {}


def aside() -> Aside:
    """That of this process."""
    return _ASIDE.setdefault(os.getpid(), Aside())
