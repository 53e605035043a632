"""Tokenising in parallel, in order: threads of the library for short texts, processes of our own for long ones.

The processes are fresh interpreters fed through pipes, not `multiprocessing`: nothing is forked after threads have started,
and a script, notebook or prompt that calls us needs no `if __name__ == "__main__"`.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import numpy as np

from anyformer.data.pipes import environment, receive, send
from anyformer.text.errors import DataError
from anyformer.text.tokenizers import TokenArray, Tokenizer

G = TypeVar("G")
PROCESSES_FROM = 64_000_000
"""Bytes of text from which tokenising in processes is faster; below, the library's own threads are."""
CODE = "from anyformer.data.workers import serve; serve()"


def available_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def encode_in_processes(
    folder: Path, groups: Iterable[G], texts: Callable[[G], list[str]], workers: int
) -> Iterator[tuple[G, list[TokenArray]]]:
    """Each group with the tokens of its texts, in order, by `workers` processes that load the tokenizer saved in `folder`.
    At most two groups per worker are in memory."""
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()

    def encode(group: G) -> list[TokenArray]:
        worker = idle.get()
        try:
            return worker.encode(texts(group))
        finally:
            idle.put(worker)

    with ExitStack() as stack:
        started: list[_Worker] = []
        for _ in range(workers):
            started.append(_Worker(folder))
            stack.callback(started[-1].stop)
            idle.put(started[-1])
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        # If the caller stops half way, this ends the waiting of the threads: it runs before the pool is joined.
        for worker in started:
            stack.callback(worker.kill)
        pending: deque[tuple[G, Future[list[TokenArray]]]] = deque()
        for group in groups:
            pending.append((group, pool.submit(encode, group)))
            if len(pending) >= 2 * workers:
                done, future = pending.popleft()
                yield done, future.result()
        for done, future in pending:
            yield done, future.result()


def encoded_in_order(
    tokenizer: Tokenizer, folder: Path, groups: Iterable[G], texts: Callable[[G], list[str]], size: int, workers: int
) -> Generator[tuple[G, list[TokenArray]]]:
    """Each group with the tokens of its texts, in order; `size` bytes of text in all, the tokenizer saved in `folder`."""
    if workers > 1 and size >= PROCESSES_FROM and not tokenizer.instant:
        yield from encode_in_processes(folder, groups, texts, workers)
        return
    for group in groups:
        yield group, tokenizer.encode_batch(texts(group), threads=workers > 1)


class _Worker:
    """One process: a list of texts in, a list of token arrays out, one request at a time."""

    def __init__(self, folder: Path) -> None:
        # One thread each: the parallelism is in the number of processes.
        self._process = subprocess.Popen(
            [sys.executable, "-c", CODE, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(TOKENIZERS_PARALLELISM="false"),
        )

    def encode(self, texts: list[str]) -> list[TokenArray]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            send(self._process.stdin, [text.encode() for text in texts])
            error, *arrays = receive(self._process.stdout)
        except (OSError, EOFError):
            status = self._process.wait()
            raise DataError(
                f"a tokenising process ended early with status {status} (below 0: killed by that signal; "
                "else see its message above); if memory ran out, use fewer workers"
            ) from None
        if error:
            raise DataError(error.decode())
        return [np.frombuffer(array, dtype=np.uint32) for array in arrays]

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            try:
                if stream is not None:
                    stream.close()
            except OSError:  # closing flushes bytes that the process will no longer read
                pass
        self._process.wait()


def serve() -> None:
    """The loop of a worker: answer requests on standard input until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops this process
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # a stray print must not enter the answers
    tokenizer = Tokenizer.load(sys.argv[1])
    while True:
        try:
            texts = [text.decode() for text in receive(requests)]
        except EOFError:
            return
        try:
            reply = [b"", *(array.tobytes() for array in tokenizer.encode_batch(texts, threads=False))]
        except DataError as error:
            reply = [str(error).encode()]
        send(answers, reply)
