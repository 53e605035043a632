"""The lookout: a thread of each process of several, which answers where its process is while that waits or hangs.

It does three things. Where a process that waited too long asks for all, it answers with the stack of its own. When the
launcher is gone, however it ended, its process has seconds to save what it has. When its process was told to end and does not,
it writes down the stacks of all threads: nccl itself ends a process that waited too long, and the launcher then the one that
hangs.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from select import select
from traceback import extract_stack, extract_tb

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from anyformer.training.parallel.whereabouts import Whereabouts

PERIOD = 0.5
"""Seconds between two looks."""
ANSWERS = 4.0
"""Seconds in which every process answers that can."""
ALONE_FOR = 3.5
"""Seconds that a process goes on without its launcher."""
LATE = 8.0
"""Seconds after which a process that was told to end writes down where it is."""
ASKED = "where"
ADDRESS = "MASTER_ADDR"
"""The variable with the machine of the processes' store."""
_meeting = ""
_machines: list[str] = []
_asked = threading.Event()
"""Whether this process asked the others, and so tells why it ends."""


def look_out(meeting: str, machines: Sequence[str] = (), *, belongs: bool) -> None:
    """Start the thread; it ends with the process.

    `meeting`: a name that the processes which met now have in common, and no others; `machines`: that of each, by rank;
    `belongs`: whether the process ends with the one that started it.
    """
    global _meeting
    _meeting, _machines[:] = meeting, machines
    parent, ended, main = os.getppid(), threading.Event(), threading.main_thread().ident
    heard, hears = socket.socketpair()
    for each in (heard, hears):
        each.setblocking(False)
    if threading.current_thread() is threading.main_thread():
        # The number of every signal comes here at once, whatever Python is doing.
        signal.set_wakeup_fd(hears.fileno(), warn_on_full_buffer=False)

    def watch() -> None:
        store: Store | None = _store()
        beside = socket.create_connection(_place(), ANSWERS)
        listened, term = [heard, beside], float("inf")
        while not ended.is_set():
            ready, _, _ = select(listened, [], [], PERIOD)
            if beside in ready:
                # Nothing is ever sent here: it has ended, and with it the store, which would print a trace if it were asked.
                listened.remove(beside)
                beside.close()
                store = None
            if heard in ready and signal.SIGTERM in heard.recv(64):
                term = min(term, time.monotonic())
            if time.monotonic() - term > LATE and not _asked.is_set():
                term = float("inf")
                _say("was told to end, and is here")
                faulthandler.dump_traceback(sys.__stderr__ or 2)
            if belongs and os.getppid() != parent:
                _say("lost its launcher, saves if it can, and ends")
                # In C, so that it ends whatever holds the interpreter.
                faulthandler.dump_traceback_later(ALONE_FOR, exit=True, file=sys.__stderr__ or 2)
                return
            store = None if store is None else _answered(store, main)

    thread = threading.Thread(target=watch, name="lookout", daemon=True)
    thread.start()

    def end() -> None:
        ended.set()
        if threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(-1)
        thread.join()
        hears.close()

    atexit.register(end)


def _answered(store: Store, main: int | None) -> Store | None:
    """Answer if it was asked where this process is; the store, or None if there is nothing more to say."""
    try:
        if not store.check([ASKED]):
            return store
        frame = sys._current_frames().get(main or 0)
        if frame is not None:
            # What the process said itself stands.
            store.compare_set(str(dist.get_rank()), "", Whereabouts.of(extract_stack(frame)).text())
    except (RuntimeError, ValueError):  # the others are gone, and with them whoever would ask
        pass
    return None


def asked_all(error: BaseException) -> dict[int, Whereabouts | None]:
    """Where every process of the run is, by rank; None where one does not answer. `error`: what this process's wait ended
    with. Empty where nobody can be asked."""
    if ADDRESS not in os.environ:
        return {}
    _asked.set()
    if threading.current_thread() is threading.main_thread():
        # The launcher ends those that are left, too: that is no reason beside this one, and must not interrupt its telling.
        signal.signal(signal.SIGTERM, lambda number, frame: None)
    calls = extract_tb(error.__traceback__)
    size = dist.get_world_size()
    try:
        store = _store()
        store.set(str(dist.get_rank()), Whereabouts.of(calls).text())
        store.set(ASKED, "now")
        last = time.monotonic() + ANSWERS
        while time.monotonic() < last and not store.check([str(rank) for rank in range(size)]):
            time.sleep(PERIOD / 5)
        found = {rank: store.get(str(rank)) if store.check([str(rank)]) else None for rank in range(size)}
    except RuntimeError:
        return {}
    return {rank: None if text is None else Whereabouts.read(text.decode()) for rank, text in found.items()}


def machines() -> list[str]:
    """The machine of each process that met, by rank."""
    return _machines


def _store() -> Store:
    """The store by which the processes found one another, over a connection of its own."""
    store = TCPStore(*_place(), is_master=False, wait_for_workers=False, timeout=timedelta(seconds=ANSWERS))
    # A store outlives the processes that met.
    return PrefixStore(f"anyformer/whereabouts/{_meeting}", store)


def _place() -> tuple[str, int]:
    """The machine and the port of that store."""
    return os.environ[ADDRESS], int(os.environ["MASTER_PORT"])


def _say(what: str) -> None:
    os.write(2, f"\nrank {dist.get_rank()} on {socket.gethostname()} {what}:\n".encode())
